#!/bin/sh
# sh bench/upstream-agent.sh DIRECTORY FLAGS…
# Upstream's virt-handler of DIRECTORY, with its virt-chroot (scripts/upstream-parts.mjs builds both), as `--vs` of a bench: in the mount namespace that the bench gives each agent,
# so nothing of it is seen on the machine. The agent takes this process' id.
set -e
directory=$(realpath "$1")
shift
scratch=$(mktemp -d)
mount -t tmpfs tmpfs "$scratch"

# The user that guests run as.
cp /etc/passwd "$scratch/passwd"
grep -q '^qemu:' "$scratch/passwd" || echo 'qemu:x:107:107::/:/usr/sbin/nologin' >> "$scratch/passwd"
mount --bind "$scratch/passwd" /etc/passwd

# Its helper, by the only name that it knows.
mkdir "$scratch/upper" "$scratch/work"
cp "$directory/virt-chroot" "$scratch/upper/virt-chroot"
mount -t overlay -o "lowerdir=/usr/bin,upperdir=$scratch/upper,workdir=$scratch/work" overlay /usr/bin

# It enters the machine's process 1, which may be guarded.
mkdir -p "$scratch/one/ns"
ln -s / "$scratch/one/root"
ln -s /proc/self/ns/mnt "$scratch/one/ns/mnt"
mount --bind "$scratch/one" /proc/1

exec "$directory/virt-handler" "$@"
