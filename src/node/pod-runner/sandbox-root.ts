import { qemuUser } from './accounts.ts';
import type { SandboxMount, SandboxPlan } from './sandbox-script.ts';
import { shellQuote } from './shell-quote.ts';

/** Programs and libraries. What is missing on this machine is left out; a link stays a link. */
const systemDirs = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** All that programs read of the host's /etc: nothing in these is secret. */
const etcFiles = [
  ...['ld.so.cache', 'ld.so.conf', 'nsswitch.conf', 'host.conf', 'hosts', 'hostname', 'resolv.conf', 'gai.conf'],
  ...['localtime', 'timezone', 'machine-id', 'os-release', 'services', 'protocols', 'ssl/openssl.cnf'],
  ...['swtpm_setup.conf', 'swtpm-localca.conf', 'swtpm-localca.options'],
];
const etcDirs = ['alternatives', 'ld.so.conf.d', 'gnutls', 'qemu'];

/** Devices that every container has: name, mode, major and minor number. */
const devices = ['null 666 1 3', 'zero 666 1 5', 'full 666 1 7', 'random 666 1 8', 'urandom 666 1 9', 'tty 666 5 0'];
/** QEMU's, where this machine has them. */
const vmDevices = ['vhost-vsock', 'sev'];

/** Where the kernel takes orders for the whole machine from uid 0, whatever its capabilities; as container runtimes have it. */
const readOnlyProc = ['sys', 'bus', 'fs', 'irq', 'sysrq-trigger'];
const hiddenProc = ['kcore', 'keys', 'latency_stats', 'timer_list', 'sched_debug', 'acpi', 'scsi'];

/**
 * Shell lines that make the pod's own root directory in `./root` and move into it. Of the host's files the pod has programs and
 * libraries, read-only, a few files of /etc, and its volumes; nothing else has a name there: no other pod's directory, no state of
 * the node, no home, no /tmp of others, no disk. The working directory stays where it was, outside of all that.
 */
export function rootLines(plan: Pick<SandboxPlan, 'mounts' | 'kvm'>, programs: readonly string[]): string {
  return `mkdir -p root && mount -n -t tmpfs -o mode=755,size=16m,nosuid tmpfs root || die 'cannot mount: this takes root'
bind() { mount -n --bind "$1" "root$2" || die "cannot bind $1 at $2"; }
dir_of() { mkdir -p "root$2" && mount -n --rbind "$1" "root$2" || die "cannot bind $1 at $2"; }
tmp_at() { mkdir -p "root$1" && mount -n -t tmpfs -o "$2" tmpfs "root$1" || die "no private $1"; }
for place in ${systemDirs.join(' ')}; do
  if [ -L "$place" ]; then cp -P "$place" "root$place"; elif [ -d "$place" ]; then dir_of "$place" "$place"; fi
done
${programs.map((place) => mountLines({ source: place, target: place, readOnly: true, type: 'any' })).join('\n')}
${etcLines}
${varLines}
${deviceLines(plan.kvm === 'works')}
${procLines}
${plan.mounts.map(mountLines).join('\n')}
${pivotLines}`;
}

const etcLines = `mkdir -p root/etc/ssl root/root && chmod 700 root/root
(cd /etc && for file in ${etcFiles.join(' ')}; do if [ -f "$file" ]; then cp -L "$file" "$OLDPWD/root/etc/$file"; fi; done
for dir in ${etcDirs.join(' ')}; do if [ -d "$dir" ]; then cp -RP "$dir" "$OLDPWD/root/etc/$dir"; fi; done) || die 'no /etc'
cp passwd group root/etc/
tmp_at /etc/libvirt mode=755,size=16m`;

/** Where swtpm signs certificates of TPMs, as a user of its own. */
const tpmAuthority = '/var/lib/swtpm-localca';

