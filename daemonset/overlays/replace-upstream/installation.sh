# Sourced by replace.sh and restore.sh: finds the installation, says what hinders, changes the KubeVirt object.
# shellcheck shell=bash
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../cluster.sh"

matching_version=v1.9.0
marker=virt-handler.kubevirt.io/agent
# What replace.sh has made, and restore.sh takes away: "entry" of the list, "patches", or "customizeComponents" as a whole.
made_marker=virt-handler.kubevirt.io/restore
wait_seconds=900 any_version='' all_architectures='' accept_missing='' image=localhost/virt-handler:0.1.0

read_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --dry-run) dry_run=yes ;;
      --yes) yes=yes ;;
      --context) context=${2:?}; shift ;;
      --no-wait) wait_seconds=0 ;;
      --wait-seconds) wait_seconds=${2:?}; shift ;;
      --any-version) any_version=yes ;;
      --all-architectures) all_architectures=yes ;;
      --accept-missing) accept_missing=yes ;;
      --image) image=${2:?}; shift ;;
      -h | --help) usage ;;
      *) echo "unknown: $1" >&2; usage 2 >&2 ;;
    esac
    shift
  done
  [[ $wait_seconds =~ ^[0-9]{1,6}$ ]] || fail "--wait-seconds takes a number of seconds, not $wait_seconds"
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

# Sets generation, customized and listed (yes where customizeComponents and its patches exist, be they empty), patches (their
# number), flags (yes or empty), ours (index of our patch or empty), made (see above). One answer for all of it: what cannot be read
# must not look like what is not there, and be overwritten.
read_patches() {
  local template answer kind rest index text
  template='{{.metadata.generation}}{{"\n"}}{{range $k, $v := .spec}}{{if eq $k "customizeComponents"}}customized{{"\n"}}{{range $part, $x := $v}}{{if eq $part "patches"}}listed{{"\n"}}{{end}}{{if eq $part "flags"}}flags{{"\n"}}{{end}}{{end}}{{range $i, $p := $v.patches}}patch {{$i}} {{$p.resourceType}}/{{$p.resourceName}} {{printf "%q" $p.patch}}{{"\n"}}{{end}}{{end}}{{end}}'
  ours='' patches=0 customized='' listed='' flags='' made='' foreign=()
  answer=$(of_kubevirt "$template") || fail "KubeVirt $namespace/$name cannot be read; try again"
  generation=${answer%%$'\n'*}
  while read -r kind rest; do
    case $kind in
      customized) customized=yes ;;
      listed) listed=yes ;;
      flags) flags=yes ;;
      patch)
        index=${rest%% *} text=${rest#* }
        patches=$((index + 1))
        case $text in
          *"$marker"*)
            ours=$index
            if [[ $text =~ ${made_marker}[^a-zA-Z]+([a-zA-Z]+) ]]; then made=${BASH_REMATCH[1]}; fi
            ;;
          *) foreign+=("$text") ;;
        esac
        ;;
    esac
  done <<<"$answer"
}

# Of a JSON patch: only as long as nobody else has written the specification since it was read. (virt-operator writes the status often.)
change_kubevirt() {
  local operations="[{\"op\":\"test\",\"path\":\"/metadata/generation\",\"value\":$generation},$1]"
  if [ -n "$dry_run" ]; then
    kubectl patch kubevirt -n "$namespace" "$name" --type=json -p "$operations" --dry-run=server -o name >/dev/null
    say "would write into KubeVirt $namespace/$name, which the API server would take:"
    say "$1"
    exit 0
  fi
  kubectl patch kubevirt -n "$namespace" "$name" --type=json -p "$operations" >/dev/null ||
    fail "KubeVirt $namespace/$name was not changed: somebody else wrote it, or an operator above it forbids it; try again"
}

agent_of_template='{{with .spec.template.metadata.annotations}}{{with index . "'$marker'"}}{{.}}{{end}}{{end}}'
image_of_template='{{range .spec.template.spec.containers}}{{if eq .name "virt-handler"}}{{.image}}{{end}}{{end}}'

# Until virt-operator has taken it into the DaemonSet ($1: what the marker is then), and all nodes have it. $2: what to do else.
await_rollout() {
  [ "$wait_seconds" -gt 0 ] || { say "not waited for; watch: kubectl rollout status -n $namespace daemonset/virt-handler"; return 0; }
  local end=$((SECONDS + wait_seconds)) agent found left
  # Once more where an answer does not come: what cannot be read is not upstream's.
  until agent=$(of_daemonset "$agent_of_template") && found=$(of_daemonset "$image_of_template") &&
    [ "$agent" = "$1" ] && { [ "$1" = "" ] || [ "$found" = "$image" ]; }; do
    [ $SECONDS -lt $end ] || fail "virt-operator has not changed its DaemonSet within $wait_seconds s: look at its log"
    sleep 2
  done
  # virt-operator replaces one agent first, then a tenth at a time. To kubectl no time at all means for ever.
  left=$((end - SECONDS))
  kubectl rollout status -n "$namespace" daemonset/virt-handler --timeout="$((left > 0 ? left : 1))s" ||
    fail "not all agents were replaced in time; VMs go on running; $2"
}
