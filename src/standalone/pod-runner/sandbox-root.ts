import { qemuUser } from './accounts.ts';
import { resolvConf } from './sandbox-network.ts';
import type { SandboxDevice, SandboxMount, SandboxPlan } from './sandbox-plan.ts';
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

/** Devices that every container has, and links to what is open. */
const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty', 'fd', 'stdin', 'stdout', 'stderr'];
/** QEMU's, where this machine has them. */
const vmDevices = ['vhost-vsock', 'sev'];

/** Where the kernel takes orders for the whole machine from uid 0, whatever its capabilities; as container runtimes have it. */
const readOnlyProc = ['sys', 'bus', 'fs', 'irq', 'sysrq-trigger'];
/** Where swtpm signs certificates of TPMs, as a user of its own. */
const tpmAuthority = '/var/lib/swtpm-localca';
const hiddenProc = ['kcore', 'keys', 'latency_stats', 'timer_list', 'sched_debug', 'acpi', 'scsi'];

/**
 * Shell lines that make the pod's own root directory in `./root` and move into it. Of the host's files the pod has programs and
 * libraries, read-only, a few files of /etc, and its volumes; nothing else has a name there: no other pod's directory, no state of
 * the node, no home, no /tmp of others, no disk. The working directory stays where it was, outside of all that.
 */
export function rootLines(
  plan: Pick<SandboxPlan, 'mounts' | 'devices' | 'kvm' | 'network'>,
  programs: readonly string[],
): string {
  return `mkdir -p root && mount -n -t tmpfs -o mode=755,size=16m,nosuid tmpfs root || die 'cannot mount: this takes root'
bind() { mount -n --bind "$1" "root$2" || die "cannot bind $1 at $2"; }
mkdir -p ${emptyDirs.map((dir) => `root${dir}`).join(' ')} || die 'no directories'
[ -d /etc/libvirt ] || die '/etc/libvirt is missing: install libvirt-daemon-system'
${tableLines}
mount -n -a -T mounts || die 'cannot mount what every pod has: the node needs the right to mount (root)'
${fileLines(plan.kvm === 'works')}
${plan.network ? `${networkFileLines}\n` : ''}${programs.map((program) => mountLines({ source: program, target: program, readOnly: true, type: 'any' })).join('\n')}
${[...plan.mounts.map(mountLines), ...(plan.devices ?? []).map(deviceLines)].join('\n')}
[ ! -d ${tpmAuthority} ] || chown --reference=${tpmAuthority} root${tpmAuthority}
${pivotLines(plan.mounts.filter(({ followsHost }) => followsHost).map(({ target }) => target))}`;
}

const emptyDirs = [
  ...['/etc/ssl', '/etc/libvirt', '/root', '/run', '/tmp', '/dev', '/proc', '/sys', '/.host', '/usr', '/var/tmp'],
  ...['/var/lib/libvirt', '/var/log/libvirt', '/var/log/swtpm', '/var/cache/libvirt', tpmAuthority],
];

/**
 * What every pod has, as an fstab: one program mounts all of it, since a process for each would make a pod wait for a tenth of a
 * second. Our own paths have no blanks; the sandbox's directory is the working directory.
 */
const tableLines = `links=
{
  for place in ${systemDirs.join(' ')}; do
    if [ -L "$place" ]; then links="$links $place"; elif [ -d "$place" ]; then
      [ -d "root$place" ] || mkdir "root$place"
      echo "$place root$place none rbind 0 0"
    fi
  done
  echo "tmpfs root/etc/libvirt tmpfs mode=755,size=16m 0 0"
  echo "tmpfs root/run tmpfs mode=755,size=64m,nosuid,nodev 0 0"
  echo "tmpfs root/tmp tmpfs mode=1777,size=64m,nosuid,nodev 0 0"
  echo "root/tmp root/var/tmp none bind 0 0"
  echo "lib-libvirt root/var/lib/libvirt none bind 0 0"
  echo "log-libvirt root/var/log/libvirt none bind 0 0"
  echo "log-swtpm root/var/log/swtpm none bind 0 0"
  echo "cache-libvirt root/var/cache/libvirt none bind 0 0"
  [ ! -d ${tpmAuthority} ] || echo "tmpfs root${tpmAuthority} tmpfs mode=750,size=4m,nosuid,nodev 0 0"
  echo "tmpfs root/dev tmpfs mode=755,size=64k,nosuid,noexec 0 0"
  echo "tmpfs root/dev/shm tmpfs mode=1777,nosuid,nodev,X-mount.mkdir 0 0"
  echo "devpts root/dev/pts devpts newinstance,ptmxmode=0666,mode=620,X-mount.mkdir 0 0"
  echo "proc root/proc proc nosuid,nodev,noexec 0 0"
  echo "sysfs root/sys sysfs ro,nosuid,nodev,noexec 0 0"
  for name in ${readOnlyProc.join(' ')}; do [ ! -e "/proc/$name" ] || echo "root/proc/$name root/proc/$name none bind,ro 0 0"; done
  for name in ${hiddenProc.join(' ')}; do
    if [ -d "/proc/$name" ]; then echo "tmpfs root/proc/$name tmpfs ro,size=4k 0 0"
    elif [ -e "/proc/$name" ]; then echo "/dev/null root/proc/$name none bind 0 0"; fi
  done
} >mounts`;

