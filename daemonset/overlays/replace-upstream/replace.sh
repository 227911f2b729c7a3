#!/bin/bash
# replace.sh [options]   this agent in place of upstream's, in an installation that virt-operator looks after
#
#   --image IMAGE       default: localhost/virt-handler:0.1.0; it must be on the nodes, or they must be able to pull it
#   --context NAME      of the kubeconfig, in place of its current one
#   --yes               does not ask whether it is the right cluster
#   --dry-run           checks everything, asks the API server whether it would take the change, and changes nothing
#   --no-wait           does not wait for the rollout;  --wait-seconds N (900): how long
#   --any-version       also where KubeVirt is not v1.9.0, which this agent was made for
#   --all-architectures the image is for every architecture that the nodes have
#   --accept-missing    accepted; nothing that VMs use needs it at present
#
# VMs go on running while agents are replaced. restore.sh is the way back. Needs kubectl and rights to patch the KubeVirt object.

. "$(dirname "$0")/installation.sh"
read_arguments "$@"

check_installation() {
  local phase version unavailable
  phase=$(of_kubevirt '{{with .status}}{{.phase}}{{end}}')
  # A rollout of this agent that got stuck, at an image that does not start for example, is mended by another one.
  [ "$phase" = Deployed ] || [ -n "$ours" ] ||
    fail "KubeVirt $namespace/$name is ${phase:-without a phase}, not Deployed: let it settle first"
  version=$(of_kubevirt '{{with .status}}{{with .observedKubeVirtVersion}}{{.}}{{end}}{{end}}')
  [ "$version" = "$matching_version" ] || [ -n "$any_version" ] ||
    fail "KubeVirt is ${version:-of no known version} and this agent was made for $matching_version; --any-version tries it all the same"
  unavailable=$(of_daemonset '{{with .status.numberUnavailable}}{{.}}{{end}}') ||
    fail "there is no DaemonSet virt-handler in namespace $namespace, or it cannot be read"
  [ "$unavailable" = "" ] || [ -n "$ours" ] ||
    fail "some agents are not available now: kubectl get pods -n $namespace -l kubevirt.io=virt-handler; repair that first"
}

# Two patches of one field would be laid on in the order of their length.
check_foreign_patches() {
  local patch
  for patch in "${foreign[@]+"${foreign[@]}"}"; do
    case ${patch,,} in
      daemonset/virt-handler\ * | \*/virt-handler\ * | daemonset/\*\ * | \*/\*\ *)
        case $patch in
          *image* | *Probe*) fail "another patch of customizeComponents changes the agent's image or probes: $patch" ;;
        esac
        say "note: another patch of the agent stays: $patch"
        ;;
    esac
  done
}

# An image of one architecture does not start on nodes of another, and leaves their VMs without an agent.
check_architectures() {
  local found
  found=$(kubectl get nodes -l kubevirt.io/schedulable -o go-template='{{range .items}}{{.status.nodeInfo.architecture}}{{"\n"}}{{end}}' | sort -u | tr '\n' ' ') ||
    fail "nodes cannot be read: may you list them?"
  [ "$(wc -w <<<"$found")" -le 1 ] || [ -n "$all_architectures" ] ||
    fail "nodes have several architectures: ${found% }; --all-architectures says that the image is for all of them"
}

check_needs() {
  local migrations unread="migrations cannot be read: may you list them in all namespaces?"
  migrations=$(kubectl get virtualmachineinstancemigrations.kubevirt.io -A -o go-template='{{range .items}}{{$p := ""}}{{with .status}}{{$p = .phase}}{{end}}{{if and (ne $p "Succeeded") (ne $p "Failed")}}{{.metadata.namespace}}/{{.metadata.name}}{{"\n"}}{{end}}{{end}}') || fail "$unread"
  [ -z "$migrations" ] || fail "migrations are under way; wait for them: $(tr '\n' ' ' <<<"$migrations")"
}

# As one JSON string, with what is made for it. The image stands in it once.
our_patch() {
  local patch agent="\"$marker\":\"typescript\""
  patch=$(kubectl create --dry-run=client -f "$here/kubevirt.yaml" -o go-template='{{(index .spec.customizeComponents.patches 0).patch}}') ||
    fail "kubevirt.yaml could not be read by kubectl; try again"
  [[ $patch == *"$marker"* ]] || fail "kubevirt.yaml holds no patch of this agent"
  patch=${patch//localhost\/virt-handler:0.1.0/$image}
  [ -z "$made" ] || patch=${patch/$agent/$agent,\"$made_marker\":\"$made\"}
  patch=${patch//\"/\\\"}
  echo "{\"resourceType\":\"DaemonSet\",\"resourceName\":\"virt-handler\",\"type\":\"strategic\",\"patch\":\"$patch\"}"
}

[[ $image =~ ^[A-Za-z0-9][A-Za-z0-9._/:@-]*$ ]] || fail "this is no name of an image: $image"
confirm_cluster "replace upstream's agent there?"
find_kubevirt
read_patches
check_installation
check_foreign_patches
check_architectures
check_needs
path=/spec/customizeComponents
if [ -n "$ours" ]; then :
elif [ -n "$listed" ]; then made=entry
elif [ -n "$customized" ]; then made=patches
else made=customizeComponents; fi
entry=$(our_patch) || exit 1
if [ -n "$ours" ]; then change="{\"op\":\"replace\",\"path\":\"$path/patches/$ours\",\"value\":$entry}"
else
  case $made in
    entry) change="{\"op\":\"add\",\"path\":\"$path/patches/-\",\"value\":$entry}" ;;
    patches) change="{\"op\":\"add\",\"path\":\"$path/patches\",\"value\":[$entry]}" ;;
    *) change="{\"op\":\"add\",\"path\":\"$path\",\"value\":{\"patches\":[$entry]}}" ;;
  esac
fi
was=$(of_daemonset "$image_of_template") || fail "the DaemonSet cannot be read; try again"
say "KubeVirt $namespace/$name: $was -> $image"
change_kubevirt "$change"
await_rollout typescript "the way back: $here/restore.sh"
