#!/bin/bash
# replace.sh [options]   this agent in place of upstream's, in an installation that virt-operator looks after
#
#   --image IMAGE       default: localhost/virt-handler:0.1.0; it must be on the nodes, or they must be able to pull it
#   --dry-run           checks everything, asks the API server whether it would take the change, and changes nothing
#   --no-wait           does not wait for the rollout;  --wait-seconds N (900): how long
#   --any-version       also where KubeVirt is not v1.9.0, which this agent was made for
#   --accept-missing    also where VMs use what this agent cannot do yet
#
# VMs go on running while agents are replaced. restore.sh is the way back. Needs kubectl and rights to patch the KubeVirt object.

. "$(dirname "$0")/installation.sh"
read_arguments "$@"
find_kubevirt

check_installation() {
  local phase version
  phase=$(of_kubevirt '{{with .status}}{{.phase}}{{end}}')
  [ "$phase" = Deployed ] || fail "KubeVirt $namespace/$name is ${phase:-without a phase}, not Deployed: let it settle first"
  version=$(of_kubevirt '{{with .status}}{{.observedKubeVirtVersion}}{{end}}')
  [ "$version" = "$matching_version" ] || [ -n "$any_version" ] ||
    fail "KubeVirt is $version and this agent was made for $matching_version; --any-version tries it all the same"
  of_daemonset '{{.metadata.name}}' >/dev/null || fail "there is no DaemonSet virt-handler in namespace $namespace"
  [ "$(of_daemonset '{{with .status.numberUnavailable}}{{.}}{{end}}')" = "" ] ||
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

check_needs() {
  local hotplug networks migrations
  hotplug=$(kubectl get virtualmachineinstances.kubevirt.io -A -o go-template='{{range .items}}{{$m := .metadata}}{{with .status}}{{range .volumeStatus}}{{if .hotplugVolume}}{{$m.namespace}}/{{$m.name}}{{"\n"}}{{end}}{{end}}{{end}}{{end}}' | sort -u)
  networks=$(kubectl get virtualmachineinstances.kubevirt.io -A -o go-template='{{range .items}}{{if .spec.networks}}{{.metadata.namespace}}/{{.metadata.name}}{{"\n"}}{{end}}{{end}}')
  migrations=$(kubectl get virtualmachineinstancemigrations.kubevirt.io -A -o go-template='{{range .items}}{{$p := ""}}{{with .status}}{{$p = .phase}}{{end}}{{if and (ne $p "Succeeded") (ne $p "Failed")}}{{.metadata.namespace}}/{{.metadata.name}}{{"\n"}}{{end}}{{end}}')
  [ -z "$migrations" ] || fail "migrations are under way; wait for them: $(tr '\n' ' ' <<<"$migrations")"
  [ -n "$hotplug$networks" ] || return 0
  [ -z "$hotplug" ] || say "VMs with hot-plugged volumes, which this agent does not attach yet: $(tr '\n' ' ' <<<"$hotplug")"
  [ -z "$networks" ] || say "VMs with networks, which this agent does not prepare in pods yet: $(tr '\n' ' ' <<<"$networks")"
  [ -n "$accept_missing" ] || fail "those VMs go on running, and would not start or migrate again; --accept-missing goes on"
}

# As one JSON string. The image stands in it once.
our_patch() {
  local patch
  patch=$(kubectl create --dry-run=client -f "$here/kubevirt.yaml" -o go-template='{{(index .spec.customizeComponents.patches 0).patch}}') ||
    fail "kubevirt.yaml could not be read by kubectl; try again"
  [[ $patch == *"$marker"* ]] || fail "kubevirt.yaml holds no patch of this agent"
  patch=${patch//localhost\/virt-handler:0.1.0/$image}
  patch=${patch//\"/\\\"}
  echo "{\"resourceType\":\"DaemonSet\",\"resourceName\":\"virt-handler\",\"type\":\"strategic\",\"patch\":\"$patch\"}"
}

[[ $image =~ ^[A-Za-z0-9][A-Za-z0-9._/:@-]*$ ]] || fail "this is no name of an image: $image"
check_installation
read_patches
check_foreign_patches
check_needs
entry=$(our_patch) || exit 1
path=/spec/customizeComponents
if [ -z "$customized" ]; then change="{\"op\":\"add\",\"path\":\"$path\",\"value\":{\"patches\":[$entry]}}"
elif [ -z "$patches" ]; then change="{\"op\":\"add\",\"path\":\"$path/patches\",\"value\":[$entry]}"
elif [ -n "$ours" ]; then change="{\"op\":\"replace\",\"path\":\"$path/patches/$ours\",\"value\":$entry}"
else change="{\"op\":\"add\",\"path\":\"$path/patches/-\",\"value\":$entry}"; fi
say "KubeVirt $namespace/$name: $(image_of_template) -> $image"
change_kubevirt "$change"
await_rollout typescript "the way back: $here/restore.sh"
