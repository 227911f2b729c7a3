// node scripts/guest/installer/build.mjs   Builds a medium that installs a small Linux: .cache/installer/installer.iso, which boots by EFI.
// Kernel and programs are those of the demo guest (.cache/guest), the boot loader is of Debian's package systemd-boot-efi. Needs no root.
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { archive, guestDir, run, unpack } from '../build.mjs';
import { espBuilder, writeEsp } from '../esp.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const files = path.join(here, 'files');
const installerDir = path.resolve(here, '../../../.cache/installer');
const medium = 'installer.iso';
const kernelArgs = 'console=tty0 console=ttyS0 no_timer_check quiet';
/** No larger than the partition that the installer makes for it. */
const espMib = 31;

/** Of all that goes into it. */
function inputsHash() {
  const hash = createHash('sha256');
  for (const file of [fileURLToPath(import.meta.url), espBuilder]) hash.update(readFileSync(file));
  for (const name of readdirSync(files).sort())
    hash
      .update(name)
      .update('\0')
      .update(readFileSync(path.join(files, name)));
  return hash.update(readFileSync(path.join(guestDir, 'stamp.json'))).digest('hex');
}

/** True when `.cache/installer` holds what this builder would make of the guest that is there. */
export function installerIsCurrent() {
  try {
    const stamp = JSON.parse(readFileSync(path.join(installerDir, 'stamp.json'), 'utf8'));
    return existsSync(path.join(installerDir, medium)) && stamp.inputs === inputsHash();
  } catch {
    return false;
  }
}

/** A file system of EFI whose boot loader starts the kernel with this program as process 1. */
function bootImage(image, { loader, initrd, title, init }) {
  run('truncate', ['--size', `${espMib}M`, image]);
  writeEsp(
    { image, offsetMib: 0, sizeMib: espMib },
    {
      loader,
      kernel: path.join(guestDir, 'vmlinuz'),
      initrd,
      title,
      kernelArgs: `rdinit=/${init} ${kernelArgs}`,
    },
  );
}

/** Builds the medium unless it is there already; the demo guest must be. Returns true when it was built. */
export function buildInstaller(say = console.log) {
  if (installerIsCurrent()) return false;
  const workDir = mkdtempSync(path.join(tmpdir(), 'virt-installer-'));
  try {
    say('downloading systemd-boot-efi (unpacked for the medium, not installed)');
    const loader = path.join(unpack('systemd-boot-efi', workDir).dir, 'usr/lib/systemd/boot/efi/systemd-bootx64.efi');
    const [added, tree] = [path.join(workDir, 'added'), path.join(workDir, 'tree')];
    for (const dir of [added, tree, installerDir]) mkdirSync(dir, { recursive: true });
    cpSync(files, added, { recursive: true });
    const initrd = path.join(workDir, 'initrd');
    // The kernel unpacks archives one after the other.
    writeFileSync(initrd, Buffer.concat([readFileSync(path.join(guestDir, 'initramfs.gz')), archive(added)]));
    const parts = { loader, initrd };
    bootImage(path.join(tree, 'boot.img'), { ...parts, title: 'Install', init: 'installer' });
    bootImage(path.join(tree, 'system.img'), { ...parts, title: 'Linux', init: 'installed' });
    const iso = path.join(workDir, medium);
    run('genisoimage', ['-quiet', '-V', 'INSTALL', '-o', iso, '-e', 'boot.img', '-no-emul-boot', tree]);
    rmSync(path.join(installerDir, 'stamp.json'), { force: true });
    cpSync(iso, path.join(installerDir, `${medium}.new`));
    renameSync(path.join(installerDir, `${medium}.new`), path.join(installerDir, medium));
    writeFileSync(path.join(installerDir, 'stamp.json'), `${JSON.stringify({ inputs: inputsHash() }, null, 2)}\n`);
    return true;
  } finally {
    rmSync(workDir, { recursive: true, force: true });
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    console.log(buildInstaller() ? `medium built in ${installerDir}` : `medium in ${installerDir} is current`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
