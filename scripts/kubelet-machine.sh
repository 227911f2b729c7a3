#!/bin/bash
# scripts/kubelet-machine.sh <folder> <command...>   runs a command, as root, on a machine of its own for a kubelet and containerd
#
# Own: network (addresses of the node and of the Kubernetes service), processes, mounts, /run, /dev, what is written below /var, and a
# branch of every cgroup hierarchy, named in CGROUP_ROOT. <folder>, on a disk that overlayfs can use, takes what is written.
# When the command ends, or this script is told to, all processes end; nothing of it is left, <folder> neither.
# Run on such a machine it makes another one within, for a further node: NODE_ADDRESS is its address there.
set -euo pipefail

if [ $$ != 1 ]; then
  name=${CGROUP_ROOT:-}/virt-handler-$$
  # With one hierarchy, /sys/fs/cgroup is it; with many, each folder in there is one.
  hierarchies=$(if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo /sys/fs/cgroup; else echo /sys/fs/cgroup/*/; fi)
  for hierarchy in $hierarchies; do mkdir "${hierarchy%/}$name"; done
  # A signal for the group ends unshare, and with it all that it started; then there is something to clean up.
  trap : INT TERM HUP
  code=0
  CGROUP_ROOT=$name unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private bash "$0" "$@" || code=$?
  for hierarchy in $hierarchies; do
    # Processes leave their cgroup some moments after they ended.
    for _ in {1..50}; do find "${hierarchy%/}$name" -depth -type d -exec rmdir {} + 2>/dev/null && break || sleep 0.1; done
  done
  rm -rf "$1"
  exit "$code"
fi

dir=$(readlink -f "$1")
shift
mkdir -p "$dir"/{var,work,dev,containerd,kubelet,tmp}
export TMPDIR=$dir/tmp
mount -t overlay -o "lowerdir=/var,upperdir=$dir/var,workdir=$dir/work" overlay /var
mkdir -p /var/lib/{containerd,kubelet}
mount --bind "$dir/containerd" /var/lib/containerd
mount --bind "$dir/kubelet" /var/lib/kubelet
mount -t tmpfs -o mode=755 tmpfs /run
# As in images: an agent follows it from outside of a container.
ln -sfn ../run /var/run

mount -t tmpfs -o mode=755 tmpfs "$dir/dev"
mkdir "$dir"/dev/{net,pts,shm,mqueue}
cp -a /dev/{null,zero,full,random,urandom,tty,kmsg} "$dir/dev"
# Devices are nodes of the real drivers where there are some; a driver is not needed to have a node.
mknod -m 666 "$dir/dev/kvm" c 10 232
mknod -m 666 "$dir/dev/net/tun" c 10 200
mknod -m 600 "$dir/dev/vhost-net" c 10 238
# Files as disks, for claims that are block devices: the kubelet makes some of its own, too.
mknod -m 600 "$dir/dev/loop-control" c 10 237
for minor in {0..63}; do mknod -m 660 "$dir/dev/loop$minor" b 7 "$minor"; done
for link in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2 ptmx:pts/ptmx; do
  ln -s "${link#*:}" "$dir/dev/${link%%:*}"
done
mount --move "$dir/dev" /dev
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm

ip link set lo up
[ -n "${NODE_ADDRESS:-}" ] || ip address add 10.96.0.1/32 dev lo
ip address add "${NODE_ADDRESS:-192.168.126.1}/32" dev lo
echo 1 >/proc/sys/net/ipv4/ip_forward
# Pods may have addresses of both families.
[ -n "${NODE_ADDRESS:-}" ] || ip address add fd00:126::1/128 dev lo
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding

# As on any node: what a pod mounts in a shared folder is seen by the host, and the other way round.
mount --make-rshared /
"$@"
