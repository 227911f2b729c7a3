#!/bin/bash
# install.sh [options]   virt-controller in a cluster without virt-operator
#
#   --context NAME          of the kubeconfig, in place of its current one
#   --yes                   does not ask whether it is the right cluster
#   --dry-run               checks, and says what would be made
#   --no-wait               does not wait for the replicas;  --wait-seconds N (300): how long
#   --beside-virt-operator  also where virt-operator looks after KubeVirt: its controllers stay, and share the lease with these
#
# The prerequisites are those of the agent: daemonset/install.sh makes them. Run again, it changes what differs; remove.sh is the way
# back. virt-operator would put upstream's controller back in the place of this one, so beside it there are both: whoever holds the
# lease works, and the others stand by. docs/operators-guide/controller.md says how to hand over, and back.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../cluster.sh"
wait_seconds=300 beside=''

while [ $# -gt 0 ]; do
  case $1 in
    --context) context=${2:?}; shift ;;
    --yes) yes=yes ;;
    --dry-run) dry_run=yes ;;
    --no-wait) wait_seconds=0 ;;
    --wait-seconds) wait_seconds=${2:?}; shift ;;
    --beside-virt-operator) beside=yes ;;
    -h | --help) usage ;;
    *) echo "unknown: $1" >&2; usage 2 >&2 ;;
  esac
  shift
done
[[ $wait_seconds =~ ^[0-9]{1,6}$ ]] || fail "--wait-seconds takes a number of seconds, not $wait_seconds"

found() {
  kubectl get deployment -A -l "$1" -o go-template='{{range .items}}{{.metadata.namespace}}/{{.metadata.name}} {{end}}' ||
    fail "Deployments cannot be read: is this the right cluster, and may you read them?"
}

# Sets folder: beside others the Deployment has a name of its own.
check_cluster() {
  local operator others
  operator=$(found kubevirt.io=virt-operator) || exit 1
  others=$(found 'kubevirt.io=virt-controller,virt-controller.kubevirt.io/controller!=typescript') || exit 1
  folder=$here
  if [ -n "$beside" ]; then
    [ -n "$operator" ] || fail "there is no virt-operator here: leave --beside-virt-operator away"
    folder=$here/beside-virt-operator
    return 0
  fi
  [ -z "$operator" ] ||
    fail "virt-operator looks after KubeVirt here ($operator) and would put upstream's controller back; --beside-virt-operator installs this one beside it, and docs/operators-guide/controller.md says what that means"
  [ -z "$others" ] || fail "another virt-controller is here ($others): delete it first, or scale it to 0"
}

check_prerequisites() {
  local kind
  for kind in namespace/kubevirt priorityclass/kubevirt-cluster-critical \
    crd/{kubevirts,virtualmachines,virtualmachineinstances,virtualmachineinstancemigrations}.kubevirt.io; do
    [ -n "$(kubectl get --ignore-not-found "$kind" -o name)" ] || fail "$kind is missing: daemonset/install.sh makes it"
  done
}

apply_new_vms() {
  local version
  version=$(policy_version)
  if [ -z "$version" ]; then
    say "new-vms.yaml is left out: this API server has no MutatingAdmissionPolicy; each new VM costs one write more"
    return 0
  fi
  sed "s|^apiVersion: .*|apiVersion: $version|" "$here/new-vms.yaml" | kubectl "$@" -f -
}

confirm_cluster "install virt-controller there?"
check_cluster
check_prerequisites
kubectl kustomize "$folder" >/dev/null || fail "kubectl cannot read $folder"
if [ -n "$dry_run" ]; then
  kubectl kustomize "$folder" | sed -n 's/^kind: /would apply a /p'
  apply_new_vms create --dry-run=client -o name | sed 's/^/would apply /'
  exit 0
fi
kubectl apply -k "$folder"
apply_new_vms apply
[ "$wait_seconds" -gt 0 ] || exit 0
name=$(kubectl get -k "$folder" -o go-template='{{range .items}}{{if eq .kind "Deployment"}}{{.metadata.name}}{{end}}{{end}}')
kubectl rollout status -n kubevirt "deployment/$name" --timeout="${wait_seconds}s" ||
  fail "not all replicas are ready; their certificate, secret kubevirt-controller-certs, may be missing: docs/operators-guide/controller.md"