/** Devices of the pod's own: what is given to QEMU's user here stays on the host whose it was. */
function fileLines(kvm: boolean): string {
  const forQemu = [...(kvm ? ['kvm'] : []), ...vmDevices].map((name) => `/dev/${name}`).join(' ');
  return `[ -z "$links" ] || cp -P $links root/ || die 'no links to programs'
chmod 700 root/root
mkdir root/run/lock root/run/user
ln -s ../run root/var/run && ln -s ../run/lock root/var/lock && ln -s pts/ptmx root/dev/ptmx
found=
for file in ${etcFiles.map((name) => `etc/${name}`).join(' ')}; do [ ! -f "/$file" ] || found="$found $file"; done
(cd / && cp -L --parents $found "$OLDPWD/root/") || die 'no /etc'
found=
for dir in ${etcDirs.join(' ')}; do [ ! -d "/etc/$dir" ] || found="$found /etc/$dir"; done
[ -z "$found" ] || cp -RP $found root/etc/ || die "no $found"
cp passwd group root/etc/
cp -a ${devices.map((name) => `/dev/${name}`).join(' ')} root/dev/ || die 'cannot make devices: this takes the right to make them'
for device in ${forQemu}; do
  [ -c "$device" ] || continue
  cp -a "$device" root/dev/ && chown ${qemuUser.uid}:${qemuUser.gid} "root$device" && chmod 660 "root$device" || die "no $device"
done`;
}

/** For libvirt, which is root: taps of the pod's own network, and the kernel's half of them. */
const networkFileLines = `cp ${resolvConf} root/etc/resolv.conf
mkdir root/dev/net
for device in net/tun vhost-net; do
  [ -c "/dev/$device" ] || continue
  cp -a "/dev/$device" "root/dev/$device" && chown 0:0 "root/dev/$device" && chmod 600 "root/dev/$device" || die "no $device"
done`;

/**
 * The host's tree goes, with the names of everything in it; what came with the system is then read-only at every depth. What the host
 * mounts from now on does not come in: it would come as writable as it is there. All it comes into is `following`. Names in mountinfo have
 * `\040` for a blank.
 */
function pivotLines(following: readonly string[]): string {
  const kept = following.map((target) => `${shellQuote(target)} | `).join('');
  return `pivot_root root root/.host || die 'no root directory of its own'
umount -n -l /.host && rmdir /.host || die "the host's directories stay"
${following.length > 0 ? '' : `${partAll}\n`}while read -r _ _ _ _ point _ tags; do
  case $point in *\\\\*)
    point=$(printf %s. "$point" | sed 's/\\\\/\\\\0/g')
    point=$(printf %b "$point")
    point=\${point%.} ;;
  esac
  case "$tags" in *master:*' - '*) case $point in ${kept}'') ;; *)
    mount -n --make-private "$point" || die "cannot part from mounts of the host at $point" ;;
  esac ;; esac
  case $point in /usr | /usr/* | /bin | /sbin | /lib*) mount -n -o remount,bind,ro "$point" || die "cannot make read-only $point" ;; esac
done </proc/self/mountinfo
mount -n -o remount,ro / || die 'cannot make / read-only'`;
}
const partAll = `mount -n --make-rprivate / || die 'cannot part from mounts of the host'`;

function deviceLines({ source, target }: SandboxDevice): string {
  const [from, to] = [shellQuote(source), shellQuote(`root${target}`)];
  const parent = shellQuote(`root${target.replace(/\/[^/]*$/, '')}`);
  const make = `mkdir -p ${parent} && rm -f ${to} && cp -a ${from} ${to}`;
  return `${make} && chown ${qemuUser.uid}:${qemuUser.gid} ${to} && chmod 660 ${to} || die 'no device at' ${shellQuote(target)}`;
}

type Mount = Omit<SandboxMount, 'type'> & { readonly type: SandboxMount['type'] | 'any' };

function mountLines(mount: Mount): string {
  const [source, target] = [shellQuote(mount.source), shellQuote(mount.target)];
  const mountPoint = shellQuote(`root${mount.target}`);
  const parent = shellQuote(`root${mount.target.replace(/\/[^/]*$/, '')}`);
  const directory = `mkdir -p ${mountPoint}`;
  const file = `mkdir -p ${parent} && { [ -e ${mountPoint} ] || : >${mountPoint}; }`;
  const either = `if [ -d ${source} ]; then ${directory}; else ${file}; fi`;
  const point = { directory, file, any: `{ ${either}; }` }[mount.type];
  const lines = [`${point} || die 'no mount point at' ${target}`, `bind ${source} ${target}`];
  if (mount.identity) {
    const same = `[ "$(stat -c %d-%i ${mountPoint})" = ${shellQuote(mount.identity)} ]`;
    lines.push(`${same} || die ${source} 'was exchanged after it was looked at: start the VM again'`);
  }
  if (mount.readOnly) lines.push(`mount -n -o remount,bind,ro ${mountPoint} || die 'cannot make read-only' ${target}`);
  return lines.join('\n');
}
