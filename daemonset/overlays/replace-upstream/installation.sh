# Sourced by replace.sh and restore.sh: finds the installation, says what hinders, changes the KubeVirt object.
# shellcheck shell=bash
set -euo pipefail

matching_version=v1.9.0
marker=virt-handler.kubevirt.io/agent
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dry_run= wait_seconds=900 any_version= accept_missing= image=localhost/virt-handler:0.1.0

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }
say() { echo "$*"; }

usage() {
  sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
  exit "${1:-0}"
}

read_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --dry-run) dry_run=yes ;;
      --no-wait) wait_seconds=0 ;;
      --wait-seconds) wait_seconds=${2:?}; shift ;;
      --any-version) any_version=yes ;;
      --accept-missing) accept_missing=yes ;;
      --image) image=${2:?}; shift ;;
      -h | --help) usage ;;
      *) echo "unknown: $1" >&2; usage 2 >&2 ;;
    esac
    shift
  done
}

# Sets namespace and name of the one KubeVirt object.
find_kubevirt() {
  local found
  found=$(kubectl get kubevirts.kubevirt.io -A -o go-template='{{range .items}}{{.metadata.namespace}} {{.metadata.name}}{{"\n"}}{{end}}') ||
    fail "the KubeVirt objects cannot be read: is this the right cluster, and may you read them?"
  [ -n "$found" ] || fail "this cluster has no KubeVirt object: nothing to replace; daemonset/README.md says how to install"
  [ "$(wc -l <<<"$found")" = 1 ] || fail "this cluster has more than one KubeVirt object: $(tr '\n' ';' <<<"$found")"
  read -r namespace name <<<"$found"
}

of_kubevirt() { kubectl get kubevirt -n "$namespace" "$name" -o "go-template=$1"; }
of_daemonset() { kubectl get daemonset -n "$namespace" virt-handler -o "go-template=$1"; }

# Sets resource_version, ours (index of our patch or empty), patches (their number or empty), customized (yes or empty), flags
# (yes or empty). One answer for all of it: what cannot be read must not look like what is not there, and be overwritten.
read_patches() {
  local template answer kind rest index text
  template='{{.metadata.resourceVersion}}{{"\n"}}{{with .spec}}{{with .customizeComponents}}customized{{"\n"}}{{if .flags}}flags{{"\n"}}{{end}}{{range $i, $p := .patches}}patch {{$i}} {{$p.resourceType}}/{{$p.resourceName}} {{printf "%q" $p.patch}}{{"\n"}}{{end}}{{end}}{{end}}'
  ours= patches= customized= flags= foreign=()
  answer=$(of_kubevirt "$template") || fail "KubeVirt $namespace/$name cannot be read; try again"
  resource_version=${answer%%$'\n'*}
  while read -r kind rest; do
    case $kind in
      customized) customized=yes ;;
      flags) flags=yes ;;
      patch)
        index=${rest%% *} text=${rest#* }
        patches=$((index + 1))
        case $text in
          *"$marker"*) ours=$index ;;
          *) foreign+=("$text") ;;
        esac
        ;;
    esac
  done <<<"$answer"
}

# Of a JSON patch: only as long as nobody else has written the object since it was read.
change_kubevirt() {
  local operations="[{\"op\":\"test\",\"path\":\"/metadata/resourceVersion\",\"value\":\"$resource_version\"},$1]"
  if [ -n "$dry_run" ]; then
    kubectl patch kubevirt -n "$namespace" "$name" --type=json -p "$operations" --dry-run=server -o name >/dev/null
    say "would write into KubeVirt $namespace/$name, which the API server would take:"
    say "$1"
    exit 0
  fi
  kubectl patch kubevirt -n "$namespace" "$name" --type=json -p "$operations" >/dev/null ||
    fail "KubeVirt $namespace/$name was not changed: somebody else wrote it, or an operator above it forbids it; try again"
}

agent_of_template() { of_daemonset "{{with .spec.template.metadata.annotations}}{{with index . \"$marker\"}}{{.}}{{end}}{{end}}"; }
image_of_template() { of_daemonset '{{range .spec.template.spec.containers}}{{if eq .name "virt-handler"}}{{.image}}{{end}}{{end}}'; }

# Until virt-operator has taken it into the DaemonSet ($1: what the marker is then), and all nodes have it.
await_rollout() {
  [ "$wait_seconds" -gt 0 ] || { say "not waited for; watch: kubectl rollout status -n $namespace daemonset/virt-handler"; return 0; }
  local end=$((SECONDS + wait_seconds))
  until [ "$(agent_of_template)" = "$1" ] && { [ "$1" = "" ] || [ "$(image_of_template)" = "$image" ]; }; do
    [ $SECONDS -lt $end ] || fail "virt-operator has not changed its DaemonSet within $wait_seconds s: look at its log"
    sleep 2
  done
  # virt-operator replaces one agent first, then a tenth at a time.
  kubectl rollout status -n "$namespace" daemonset/virt-handler --timeout="$((end - SECONDS))s" ||
    fail "not all agents were replaced in time; VMs go on running; $2"
}
