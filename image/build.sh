#!/bin/bash
# image/build.sh [--arch ARCH] [--update]   builds the agent's image without a registry
#
#   --arch ARCH   amd64 or arm64, on any machine: nothing is run in the image while it is built; default: this machine's
#   --update      locks the newest Debian packages first
#
# Leaves .build/image/virt-handler.tar (an OCI archive) and prints its digest: the same sources and lock give the same digest.
# Needs Debian with buildah, dpkg and apt, and this tree's node_modules; no root rights but those that buildah asks for.
set -euo pipefail
arch='' update=''
while [ $# -gt 0 ]; do
  case $1 in
    --arch) arch=${2:?}; shift ;;
    --update) update=--update ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'; exit 0 ;;
    *) echo "image: unknown: $1" >&2; exit 2 ;;
  esac
  shift
done
cd "$(dirname "$0")/.."
for tool in buildah dpkg-deb apt-get npm; do
  command -v "$tool" >/dev/null || { echo "image: $tool is missing (apt-get install --no-install-recommends buildah dpkg)" >&2; exit 1; }
done

version=$(node -p "require('./package.json').version")
name=localhost/virt-handler:$version
# The time of every file: that of the commit, so that it says something, or the caller's.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
work=.build/image
# A storage of its own: nothing of other images is read, changed or kept.
# The policy is given: without the packages that `apt-get --no-install-recommends` leaves out, or half way through an upgrade, there is
# none in /etc/containers, and nothing is built or written. Nothing is asked for here that could be signed.
buildah() { command buildah --root "$PWD/$work/storage" --runroot "$PWD/$work/run" --storage-driver vfs "$@"; }

arch=${arch:-$(dpkg --print-architecture)}
case $arch in amd64 | arm64) ;; *) echo "image: no image for $arch: Node.js and koffi are locked for amd64 and arm64" >&2; exit 2 ;; esac

node scripts/build.mjs
mkdir -p "$work"
node image/root.mjs "$work" "$arch" ${update:+"$update"}
buildah rm --all >/dev/null
buildah build --signature-policy image/policy.json --quiet --isolation chroot --format oci --platform "linux/$arch" --timestamp "$SOURCE_DATE_EPOCH" --file image/Containerfile --tag "$name" "$work" >/dev/null
# What is ended half way leaves the archive that was there.
rm -f "$work/new.tar"
buildah push --signature-policy image/policy.json --quiet "$name" "oci-archive:$work/new.tar:$name"
mv "$work/new.tar" "$work/virt-handler.tar"
# The image of the build before has lost its name: 134 MB that nobody would ever ask for.
buildah rmi --prune >/dev/null

echo "image    $name, $arch"
echo "digest   $(tar -xOf "$work/virt-handler.tar" index.json | node -p 'JSON.parse(require("fs").readFileSync(0)).manifests[0].digest')"
echo "archive  $work/virt-handler.tar, $(du -h "$work/virt-handler.tar" | cut -f1)"
echo "parts    $work/virt-handler.cdx.json, its bill of materials; also in it, below /usr/share/sbom"
du -sh "$work"/system "$work"/agent "$work"/system/usr/bin/node | sed 's/^/size     /'
