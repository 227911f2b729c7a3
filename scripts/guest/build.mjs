// node scripts/guest/build.mjs   Builds the demo and test guest: .cache/guest/{vmlinuz,initramfs.gz}.
// Kernel and busybox come from the distribution's packages, downloaded and unpacked but not installed. Needs no root.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

const here = path.dirname(fileURLToPath(import.meta.url));
export const guestDir = path.resolve(here, '../../.cache/guest');
const rootfs = path.join(here, 'rootfs');
const kernelMetaPackage = 'linux-image-cloud-amd64';

/** What the guest loads at boot, with whatever these depend on. The cloud kernel has almost everything as modules. */
const wantedModules = [
  'evdev',
  'button',
  'virtio_pci',
  'virtio_blk',
  'virtio_net',
  'virtio_scsi',
  'virtio_balloon',
  'virtio_console',
  'virtio_rng',
  'virtio_mem',
  'sd_mod',
  'sr_mod',
  'isofs',
  'virtiofs',
];

/** What it takes to keep files on a disk: loaded after the logins. */
const lateModules = ['ext4'];

/**
 * For a login over the network: Debian's programs with the libraries they need, which no other program of the guest has a use for. They are unpacked after
 * the logins, so that the kernel need not do it before.
 */
const lateFiles = {
  'dropbear-bin': { 'usr/sbin/dropbear': 'usr/sbin/dropbear' },
  'openssh-sftp-server': { 'usr/lib/openssh/sftp-server': 'usr/lib/sftp-server' },
  libc6: {
    'lib/x86_64-linux-gnu/libc.so.6': 'lib/x86_64-linux-gnu/libc.so.6',
    'lib/x86_64-linux-gnu/ld-linux-x86-64.so.2': 'lib64/ld-linux-x86-64.so.2',
  },
  libcrypt1: { 'lib/x86_64-linux-gnu/libcrypt.so.1': 'lib/x86_64-linux-gnu/libcrypt.so.1' },
  zlib1g: { 'lib/x86_64-linux-gnu/libz.so.1': 'lib/x86_64-linux-gnu/libz.so.1' },
  libtomcrypt1: { 'usr/lib/x86_64-linux-gnu/libtomcrypt.so.1': 'lib/x86_64-linux-gnu/libtomcrypt.so.1' },
  libtommath1: { 'usr/lib/x86_64-linux-gnu/libtommath.so.1': 'lib/x86_64-linux-gnu/libtommath.so.1' },
  libgmp10: { 'usr/lib/x86_64-linux-gnu/libgmp.so.10': 'lib/x86_64-linux-gnu/libgmp.so.10' },
};

export function run(command, args, options = {}) {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], ...options });
  } catch (cause) {
    const said = String(cause.stderr ?? cause.message).trim();
    throw new Error(`${command} ${args.join(' ')} failed: ${said}`, { cause });
  }
}

