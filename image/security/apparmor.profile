# AppArmor profile of KubeVirt's node agent, virt-handler. Load it on each node that has AppArmor: apparmor_parser -r apparmor.profile
# Then daemonset/components/apparmor names it. It is syntax that apparmor_parser of Debian 12 takes; it was not tried on a kernel with AppArmor.

abi <abi/3.0>,

include <tunables/global>

profile virt-handler flags=(attach_disconnected, mediate_deleted) {
  # What the image is made of. No shell is in it; ip and nft are for privileged agents, and not started under this profile.
  / r,
  /usr/** r,
  /usr/bin/node mrix,
  /usr/lib/virt-handler/** mrix,
  /usr/lib/** mr,
  /lib/** mr,
  /lib64/** mr,
  /etc/** r,
  /dev/{null,zero,full,random,urandom} rw,

  # Certificates and the token of its service account: read only.
  /etc/virt-handler/** r,
  /{,var/}run/secrets/** r,

  # Its state, sockets for launchers, and the kubelet's folders that are its business.
  /{,var/}run/kubevirt/{,**} rwk,
  /{,var/}run/kubevirt-private/{,**} rwkl,
  /pods/{,**} rw,
  /var/lib/kubelet/ r,
  /var/lib/kubelet/cpu_manager_state r,
  /var/lib/kubelet/device-plugins/{,**} rw,
  /var/lib/kubelet/seccomp/{,**} rw,
  /var/lib/kubevirt-node-labeller/{,**} r,

  # Other processes: which pod they are of, and their root directories, the host's (process 1) and launchers' among them. By it the agent
  # reads and writes files of the host: a path below /proc/<pid>/root counts as the path that it leads to.
  @{PROC}/{,**} r,
  @{PROC}/@{pid}/root/{,**} rw,
  /sys/{,**} r,
  /sys/kernel/mm/ksm/{run,sleep_millisecs,pages_to_scan} w,
  /sys/class/mdev_bus/**/create w,
  /sys/devices/**/mdev_supported_types/*/create w,
  /sys/devices/**/remove w,
  /dev/{,**} rw,
  /var/run/kubevirt-private/vmi-disks/{,**} rw,
  deny @{PROC}/sys/** w,
  deny @{PROC}/sysrq-trigger rwlkx,
  deny @{PROC}/kcore rwlkx,
  deny /sys/firmware/** w,
  deny /sys/kernel/security/** w,

  # The right to look into /proc/<pid>/root is asked for as ptrace. Tracing itself is not allowed.
  ptrace (read),
  deny ptrace (trace, tracedby),
  signal (receive) peer=unconfined,
  signal (send, receive) peer=virt-handler,

  capability chown,
  capability dac_override,
  capability fowner,
  capability sys_ptrace,

  network unix stream,
  network inet stream,
  network inet6 stream,
  network inet dgram,
  network inet6 dgram,
  network netlink raw,
  unix,

  deny mount,
  deny umount,
  deny pivot_root,
}
