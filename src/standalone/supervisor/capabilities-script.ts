import { qemuUser, shellQuote } from '../pod-runner/index.ts';

export interface CapabilitiesPlan {
  /** Absolute; the files are left in `out` below it. */
  readonly dir: string;
  readonly libvirtCacheDir: string;
  /** libvirt's word: `x86_64`. */
  readonly arch: string;
  readonly virttype: 'kvm' | 'qemu';
}

/** libvirt's words for the architectures that there are files for, with the machine that stands for each. */
export const machines: Readonly<Record<string, string>> = { x86_64: 'q35', aarch64: 'virt', s390x: 's390-ccw-virtio' };

/**
 * Process 1 of a mount and pid namespace of its own: asks a libvirt that sees what a pod's libvirt sees, and writes what
 * upstream's init container writes: all of it or, with an exit code, nothing that counts. Only a foreign architecture may be left
 * out: there is a file where QEMU has an emulator of it.
 */
export function capabilitiesScript({ dir, libvirtCacheDir, arch, virttype }: CapabilitiesPlan): string {
  const kvm = virttype === 'kvm' ? kvmOfPods : `[ ! -e /dev/kvm ] || bind no-kvm /dev/kvm`;
  const query = `--machine ${machines[arch]} --arch ${arch} --virttype ${virttype}`;
  const foreign = { x86_64: 'aarch64', aarch64: 'x86_64' }[arch];
  return `#!/bin/sh
die() { echo "$*" >&2; exit 1; }
bind() { mount --bind "$1" "$2" || die "cannot bind $1 at $2"; }
cd ${shellQuote(dir)} || die 'no directory'
command -v virsh >/dev/null || die 'virsh is missing: install libvirt-clients'
command -v libvirtd >/dev/null || die 'libvirtd is missing: install libvirt-daemon-system'
mount -t proc proc /proc || die 'cannot mount /proc: this needs root'
bind passwd /etc/passwd
bind group /etc/group
${kvm}
mkdir -p ${shellQuote(libvirtCacheDir)} out
mount -t tmpfs -o mode=755,size=16m tmpfs /run || die 'cannot mount a private /run'
for place in /etc/libvirt /var/lib/libvirt /var/log/libvirt; do
  mount -t tmpfs -o mode=755,size=16m tmpfs "$place" || die "no private $place: install libvirt-daemon-system"
done
bind ${shellQuote(libvirtCacheDir)} /var/cache/libvirt
printf '%s\\n' 'auth_unix_rw = "none"' 'auth_unix_ro = "none"' 'log_outputs = "3:stderr"' >/run/libvirtd.conf
printf '%s\\n' 'user = "+${qemuUser.uid}"' 'group = "+${qemuUser.gid}"' 'security_driver = "none"' >/etc/libvirt/qemu.conf
libvirtd -f /run/libvirtd.conf &
ask() { virsh -c qemu:///system "$@"; }
tries=0
until [ -S /run/libvirt/libvirt-sock ] && ask version >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 400 ] || die 'libvirtd does not answer'
  kill -0 $! 2>/dev/null || die 'libvirtd has ended'
  sleep 0.05
done
help=$(ask help domcapabilities)
has() { case $help in *"$1"*) echo "$1" ;; esac; }
expand=$(has --expand-cpu-features)
supported=$(has --supported-cpu-features)
set -e
ask capabilities >out/capabilities.xml
ask domcapabilities ${query} $expand >out/virsh_domcapabilities.xml
${arch === 'aarch64' ? '' : features(query)}
${foreign === undefined ? '' : foreignFile(foreign)}
`;
}

/** As pods have it. A cache made by a libvirt whose QEMU may not open the device is asked for anew by one whose QEMU may. */
const kvmOfPods = `mkdir dev && mount -t tmpfs -o mode=755,size=64k,nosuid,noexec tmpfs dev || die 'no private device'
cp -a /dev/kvm dev/kvm && chown ${qemuUser.uid}:${qemuUser.gid} dev/kvm && chmod 660 dev/kvm || die 'no private /dev/kvm'
bind dev/kvm /dev/kvm`;

function features(query: string): string {
  return `ask domcapabilities ${query} $expand $supported >baseline.xml
ask hypervisor-cpu-baseline ${query} --features baseline.xml >out/supported_features.xml`;
}

function foreignFile(arch: string): string {
  const file = `out/virsh_domcapabilities_${arch}.xml`;
  return `ask domcapabilities --machine ${machines[arch]} --arch ${arch} --virttype qemu >${file} 2>/dev/null || rm -f ${file}`;
}
