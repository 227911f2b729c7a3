#!/bin/bash
# image/load.sh <where> [name]   brings the image of image/build.sh to where nodes find it
#
#   kind [cluster]        into all nodes of a kind cluster
#   containerd            into this machine's containerd, for the kubelet (namespace k8s.io); run it on each node
#   crio                  into this machine's storage of containers, for CRI-O; run it on each node
#   registry <name[:tag]> into a registry, e.g. registry.example:5000/virt-handler; without a tag: the image's own, its version.
#                         Logins are those of buildah login; TLS_VERIFY=false for a registry without TLS
#
# Prints the name to give to replace.sh --image, or to `kustomize edit set image localhost/virt-handler=NAME`.
set -euo pipefail
cd "$(dirname "$0")/.."
archive=.build/image/virt-handler.tar

fail() { echo "load: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || fail "$1 is missing: $2"; }
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'; exit "${1:-0}"; }

case ${1:-} in -h | --help) usage ;; '') usage 2 >&2 ;; esac
[ -f "$archive" ] || fail "$archive is missing: run image/build.sh first"
name=$(tar -xOf "$archive" index.json | sed -n 's/.*"org.opencontainers.image.ref.name":"\([^"]*\)".*/\1/p')
[ -n "$name" ] || fail "$archive names no image: run image/build.sh again"
work=.build/image
# The storage of image/build.sh; the image is in there as well as in the archive.
storage=(--root "$PWD/$work/storage" --runroot "$PWD/$work/run" --storage-driver vfs)
push() { need buildah "apt-get install --no-install-recommends buildah"; buildah "${storage[@]}" push --signature-policy image/policy.json --quiet "$@"; }

case $1 in
  kind)
    need kind https://kind.sigs.k8s.io
    # It reads the names in an archive of Docker's form only.
    rm -f "$work/docker.tar"
    push "$name" "docker-archive:$work/docker.tar:$name"
    kind load image-archive "$work/docker.tar" --name "${2:-kind}"
    rm "$work/docker.tar"
    ;;
  containerd)
    need ctr "it comes with containerd"
    # The kubelet's images have a namespace of their own.
    ctr ${CONTAINERD_ADDRESS:+--address "$CONTAINERD_ADDRESS"} --namespace k8s.io images import "$archive"
    ;;
  crio)
    need buildah "apt-get install --no-install-recommends buildah"
    buildah pull --quiet "oci-archive:$archive" >/dev/null
    ;;
  registry)
    target=${2:-}
    # A host, a path, perhaps a tag; a colon before the last slash is that of a port.
    if [[ $target =~ ^([^/@]+/([^/:@]+/)*[^/:@]+)(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$ ]]; then
      repository=${BASH_REMATCH[1]} tag=${BASH_REMATCH[3]:-:${name##*:}}
    else fail "give the name to push to, e.g. registry.example:5000/virt-handler or registry.example/virt-handler:0.1.0"; fi
    push ${TLS_VERIFY:+--tls-verify="$TLS_VERIFY"} --digestfile "$work/pushed" "$name" "docker://$repository$tag"
    name=$repository@$(cat "$work/pushed")
    ;;
  *) usage 2 >&2 ;;
esac
echo "$name"
