import { NodeError } from '../errors.ts';
import { qemuUser } from './accounts.ts';
import { resolvConfLines } from './sandbox-network.ts';
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
 * A start of a pod waits for each program that runs here: one mounts all it can, and others make many files.
 */
export function rootLines(
  plan: Pick<SandboxPlan, 'mounts' | 'devices' | 'kvm' | 'network'>,
  programs: readonly SandboxMount[],
): string {
  const [first = [], ...more] = mountRounds([...programs, ...plan.mounts], ownMounts);
  const dirs = [...emptyDirs, ...parentsOf(first)].map((dir) => shellQuote(`root${dir}`)).join(' ');
  return `mount -n -t tmpfs -o mode=755,size=16m,nosuid tmpfs root || die 'cannot mount: this takes root'
[ -d /etc/libvirt ] || die '/etc/libvirt is missing: install libvirt-daemon-system'
mkdir -p ${dirs} && ln -s ../run ../run/lock root/var/ || die 'no directories'
${checkLines(first)}
links=
{
${tableLines}
${rowLines(first)}
} >mounts
mount -n -a -T mounts || die 'cannot mount what the pod has: the node needs the right to mount (root)'
${identityLines(first)}
${more.map(roundLines).join('\n')}
${fileLines(plan)}
${(plan.devices ?? []).map(deviceLines).join('\n')}
[ ! -d ${tpmAuthority} ] || chown --reference=${tpmAuthority} root${tpmAuthority}
${pivotLines(plan.mounts.filter(({ followsHost }) => followsHost).map(({ target }) => target))}`;
}

const emptyDirs = [
  ...['/etc/ssl', '/etc/libvirt', '/root', '/run', '/tmp', '/dev', '/proc', '/sys', '/var/tmp'],
  ...['/var/lib/libvirt', '/var/log/libvirt', '/var/log/swtpm', '/var/cache/libvirt', tpmAuthority],
];

/** Where `tableLines` mounts something: files there can be made only afterwards. */
const ownMounts = [
  ...systemDirs,
  ...etcDirs.map((name) => `/etc/${name}`),
  ...['/etc/libvirt', '/run', '/var/run', '/tmp', '/var/tmp', '/var/lib/libvirt', '/var/log/libvirt', '/var/log/swtpm'],
  ...['/var/cache/libvirt', tpmAuthority, '/dev', '/proc', '/sys'],
];

/** What every pod has, as rows of an fstab. Our own paths have no blanks; the sandbox's directory is the working directory. */
const tableLines = `  for place in ${systemDirs.join(' ')}; do
    if [ -L "$place" ]; then links="$links $place"
    elif [ -d "$place" ]; then echo "$place root$place none rbind,ro,rprivate,X-mount.mkdir 0 0"; fi
  done
  for dir in ${etcDirs.join(' ')}; do [ ! -d "/etc/$dir" ] || echo "/etc/$dir root/etc/$dir none bind,ro,private,X-mount.mkdir 0 0"; done
  echo "tmpfs root/etc/libvirt tmpfs mode=755,size=16m 0 0"
  echo "tmpfs root/run tmpfs mode=755,size=64m,nosuid,nodev 0 0"
  echo "tmpfs root/tmp tmpfs mode=1777,size=64m,nosuid,nodev 0 0"
  echo "root/tmp root/var/tmp none bind,private 0 0"
  echo "lib-libvirt root/var/lib/libvirt none bind,private 0 0"
  echo "log-libvirt root/var/log/libvirt none bind,private 0 0"
  echo "log-swtpm root/var/log/swtpm none bind,private 0 0"
  echo "cache-libvirt root/var/cache/libvirt none bind,private 0 0"
  [ ! -d ${tpmAuthority} ] || echo "tmpfs root${tpmAuthority} tmpfs mode=750,size=4m,nosuid,nodev 0 0"
  echo "tmpfs root/dev tmpfs mode=755,size=64k,nosuid,noexec 0 0"
  echo "tmpfs root/dev/shm tmpfs mode=1777,nosuid,nodev,X-mount.mkdir 0 0"
  echo "devpts root/dev/pts devpts newinstance,ptmxmode=0666,mode=620,X-mount.mkdir 0 0"
  echo "proc root/proc proc nosuid,nodev,noexec 0 0"
  echo "sysfs root/sys sysfs ro,nosuid,nodev,noexec 0 0"
  for name in ${readOnlyProc.join(' ')}; do [ ! -e "/proc/$name" ] || echo "root/proc/$name root/proc/$name none bind,ro,private 0 0"; done
  for name in ${hiddenProc.join(' ')}; do
    if [ -d "/proc/$name" ]; then echo "tmpfs root/proc/$name tmpfs ro,size=4k 0 0"
    elif [ -e "/proc/$name" ]; then echo "/dev/null root/proc/$name none bind,private 0 0"; fi
  done`;

