#!/bin/bash
# restore.sh [options]   upstream's agent again, after replace.sh
#
#   --context NAME      of the kubeconfig, in place of its current one
#   --yes               does not ask whether it is the right cluster
#   --dry-run           says what it would write, and changes nothing
#   --no-wait           does not wait for the rollout;  --wait-seconds N (900): how long
#
# VMs go on running. Other patches of the KubeVirt object stay. Needs kubectl and rights to patch the KubeVirt object.

. "$(dirname "$0")/installation.sh"
read_arguments "$@"
confirm_cluster "upstream's agent again there?"
find_kubevirt
read_patches
if [ -z "$ours" ]; then
  agent=$(of_daemonset "$agent_of_template") || fail "there is no DaemonSet virt-handler in namespace $namespace, or it cannot be read"
  # A run that was ended while it waited is gone on with; another one finds nothing to do.
  [ "$agent" != "" ] || { say "KubeVirt $namespace/$name has no patch of replace.sh: nothing to do"; exit 0; }
  say "the patch of replace.sh is gone from KubeVirt $namespace/$name, and virt-operator has not followed yet"
  [ -z "$dry_run" ] || exit 0
else
  path=/spec/customizeComponents
  # What replace.sh made, where nobody else has put anything into it since.
  if [ "$patches" -gt 1 ] || [ "$made" = entry ]; then change="{\"op\":\"remove\",\"path\":\"$path/patches/$ours\"}"
  elif [ -n "$flags" ] || [ "$made" = patches ]; then change="{\"op\":\"remove\",\"path\":\"$path/patches\"}"
  else change="{\"op\":\"remove\",\"path\":\"$path\"}"; fi
  say "KubeVirt $namespace/$name: back to upstream's agent"
  change_kubevirt "$change"
fi
await_rollout "" "look at kubectl get pods -n $namespace -l kubevirt.io=virt-handler"
