// node scripts/guest/debian/build.mjs   Builds a Debian as clouds have it: .cache/debian/debian.qcow2, a whole disk that boots by EFI.
// Everything in it is of Debian's packages, by way of this machine's apt. Needs root: packages are installed in a directory.
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { run } from '../build.mjs';
import { espBuilder, writeEsp } from '../esp.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const files = path.join(here, 'files');
const debianDir = path.resolve(here, '../../../.cache/debian');
const image = 'debian.qcow2';

const included = [
  'linux-image-cloud-amd64',
  'initramfs-tools',
  'zstd',
  'systemd-sysv',
  'systemd-boot-efi',
  'systemd-resolved',
  'udev',
  'dbus',
  'e2fsprogs',
  'iproute2',
  'cloud-init',
  'cloud-guest-utils',
  'fdisk',
  'openssh-server',
  'qemu-guest-agent',
];

/** What a guest of a few hours has no use for: it would start while a test looks, and an emulated CPU is slow. */
const masked = [
  'apt-daily.timer',
  'apt-daily-upgrade.timer',
  'dpkg-db-backup.timer',
  'e2scrub_all.timer',
  'fstrim.timer',
  'e2scrub_reap.service',
  'systemd-pstore.service',
];

const mib = 1 << 20;
const esp = { startMib: 1, sizeMib: 48 };
const rootStartMib = esp.startMib + esp.sizeMib;
/** A claim of any size that is not smaller takes it: cloud-init lets the file system grow. */
const diskMib = 1024;
/** What GPT keeps at the end of a disk. */
const tailMib = 1;

const kernelArgs = 'root=LABEL=root ro console=tty0 console=ttyS0 no_timer_check';

function builderHash() {
  const hash = createHash('sha256');
  for (const file of [fileURLToPath(import.meta.url), espBuilder]) hash.update(readFileSync(file));
  const names = readdirSync(files, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
    .sort();
  for (const name of names) hash.update(path.relative(files, name)).update('\0').update(readFileSync(name));
  return hash.digest('hex');
}

/** True when `.cache/debian` holds what this builder would make. */
export function debianIsCurrent() {
  try {
    const stamp = JSON.parse(readFileSync(path.join(debianDir, 'stamp.json'), 'utf8'));
    return existsSync(path.join(debianDir, image)) && stamp.builder === builderHash();
  } catch {
    return false;
  }
}

/** Installs Debian in a directory. The files of this folder are there before the packages whose settings they are. */
function installSystem(root) {
  const hook = (script) => ['--essential-hook', script];
  const finish = (script) => ['--customize-hook', script];
  run('mmdebstrap', [
    '--mode=root',
    '--variant=apt',
    '--format=directory',
    `--include=${included.join(',')}`,
    '--aptopt=APT::Install-Recommends "false"',
    '--aptopt=Acquire::Languages "none"',
    '--dpkgopt=path-exclude=/usr/share/doc/*',
    '--dpkgopt=path-exclude=/usr/share/man/*',
    '--dpkgopt=path-exclude=/usr/share/locale/*',
    '--dpkgopt=force-unsafe-io',
    ...hook(`cp -r --no-preserve=ownership '${files}/.' "$1"`),
    // Each guest makes its own at its first boot.
    ...finish(
      'rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/machine-id "$1"/var/lib/dbus/machine-id "$1"/etc/hostname "$1"/etc/resolv.conf',
    ),
    ...finish('touch "$1/etc/machine-id"; ln -s /run/systemd/resolve/stub-resolv.conf "$1/etc/resolv.conf"'),
    ...finish(`chroot "$1" systemctl --quiet mask ${masked.join(' ')}`),
    ...finish('chroot "$1" systemctl --quiet enable systemd-networkd systemd-resolved'),
    // Else the first boot makes caches anew that the packages have just made.
    ...finish('touch --date "+1 day" "$1/etc/.updated" "$1/var/.updated"'),
    'bookworm',
    root,
  ]);
}

/** Partition table, the EFI partition with systemd-boot and kernel, and the root file system, without mounting anything. */
function makeDisk(root, disk) {
  const rootMib = diskMib - rootStartMib - tailMib;
  run('truncate', ['--size', `${diskMib}M`, disk]);
  const table = [
    'label: gpt',
    `start=${esp.startMib}MiB, size=${esp.sizeMib}MiB, type=uefi, name=esp`,
    `start=${rootStartMib}MiB, size=${rootMib}MiB, type=linux, name=root`,
  ];
  run('sfdisk', ['--quiet', disk], { input: `${table.join('\n')}\n`, stdio: 'pipe' });
  makeEsp(root, disk);
  const offset = `offset=${rootStartMib * mib}`;
  run('mke2fs', ['-q', '-t', 'ext4', '-L', 'root', '-E', offset, '-d', root, disk, `${rootMib}M`]);
}

function makeEsp(root, disk) {
  const boot = path.join(root, 'boot');
  const kernel = readdirSync(boot).find((name) => name.startsWith('vmlinuz-'));
  const initrd = readdirSync(boot).find((name) => name.startsWith('initrd.img-'));
  if (!kernel || !initrd) throw new Error(`${boot} has no kernel or no initrd: did the kernel's package change?`);
  writeEsp(
    { image: disk, offsetMib: esp.startMib, sizeMib: esp.sizeMib },
    {
      loader: path.join(root, 'usr/lib/systemd/boot/efi/systemd-bootx64.efi'),
      kernel: path.join(boot, kernel),
      initrd: path.join(boot, initrd),
      title: 'Debian',
      kernelArgs,
    },
  );
}

/** Builds the image unless it is there already. Returns true when it was built. */
export function buildDebian(say = console.log) {
  if (debianIsCurrent()) return false;
  if (process.getuid?.() !== 0) throw new Error('only root can install packages in a directory: run it as root');
  mkdirSync(debianDir, { recursive: true });
  const workDir = mkdtempSync(path.join(debianDir, 'build-'));
  try {
    say('installing Debian packages in a directory (mmdebstrap)');
    const root = path.join(workDir, 'root');
    installSystem(root);
    say('making the disk');
    const disk = path.join(workDir, 'disk.raw');
    makeDisk(root, disk);
    run('qemu-img', ['convert', '-c', '-o', 'compression_type=zstd', '-O', 'qcow2', disk, path.join(workDir, image)]);
    rmSync(path.join(debianDir, 'stamp.json'), { force: true });
    renameSync(path.join(workDir, image), path.join(debianDir, image));
    writeFileSync(path.join(debianDir, 'stamp.json'), `${JSON.stringify({ builder: builderHash() }, null, 2)}\n`);
    return true;
  } finally {
    rmSync(workDir, { recursive: true, force: true });
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    console.log(buildDebian() ? `Debian built in ${debianDir}` : `Debian in ${debianDir} is current`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