/** Devices of the pod's own: what is given to QEMU's user here stays on the host whose it was. */
function fileLines({ kvm, network }: Pick<SandboxPlan, 'kvm' | 'network'>): string {
  const forQemu = [...(kvm === 'works' ? ['kvm'] : []), ...vmDevices];
  return `[ -z "$links" ] || cp -P $links root/ || die 'no links to programs'
chmod 700 root/root
mkdir -p root/run/lock root/run/user
ln -s pts/ptmx root/dev/ || die 'no link in /dev'
found=
for file in ${etcFiles.map((name) => `etc/${name}`).join(' ')}; do [ ! -f "/$file" ] || found="$found $file"; done
(cd / && exec cp -L --parents $found "$OLDPWD/root/") || die 'no /etc'
cp passwd group root/etc/ || die 'no accounts'
${network ? `${resolvConfLines(network)}\n` : ''}found= qemu= root=
for name in ${forQemu.join(' ')}; do [ ! -c "/dev/$name" ] || found="$found $name" qemu="$qemu root/dev/$name"; done
for name in ${network ? networkDevices.join(' ') : ''}; do [ ! -c "/dev/$name" ] || found="$found $name" root="$root root/dev/$name"; done
(cd /dev && exec cp -a --parents ${devices.join(' ')} $found "$OLDPWD/root/dev/") || die 'cannot make devices: this takes the right to make them'
[ -z "$qemu" ] || { chown ${qemuUser.uid}:${qemuUser.gid} $qemu && chmod 660 $qemu; } || die "no$qemu"
[ -z "$root" ] || { chown 0:0 $root && chmod 600 $root; } || die "no$root"`;
}

/** For libvirt, which is root: taps of the pod's own network, and the kernel's half of them. */
const networkDevices = ['net/tun', 'vhost-net'];

/** Empty, and the pod's own: the host's tree is there for a moment. */
const putOld = '/run/lock';

/**
 * The host's tree goes, with the names of everything in it; what came with the system is then read-only at every depth. What the host
 * mounts from now on does not come in: it would come as writable as it is there. All it comes into is `following`. The table has seen to
 * that already but for what is mounted below the system's directories. Names in mountinfo have `\\040` for a blank.
 */
function pivotLines(following: readonly string[]): string {
  const kept = following.map((target) => `${shellQuote(target)} | `).join('');
  return `pivot_root root root${putOld} || die 'no root directory of its own'
umount -n -l ${putOld} || die "the host's directories stay"
while read -r _ _ _ _ point options tags; do
  case $point in *\\\\*)
    point=$(printf %s. "$point" | sed 's/\\\\/\\\\0/g')
    point=$(printf %b "$point")
    point=\${point%.} ;;
  esac
  case "$tags" in *master:*' - '*) case $point in ${kept}'') ;; *)
    mount -n --make-private "$point" || die "cannot part from mounts of the host at $point" ;;
  esac ;; esac
  case $point in /usr | /usr/* | /bin | /sbin | /lib*) case $options in ro | ro,*) ;; *)
    mount -n -o remount,bind,ro "$point" || die "cannot make read-only $point" ;;
  esac ;; esac
done </proc/self/mountinfo
mount -n -o remount,ro / || die 'cannot make / read-only'`;
}