/** Changes when anything that goes into the guest from this folder changes. */
function builderHash() {
  const hash = createHash('sha256').update(readFileSync(fileURLToPath(import.meta.url)));
  for (const file of readdirSync(rootfs, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
    .sort()) {
    hash.update(path.relative(rootfs, file)).update('\0').update(readFileSync(file));
  }
  return hash.digest('hex');
}

/** True when `.cache/guest` holds what this builder would make. */
export function guestIsCurrent() {
  try {
    const stamp = JSON.parse(readFileSync(path.join(guestDir, 'stamp.json'), 'utf8'));
    const complete = ['vmlinuz', 'initramfs.gz'].every((file) => existsSync(path.join(guestDir, file)));
    return complete && stamp.builder === builderHash();
  } catch {
    return false;
  }
}

/** The kernel package that the meta package stands for today. */
function kernelPackage() {
  const depends = run('apt-cache', ['depends', '--no-recommends', kernelMetaPackage]);
  const found = /Depends: (linux-image-\S+-cloud-amd64)/.exec(depends)?.[1];
  if (!found) {
    throw new Error(
      `apt knows no kernel package behind ${kernelMetaPackage}: run \`apt-get update\` (as root) and try again`,
    );
  }
  return found;
}

/** Downloads a package and unpacks it into a directory of its own. */
export function unpack(packageName, workDir) {
  const downloads = path.join(workDir, `${packageName}.download`);
  const target = path.join(workDir, packageName);
  mkdirSync(downloads);
  run('apt-get', ['download', '-q', packageName], { cwd: downloads });
  const file = readdirSync(downloads).find((name) => name.endsWith('.deb'));
  if (!file) throw new Error(`apt-get downloaded nothing for ${packageName}`);
  run('dpkg-deb', ['-x', path.join(downloads, file), target]);
  return { dir: target, file };
}

/** Name as the kernel knows it: file names use `-` and `_` as they like. */
const moduleName = (file) => path.basename(file, '.ko').replaceAll('-', '_');

/** Files of modules, with those that they depend on, in load order. The package has no modules.dep (depmod makes it at installation): `.modinfo` says the same. */
function modulesInOrder(modulesDir, wanted) {
  const files = new Map(
    readdirSync(modulesDir, { recursive: true })
      .filter((file) => file.endsWith('.ko'))
      .map((file) => [moduleName(file), path.join(modulesDir, file)]),
  );
  const ordered = new Map();
  const visit = (name) => {
    const file = files.get(name);
    if (!file || ordered.has(name)) return;
    const depends = /\0depends=([^\0]*)\0/.exec(readFileSync(file).toString('latin1'))?.[1] ?? '';
    for (const needed of depends.split(',').filter(Boolean)) visit(needed.replaceAll('-', '_'));
    ordered.set(name, file);
  };
  for (const name of wanted) visit(name);
  return [...ordered.values()];
}

function installBusybox(busybox, root) {
  copyFileSync(busybox, path.join(root, 'bin/busybox'));
  chmodSync(path.join(root, 'bin/busybox'), 0o755);
  for (const applet of run(busybox, ['--list-full']).split('\n').filter(Boolean)) {
    const link = path.join(
      root,
      path.basename(path.dirname(applet)) === 'sbin' ? 'sbin' : 'bin',
      path.basename(applet),
    );
    if (!existsSync(link)) symlinkSync('/bin/busybox', link);
  }
  symlinkSync('/bin/busybox', path.join(root, 'init'));
}

const signatureMark = '~Module signature appended~\n';
/** Of what stands between a signature and the mark; its last four bytes are the signature's length. */
const signatureInfoBytes = 12;

/**
 * A module without its signature and without its types for BPF, which this guest has no use for: an emulated kernel is at work on both for a tenth of a
 * second.
 * @param {Buffer} module ELF, 64 bits, little-endian
 */
function bareModule(module) {
  return withoutTypes(withoutSignature(module));
}

function withoutSignature(module) {
  const end = module.length - signatureMark.length;
  if (module.toString('latin1', end) !== signatureMark) return module;
  return module.subarray(0, end - signatureInfoBytes - module.readUInt32BE(end - 4));
}

/** The section stays, under a name that the kernel does not look for. */
function withoutTypes(module) {
  const bare = Buffer.from(module);
  const [sections, headerBytes, count, names] = [
    Number(bare.readBigUInt64LE(40)),
    bare.readUInt16LE(58),
    bare.readUInt16LE(60),
    bare.readUInt16LE(62),
  ];
  const headerOf = (section) => sections + section * headerBytes;
  const namesAt = Number(bare.readBigUInt64LE(headerOf(names) + 24));
  for (let section = 0; section < count; section++) {
    const nameAt = namesAt + bare.readUInt32LE(headerOf(section));
    if (bare.toString('latin1', nameAt, nameAt + 5) === '.BTF\0') bare.write('.btf', nameAt, 'latin1');
  }
  return bare;
}

/** The modules of both times, and a file of each that names them in order. */
function installModules(modulesDir, root, late) {
  const early = modulesInOrder(modulesDir, wantedModules);
  const others = modulesInOrder(modulesDir, lateModules).filter((file) => !early.includes(file));
  for (const [files, dir, order] of [
    [early, root, 'order'],
    [others, late, 'late'],
  ]) {
    const target = path.join(dir, 'lib/modules');
    for (const file of files) writeFileSync(path.join(target, path.basename(file)), bareModule(readFileSync(file)));
    writeFileSync(path.join(target, order), files.map((file) => `${path.basename(file)}\n`).join(''));
  }
}

function installLateFiles(packages, late) {
  for (const [name, files] of Object.entries(lateFiles)) {
    for (const [from, to] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(late, to)), { recursive: true });
      // Follows links: a library's name is one to its version.
      copyFileSync(foundIn(packages.get(name).dir, from), path.join(late, to));
      chmodSync(path.join(late, to), 0o755);
    }
  }
}

