// What makes the guest of `build.mjs` one with Debian's qemu-guest-agent: a further archive for its kernel to unpack, behind the guest's own.
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { archive, guestDir, unpack } from './build.mjs';

const libraries = 'usr/lib/x86_64-linux-gnu';
const inGuest = 'lib/x86_64-linux-gnu';
/** The agent and what it is linked with, by package. The guest has no other program that uses them. */
const files = {
  'qemu-guest-agent': { 'usr/sbin/qemu-ga': 'sbin/qemu-ga' },
  'libglib2.0-0': ofLibraries('libglib-2.0.so.0', 'libgmodule-2.0.so.0'),
  'libpcre2-8-0': ofLibraries('libpcre2-8.so.0'),
  libnuma1: ofLibraries('libnuma.so.1'),
  libudev1: ofLibraries('libudev.so.1'),
  liburing2: ofLibraries('liburing.so.2'),
  libc6: {
    [`${inGuest}/libc.so.6`]: `${inGuest}/libc.so.6`,
    [`${inGuest}/libm.so.6`]: `${inGuest}/libm.so.6`,
    [`${inGuest}/ld-linux-x86-64.so.2`]: 'lib64/ld-linux-x86-64.so.2',
  },
};
/** What the agent says of the guest's system. */
const osRelease = 'NAME="Demo guest"\nPRETTY_NAME="Demo guest 1"\nID=demo\nVERSION="1"\nVERSION_ID="1"\n';

function ofLibraries(...names) {
  return Object.fromEntries(names.map((name) => [`${libraries}/${name}`, `${inGuest}/${name}`]));
}

/**
 * The archive; from Debian's packages the first time. The agent does not start by itself: in a guest without udev its port has no name.
 * @returns {string} its path
 */
export function guestAgentArchive() {
  const builder = createHash('sha256')
    .update(readFileSync(fileURLToPath(import.meta.url)))
    .digest('hex')
    .slice(0, 12);
  const target = path.join(guestDir, `agent-${builder}.gz`);
  if (existsSync(target)) return target;
  const work = mkdtempSync(path.join(tmpdir(), 'virt-guest-agent-'));
  try {
    const root = path.join(work, 'root');
    for (const dir of ['etc', 'var']) mkdirSync(path.join(root, dir), { recursive: true });
    writeFileSync(path.join(root, 'etc/os-release'), osRelease);
    // Where the agent looks for those who are logged in.
    symlinkSync('../run', path.join(root, 'var/run'));
    for (const [name, wanted] of Object.entries(files)) copyFiles(unpack(name, work).dir, root, wanted);
    writeFileSync(`${target}.new`, archive(root));
    renameSync(`${target}.new`, target);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return target;
}

/** Follows links: a library's name is one to its version. */
function copyFiles(from, root, wanted) {
  for (const [source, target] of Object.entries(wanted)) {
    mkdirSync(path.dirname(path.join(root, target)), { recursive: true });
    copyFileSync(path.join(from, source), path.join(root, target));
    chmodSync(path.join(root, target), 0o755);
  }
}