function deviceLines({ source, target }: SandboxDevice): string {
  const [from, to] = [shellQuote(source), shellQuote(`root${target}`)];
  const parent = shellQuote(`root${target.replace(/\/[^/]*$/, '')}`);
  const make = `mkdir -p ${parent} && rm -f ${to} && cp -a ${from} ${to}`;
  return `${make} && chown ${qemuUser.uid}:${qemuUser.gid} ${to} && chmod 660 ${to} || die 'no device at' ${shellQuote(target)}`;
}

/**
 * Mounts in their order, in as few rounds as can be: a file that is mounted upon below another mount can be made only when that stands.
 * Directories are made on the way.
 */
export function mountRounds(mounts: readonly SandboxMount[], standing: readonly string[]): SandboxMount[][] {
  const rounds: SandboxMount[][] = [[]];
  let points = [...standing];
  for (const mount of mounts) {
    if (mount.type === 'file' && points.some((point) => mount.target.startsWith(`${point}/`))) {
      rounds.push([]);
      points = [];
    }
    points.push(mount.target);
    rounds.at(-1)?.push(mount);
  }
  return rounds;
}

function roundLines(mounts: readonly SandboxMount[], index: number): string {
  const parents = parentsOf(mounts).map((dir) => shellQuote(`root${dir}`));
  const table = `mounts-${index + 1}`;
  return `mkdir -p ${parents.join(' ')} || die 'no mount points in' ${parents.join(' ')}
${checkLines(mounts)}
{
${rowLines(mounts)}
} >${table}
mount -n -a -T ${table} || die 'cannot mount files of the pod'
${identityLines(mounts)}`;
}

/** Where files that are mounted upon are made. */
function parentsOf(mounts: readonly SandboxMount[]): string[] {
  const files = mounts.filter(({ type }) => type === 'file');
  return [...new Set(files.map(({ target }) => target.replace(/\/[^/]*$/, '')))];
}

/** What is there to mount, and the files to mount it upon. All of it is the shell's own work. */
function checkLines(mounts: readonly SandboxMount[]): string {
  return mounts
    .flatMap(({ source, target, type }) => {
      const [from, to, point] = [source, target, `root${target}`].map(shellQuote);
      const thereIs = `[ -e ${from} ] || die 'cannot bind' ${from} 'at' ${to}': there is no such thing'`;
      if (type === 'directory') return thereIs;
      return [thereIs, `[ -e ${point} ] || true 2>/dev/null >${point} || die 'no mount point at' ${to}`];
    })
    .join('\n');
}

function rowLines(mounts: readonly SandboxMount[]): string {
  return mounts
    .map(({ source, target, readOnly, type, followsHost }) => {
      const more = [readOnly && 'ro', !followsHost && 'private', type === 'directory' && 'X-mount.mkdir'];
      const options = ['bind', ...more.filter(Boolean)].join(',');
      return `printf '%s\\n' ${shellQuote(`${fstabField(source)} ${fstabField(`root${target}`)} none ${options} 0 0`)}`;
    })
    .join('\n');
}

/** Nothing of a path has a meaning in a table: what could have one is written as `\040`. Throws NodeError POD_INVALID. */
export function fstabField(file: string): string {
  if (file.includes('\0')) throw new NodeError('POD_INVALID', `${JSON.stringify(file)} is no path`);
  return file.replace(/[^A-Za-z0-9/._~+:@-]/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join(''),
  );
}

function identityLines(mounts: readonly SandboxMount[]): string {
  return mounts
    .filter(({ identity }) => identity !== undefined)
    .map(({ source, target, identity }) => {
      const same = `[ "$(stat -c %d-%i ${shellQuote(`root${target}`)})" = ${shellQuote(identity ?? '')} ]`;
      return `${same} || die ${shellQuote(source)} 'was exchanged after it was looked at: start the VM again'`;
    })
    .join('\n');
}
