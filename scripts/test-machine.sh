#!/bin/bash
# scripts/test-machine.sh <command...>   runs a command, as root, on a machine of its own for a file of tests
#
# Own: network (loopback alone), processes, mounts, /run, and what /sys shows of the network. Standalone nodes side by side have the same ports,
# bridges and tables of nft then. When the command ends, or whoever started it does, all processes end, and nothing of the machine is left.
set -euo pipefail

if [ $$ != 1 ]; then
  exec setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child --mount-proc --propagation slave bash "$0" "$@"
fi

mount -t tmpfs -o mode=755 tmpfs /run
# A sysfs shows the network of whoever mounts it. What is mounted in there stays as it is.
mkdir /run/cgroup
if mountpoint -q /sys/fs/cgroup; then
  mount --move /sys/fs/cgroup /run/cgroup
  mount -t sysfs sysfs /sys
  mount --move /run/cgroup /sys/fs/cgroup
else
  mount -t sysfs sysfs /sys
fi
rmdir /run/cgroup
ip link set lo up

# Not by exec: process 1 reaps what is left to it.
"$@"
