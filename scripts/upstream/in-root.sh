#!/bin/bash
# scripts/upstream/in-root.sh <root> <command...>   runs a command, as root, with <root> as its file system
#
# Own: mounts and processes; network and certificates are this machine's. GO_ROOT, GO_MODULES and GO_BUILDS are seen in there at the same paths.
set -euo pipefail

if [ "${1-}" != --inside ]; then
  exec unshare --mount --pid --fork --kill-child --propagation private bash "$0" --inside "$@"
fi

root=$(readlink -f "$2")
shift 2
mount --bind "$root" "$root"
for place in /dev /sys; do mount --rbind "$place" "$root$place"; done
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
for place in ${GO_ROOT-} ${GO_MODULES-} ${GO_BUILDS-} /etc/ssl/certs; do
  mkdir -p "$root$place"
  mount --bind "$place" "$root$place"
done
for folder in /usr/local/share/ca-certificates /usr/share/ca-certificates; do
  [ ! -d "$folder" ] || { mkdir -p "$root$folder"; mount --bind "$folder" "$root$folder"; }
done
mkdir -p "$root/run/lock" "$root/run/old"
cat /etc/resolv.conf >"$root/etc/resolv.conf"
cd "$root"
pivot_root . run/old
umount -l /run/old
exec env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive PATH="/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin${GO_ROOT:+:$GO_ROOT/bin}" \
  GOMODCACHE="${GO_MODULES-}" GOCACHE="${GO_BUILDS-}" GOFLAGS='-mod=mod -buildvcs=false' GOTOOLCHAIN=local "$@"