/** Releases whose /lib is a link have their libraries below /usr. */
function foundIn(dir, file) {
  const found = [file, path.join('usr', file), file.replace(/^usr\//, '')]
    .map((name) => path.join(dir, name))
    .find((name) => existsSync(name));
  if (!found) throw new Error(`the package in ${dir} has no ${file}: another release of Debian than 12?`);
  return found;
}

/** Packed already: the kernel copies it as it is. */
function packLate(late) {
  const options = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--mtime=@0'];
  const tar = execFileSync('tar', ['-C', late, ...options, '-cf', '-', '.'], { maxBuffer: 256 << 20 });
  return gzipSync(tar, { level: 9 });
}

/** newc archive with root as owner of everything, whoever builds. */
export function archive(root) {
  const names = readdirSync(root, { recursive: true }).sort().join('\n');
  const cpio = execFileSync('cpio', ['--quiet', '-o', '-H', 'newc', '-R', '0:0'], {
    cwd: root,
    input: `.\n${names}\n`,
    maxBuffer: 256 << 20,
  });
  return gzipSync(cpio, { level: 9 });
}

/** Whoever has the old file open, or another name for it, keeps it as it is. */
function replace(name, content) {
  writeFileSync(path.join(guestDir, `${name}.new`), content);
  renameSync(path.join(guestDir, `${name}.new`), path.join(guestDir, name));
}

/** Builds the guest unless it is there already. Returns true when it was built. */
export function buildGuest(say = console.log) {
  if (guestIsCurrent()) return false;
  const workDir = mkdtempSync(path.join(tmpdir(), 'virt-guest-'));
  try {
    const kernelName = kernelPackage();
    const names = [kernelName, 'busybox-static', ...Object.keys(lateFiles)];
    say(`downloading ${names.join(' ')} (unpacked for the guest, not installed)`);
    const packages = new Map(names.map((name) => [name, unpack(name, workDir)]));
    const [kernel, busybox] = [packages.get(kernelName), packages.get('busybox-static')];
    const version = kernelName.replace('linux-image-', '');
    const root = path.join(workDir, 'root');
    cpSync(rootfs, root, { recursive: true });
    for (const dir of ['bin', 'sbin', 'dev', 'proc', 'sys', 'run', 'tmp', 'mnt', 'lib/modules', 'root']) {
      mkdirSync(path.join(root, dir), { recursive: true });
    }
    installBusybox(path.join(busybox.dir, 'bin/busybox'), root);
    const late = path.join(workDir, 'late');
    mkdirSync(path.join(late, 'lib/modules'), { recursive: true });
    installModules(path.join(kernel.dir, 'lib/modules', version), root, late);
    installLateFiles(packages, late);
    writeFileSync(path.join(root, 'lib/late.tar.gz'), packLate(late));
    mkdirSync(guestDir, { recursive: true });
    rmSync(path.join(guestDir, 'stamp.json'), { force: true });
    replace('vmlinuz', readFileSync(path.join(kernel.dir, 'boot', `vmlinuz-${version}`)));
    replace('initramfs.gz', archive(root));
    const stamp = { builder: builderHash(), packages: [...packages.values()].map(({ file }) => file) };
    replace('stamp.json', `${JSON.stringify(stamp, null, 2)}\n`);
    return true;
  } finally {
    rmSync(workDir, { recursive: true, force: true });
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    console.log(buildGuest() ? `guest built in ${guestDir}` : `guest in ${guestDir} is current`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
