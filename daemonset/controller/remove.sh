#!/bin/bash
# remove.sh [options]   takes away what install.sh has made; nothing of VMs, CRDs and the agent
#
#   --context NAME   of the kubeconfig, in place of its current one
#   --yes            does not ask whether it is the right cluster
#   --dry-run        says what would be deleted
#
# VMs go on running. Beside virt-operator upstream's controllers go on within a second: the lease is given back.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../cluster.sh"

while [ $# -gt 0 ]; do
  case $1 in
    --context) context=${2:?}; shift ;;
    --yes) yes=yes ;;
    --dry-run) dry_run=yes ;;
    -h | --help) usage ;;
    *) echo "unknown: $1" >&2; usage 2 >&2 ;;
  esac
  shift
done

ours=virt-controller.kubevirt.io/controller=typescript
confirm_cluster "remove virt-controller there?"
# The account and the service for metrics are upstream's, too, where it is.
remove() {
  if [ -n "$dry_run" ]; then kubectl get --ignore-not-found "$@" -o name | sed 's/^/would delete /'
  else kubectl delete --ignore-not-found "$@"; fi
}
# First, and alone when that fails: no VM is to get a finalizer that no controller takes off. An API server without such policies does not know
# the names.
policies=$(policy_version)
[ -z "$policies" ] || remove mutatingadmissionpolicybinding,mutatingadmissionpolicy -l "$ours"
remove deployment -n kubevirt -l "$ours"
remove poddisruptionbudget -n kubevirt -l "$ours"
remove clusterrolebinding,clusterrole -l "$ours"
remove rolebinding,role -n kubevirt -l "$ours"
