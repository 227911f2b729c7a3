#!/bin/bash
# restore.sh [options]   upstream's agent again, after replace.sh
#
#   --dry-run           says what it would write, and changes nothing
#   --no-wait           does not wait for the rollout;  --wait-seconds N (900): how long
#
# VMs go on running. Other patches of the KubeVirt object stay. Needs kubectl and rights to patch the KubeVirt object.

. "$(dirname "$0")/installation.sh"
read_arguments "$@"
find_kubevirt
read_patches
if [ -z "$ours" ]; then
  [ "$(agent_of_template)" = "" ] || fail "the agent is not upstream's, and the KubeVirt object does not say so: who changed the DaemonSet?"
  say "KubeVirt $namespace/$name has no patch of replace.sh: nothing to do"
  exit 0
fi
path=/spec/customizeComponents
if [ "$patches" -gt 1 ]; then change="{\"op\":\"remove\",\"path\":\"$path/patches/$ours\"}"
elif [ -n "$flags" ]; then change="{\"op\":\"remove\",\"path\":\"$path/patches\"}"
else change="{\"op\":\"remove\",\"path\":\"$path\"}"; fi
say "KubeVirt $namespace/$name: back to upstream's agent"
change_kubevirt "$change"
await_rollout "" "look at kubectl get pods -n $namespace -l kubevirt.io=virt-handler"
