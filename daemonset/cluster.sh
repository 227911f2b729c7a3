# Sourced by install.sh, replace.sh and restore.sh: kubectl, the cluster it speaks to, and a question before that is changed.
# shellcheck shell=bash
set -euo pipefail

context='' yes='' dry_run=''

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }
say() { echo "$*"; }

# The first comment of the script itself.
usage() {
  sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
  exit "${1:-0}"
}

kubectl() { command kubectl ${context:+--context "$context"} "$@"; }

# Says which cluster is meant; a person is asked, a pipeline is not.
confirm_cluster() {
  type -P kubectl >/dev/null || fail "kubectl is missing"
  local config answer
  config=$(kubectl config view --minify -o go-template='{{range .contexts}}{{.name}}{{end}} {{range .clusters}}{{.cluster.server}}{{end}}') ||
    fail "kubectl has no ${context:+such }context${context:+: $context}"
  say "cluster: ${config% *}, ${config##* }"
  if [ -n "$yes$dry_run" ] || [ ! -t 0 ]; then return 0; fi
  read -r -p "$1 [y/N] " answer
  [ "$answer" = y ] || fail "nothing was changed"
}

# The version in which the API server has policies that change objects, with its group; empty: none. Fails when the server does not say; what
# it has of other groups, which may be away, is not asked for.
policy_version() {
  local group=admissionregistration.k8s.io found version
  found=$(kubectl get --raw "/apis/$group") || return
  for version in $(grep -o "$group/[a-z0-9]*" <<<"$found"); do
    found=$(kubectl get --raw "/apis/$version") || return
    case $found in *'"mutatingadmissionpolicies"'*) echo "$version"; return ;; esac
  done
}