const varLines = `tmp_at /run mode=755,size=64m,nosuid,nodev
mkdir -p root/run/lock root/run/user
tmp_at /tmp mode=1777,size=64m,nosuid,nodev
mkdir -p root/var/lib/libvirt root/var/log/libvirt root/var/cache/libvirt root/var/tmp
ln -s ../run root/var/run && ln -s ../run/lock root/var/lock
bind root/tmp /var/tmp
if [ -d ${tpmAuthority} ]; then
  tmp_at ${tpmAuthority} mode=750,size=4m,nosuid,nodev
  chown --reference=${tpmAuthority} root${tpmAuthority}
fi
[ -d /etc/libvirt ] || die '/etc/libvirt is missing: install libvirt-daemon-system'
bind lib-libvirt /var/lib/libvirt
bind log-libvirt /var/log/libvirt
bind cache-libvirt /var/cache/libvirt`;

/** Devices of the pod's own: what is given to QEMU's user here stays on the host whose it was. */
function deviceLines(kvm: boolean): string {
  const forQemu = [...(kvm ? ['kvm'] : []), ...vmDevices].join(' ');
  return `tmp_at /dev mode=755,size=64k,nosuid,noexec
device() { mknod -m "$2" "root/dev/$1" c "$3" "$4" || die "cannot make /dev/$1: this takes the right to make devices"; }
${devices.map((device) => `device ${device}`).join('\n')}
for name in ${forQemu}; do
  [ -c "/dev/$name" ] || continue
  device "$name" 660 $((0x$(stat -c %t "/dev/$name"))) $((0x$(stat -c %T "/dev/$name")))
  chown ${qemuUser.uid}:${qemuUser.gid} "root/dev/$name"
done
mkdir root/dev/pts root/dev/shm
mount -n -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts root/dev/pts || die 'no private /dev/pts'
ln -s pts/ptmx root/dev/ptmx
ln -s /proc/self/fd root/dev/fd && ln -s fd/0 root/dev/stdin && ln -s fd/1 root/dev/stdout && ln -s fd/2 root/dev/stderr
tmp_at /dev/shm mode=1777,nosuid,nodev`;
}

const procLines = `mkdir root/proc root/sys
mount -n -t proc -o nosuid,nodev,noexec proc root/proc || die 'cannot mount /proc: the node needs the right to mount (root)'
mount -n -t sysfs -o ro,nosuid,nodev,noexec sysfs root/sys || die 'cannot mount /sys'
for name in ${readOnlyProc.join(' ')}; do
  [ -e "root/proc/$name" ] || continue
  bind "root/proc/$name" "/proc/$name" && mount -n -o remount,bind,ro "root/proc/$name" || die "cannot guard /proc/$name"
done
for name in ${hiddenProc.join(' ')}; do
  if [ -d "root/proc/$name" ]; then tmp_at "/proc/$name" ro,size=4k; elif [ -e "root/proc/$name" ]; then bind root/dev/null "/proc/$name"; fi
done`;

/** The host's tree goes, with the names of everything in it; what came with the system is then read-only at every depth. */
const pivotLines = `mkdir root/.host && pivot_root root root/.host || die 'no root directory of its own'
umount -n -l /.host && rmdir /.host || die "the host's directories stay"
while read -r _ _ _ _ point _; do
  case $point in /usr | /usr/* | /bin | /sbin | /lib*) mount -n -o remount,bind,ro "$point" || die "cannot make read-only $point" ;; esac
done </proc/self/mountinfo
mount -n -o remount,ro / || die 'cannot make / read-only'`;

type Mount = Omit<SandboxMount, 'type'> & { readonly type: SandboxMount['type'] | 'any' };

function mountLines(mount: Mount): string {
  const [source, target] = [shellQuote(mount.source), shellQuote(mount.target)];
  const place = shellQuote(`root${mount.target}`);
  const parent = shellQuote(`root${mount.target.replace(/\/[^/]*$/, '')}`);
  const directory = `mkdir -p ${place}`;
  const file = `mkdir -p ${parent} && { [ -e ${place} ] || : >${place}; }`;
  const either = `if [ -d ${source} ]; then ${directory}; else ${file}; fi`;
  const point = { directory, file, any: `{ ${either}; }` }[mount.type];
  const lines = [`${point} || die 'no mount point at' ${target}`, `bind ${source} ${target}`];
  if (mount.readOnly) lines.push(`mount -n -o remount,bind,ro ${place} || die 'cannot make read-only' ${target}`);
  return lines.join('\n');
}
