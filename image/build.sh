#!/bin/bash
# image/build.sh [--update]   builds the agent's image without a registry; --update locks the newest Debian packages first.
# Leaves .build/image/virt-handler.tar (an OCI archive) and prints its digest: the same sources and lock give the same digest.
# Needs Debian with buildah, dpkg and apt, and this tree's node_modules; no root rights but those that buildah asks for.
set -euo pipefail
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
buildah() { command buildah --root "$PWD/$work/storage" --runroot "$PWD/$work/run" --storage-driver vfs "$@"; }

node scripts/build.mjs
mkdir -p "$work"
node image/root.mjs "$work" "$@"
buildah rm --all >/dev/null
buildah build --quiet --isolation chroot --format oci --timestamp "$SOURCE_DATE_EPOCH" --file image/Containerfile --tag "$name" "$work" >/dev/null
rm -f "$work/virt-handler.tar"
buildah push --quiet "$name" "oci-archive:$work/virt-handler.tar:$name"

echo "image    $name"
echo "digest   $(tar -xOf "$work/virt-handler.tar" index.json | node -p 'JSON.parse(require("fs").readFileSync(0)).manifests[0].digest')"
echo "archive  $work/virt-handler.tar, $(du -h "$work/virt-handler.tar" | cut -f1)"
du -sh "$work"/system "$work"/agent "$work"/system/usr/bin/node | sed 's/^/size     /'
