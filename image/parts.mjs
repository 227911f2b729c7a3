// What the image is made of, fetched and checked against lock.json: Debian packages by apt-get, Node.js by npm.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** What Node.js and koffi are linked with, and nothing else; `gcc-12-base` holds the licence of two of them. */
const debianPackages = ['gcc-12-base', 'libc6', 'libgcc-s1', 'libstdc++6'];
const nodeArch = { amd64: 'x64', arm64: 'arm64' };
const lockFile = 'image/lock.json';
const cacheDir = '.cache/image';

export class ImageError extends Error {}

export const architecture = () => execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();

export const readLock = () => JSON.parse(readFileSync(lockFile, 'utf8'));

const sum = (algorithm, file, encoding) => createHash(algorithm).update(readFileSync(file)).digest(encoding);

function fetched(file, command, args) {
  const target = path.resolve(cacheDir, file);
  if (existsSync(target)) return target;
  mkdirSync(cacheDir, { recursive: true });
  try {
    execFileSync(command, args, { cwd: cacheDir, stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    throw new ImageError(`${command} ${args.join(' ')}: ${String(error.stderr ?? error).trim()}`);
  }
  if (!existsSync(target)) throw new ImageError(`${command} ${args.join(' ')} left no ${file}`);
  return target;
}

const debFile = (name, version, arch) => `${name}_${version.replace(':', '%3a')}_${arch}.deb`;

/** The files of the locked Debian packages. Throws ImageError when a mirror has them no more, or has others. */
export function debianFiles(arch) {
  const locked = readLock().debian[arch];
  if (!locked) throw new ImageError(`${lockFile} knows no packages for ${arch}: run image/build.sh --update there`);
  return Object.entries(locked).map(([name, { version, sha256 }]) => {
    const file = fetched(debFile(name, version, arch), 'apt-get', ['download', `${name}=${version}`]);
    if (sum('sha256', file, 'hex') !== sha256) {
      rmSync(file);
      throw new ImageError(`${path.basename(file)} is not the file of ${lockFile}; image/build.sh --update takes it`);
    }
    return { name, version, file };
  });
}

/** The tarball of Node.js for this architecture. */
export function nodeFile(arch) {
  const { version, integrity } = readLock().node;
  const name = `node-linux-${nodeArch[arch]}`;
  const file = fetched(`${name}-${version}.tgz`, 'npm', ['pack', '--silent', `${name}@${version}`]);
  const found = `sha512-${sum('sha512', file, 'base64')}`;
  if (found !== integrity[arch]) {
    rmSync(file);
    throw new ImageError(`${path.basename(file)} is not the file of ${lockFile}`);
  }
  return { name, version, file };
}

/** Locks the versions that the mirror has now. */
export function updateLock(arch) {
  const lock = readLock();
  const entries = debianPackages.map((name) => {
    const policy = execFileSync('apt-cache', ['policy', name], {
      encoding: 'utf8',
      env: { ...process.env, LC_ALL: 'C' },
    });
    const version = /Candidate: (\S+)/.exec(policy)?.[1];
    if (!version || version === '(none)') throw new ImageError(`apt knows no ${name}: run apt-get update`);
    const file = fetched(debFile(name, version, arch), 'apt-get', ['download', `${name}=${version}`]);
    return [name, { version, sha256: sum('sha256', file, 'hex') }];
  });
  lock.debian[arch] = Object.fromEntries(entries);
  writeFileSync(lockFile, `${JSON.stringify(lock, null, 2)}\n`);
}

/** Of all that is fetched, what the lock does not name any more. */
export function forgetOthers(files) {
  const kept = new Set(files.map((file) => path.basename(file)));
  for (const file of readdirSync(cacheDir)) if (!kept.has(file)) rmSync(path.join(cacheDir, file));
}
