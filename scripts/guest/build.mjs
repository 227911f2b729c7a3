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

function run(command, args, options = {}) {
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
function unpack(packageName, workDir) {
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

/** Module files in load order. The package has no modules.dep (depmod makes it at installation): `.modinfo` says the same. */
function modulesInOrder(modulesDir) {
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
  for (const name of wantedModules) visit(name);
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

function installModules(modulesDir, root) {
  const target = path.join(root, 'lib/modules');
  const order = modulesInOrder(modulesDir);
  for (const file of order) copyFileSync(file, path.join(target, path.basename(file)));
  writeFileSync(path.join(target, 'order'), order.map((file) => `${path.basename(file)}\n`).join(''));
}

/** newc archive with root as owner of everything, whoever builds. */
function archive(root) {
  const names = readdirSync(root, { recursive: true }).sort().join('\n');
  const cpio = execFileSync('cpio', ['--quiet', '-o', '-H', 'newc', '-R', '0:0'], {
    cwd: root,
    input: `.\n${names}\n`,
    maxBuffer: 256 << 20,
  });
  return gzipSync(cpio, { level: 9 });
}

/** Builds the guest unless it is there already. Returns true when it was built. */
export function buildGuest(say = console.log) {
  if (guestIsCurrent()) return false;
  const workDir = mkdtempSync(path.join(tmpdir(), 'virt-guest-'));
  try {
    const kernelName = kernelPackage();
    say(`downloading ${kernelName} and busybox-static (unpacked for the guest, not installed)`);
    const kernel = unpack(kernelName, workDir);
    const busybox = unpack('busybox-static', workDir);
    const version = kernelName.replace('linux-image-', '');
    const root = path.join(workDir, 'root');
    cpSync(rootfs, root, { recursive: true });
    for (const dir of ['bin', 'sbin', 'dev', 'proc', 'sys', 'run', 'tmp', 'mnt', 'lib/modules', 'root']) {
      mkdirSync(path.join(root, dir), { recursive: true });
    }
    installBusybox(path.join(busybox.dir, 'bin/busybox'), root);
    installModules(path.join(kernel.dir, 'lib/modules', version), root);
    mkdirSync(guestDir, { recursive: true });
    rmSync(path.join(guestDir, 'stamp.json'), { force: true });
    copyFileSync(path.join(kernel.dir, 'boot', `vmlinuz-${version}`), path.join(guestDir, 'vmlinuz'));
    writeFileSync(path.join(guestDir, 'initramfs.gz'), archive(root));
    const stamp = { builder: builderHash(), packages: [kernel.file, busybox.file] };
    writeFileSync(path.join(guestDir, 'stamp.json.new'), `${JSON.stringify(stamp, null, 2)}\n`);
    renameSync(path.join(guestDir, 'stamp.json.new'), path.join(guestDir, 'stamp.json'));
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
