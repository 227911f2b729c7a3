#!/bin/bash
# install.sh [options] [folder]   the agent in a cluster without virt-operator; the folder is an overlay (default: this one)
#
#   --context NAME      of the kubeconfig, in place of its current one
#   --yes               does not ask whether it is the right cluster
#   --dry-run           checks, and says what would be made
#   --no-wait           does not wait for the agents;  --wait-seconds N (300): how long
#
# Makes what is missing of prerequisites/ and applies the folder; run again, it changes what differs. Where virt-operator looks after
# KubeVirt it refuses and changes nothing: overlays/replace-upstream/replace.sh is the way there.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/cluster.sh"
wait_seconds=300 folder=$here

while [ $# -gt 0 ]; do
  case $1 in
    --context) context=${2:?}; shift ;;
    --yes) yes=yes ;;
    --dry-run) dry_run=yes ;;
    --no-wait) wait_seconds=0 ;;
    --wait-seconds) wait_seconds=${2:?}; shift ;;
    -h | --help) usage ;;
    -*) echo "unknown: $1" >&2; usage 2 >&2 ;;
    *) folder=$1 ;;
  esac
  shift
done
[[ $wait_seconds =~ ^[0-9]{1,6}$ ]] || fail "--wait-seconds takes a number of seconds, not $wait_seconds"
[ -f "$folder/kustomization.yaml" ] || fail "$folder holds no kustomization.yaml"

# Agents that are not of these manifests, or an operator that makes some: two agents on a node would tear at the same VMs.
check_cluster() {
  local others kind
  for kind in deployment=virt-operator 'daemonset=virt-handler,virt-handler.kubevirt.io/agent!=typescript'; do
    others=$(kubectl get "${kind%%=*}" -A -l "kubevirt.io=${kind#*=}" -o go-template='{{range .items}}{{.metadata.namespace}}/{{.metadata.name}} {{end}}') ||
      fail "${kind%%=*}s cannot be read: is this the right cluster, and may you read them?"
    [ -z "$others" ] || fail "KubeVirt is installed here (${kind%%=*} $others): overlays/replace-upstream/replace.sh puts this agent in place of its own"
  done
}

# One by one, and only what is not there: these are never overwritten.
make_prerequisites() {
  local file name found
  for file in "$here"/prerequisites/namespace.yaml "$here"/prerequisites/priority-class.yaml "$here"/prerequisites/crds/*.yaml; do
    name=$(kubectl create --dry-run=client -f "$file" -o name) || fail "$file could not be read by kubectl"
    found=$(kubectl get --ignore-not-found -f "$file" -o name) || fail "$name cannot be read"
    if [ -n "$found" ]; then continue
    elif [ -n "$dry_run" ]; then say "would make $name"
    else kubectl create -f "$file"; fi
  done
  [ -n "$dry_run" ] || kubectl wait --for=condition=Established --timeout=60s -f "$here/prerequisites/crds" >/dev/null
}

confirm_cluster "install the agent there?"
# Before anything is made.
kubectl kustomize "$folder" >/dev/null ||
  fail "kubectl cannot read $folder; one of Kubernetes 1.20 or older, as Debian 12 has it, never can"
check_cluster
make_prerequisites
if [ -n "$dry_run" ]; then
  kubectl kustomize "$folder" | sed -n 's/^kind: /would apply a /p'
  exit 0
fi
kubectl apply -k "$folder"
[ "$wait_seconds" -gt 0 ] || exit 0
agents=$(kubectl get -k "$folder" -o go-template='{{range .items}}{{if eq .kind "DaemonSet"}}{{.metadata.namespace}} {{.metadata.name}}{{"\n"}}{{end}}{{end}}')
while read -r namespace name; do
  [ -n "$name" ] || continue
  kubectl rollout status -n "$namespace" "daemonset/$name" --timeout="${wait_seconds}s" </dev/null ||
    fail "not all agents are ready; their certificates may be missing: docs/operators-guide/troubleshooting.md"
done <<<"$agents"
