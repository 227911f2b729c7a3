// What the image is made of, fetched and checked against lock.json: Debian packages by apt-get, Node.js by npm.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/**
 * What Node.js and koffi are linked with (`gcc-12-base` holds the licence of two of them), and what sets up networks of pods: `ip` and `nft`, what
 * carries migrations: `haproxy`, and what packs exported file systems: `tar`; each with what it is linked with. Nothing else.
 */
const debianPackages = [
  ...['gcc-12-base', 'libc6', 'libgcc-s1', 'libstdc++6'],
  ...['iproute2', 'libbpf1', 'libbsd0', 'libcap2', 'libelf1', 'libmd0', 'libmnl0', 'zlib1g'],
  ...['nftables', 'libedit2', 'libgmp10', 'libjansson4', 'libnftables1', 'libnftnl11', 'libtinfo6', 'libxtables12'],
  ...['haproxy', 'libcrypt1', 'libgcrypt20', 'libgpg-error0', 'liblua5.3-0', 'liblz4-1', 'liblzma5'],
  ...['libopentracing-c-wrapper0', 'libopentracing1', 'libpcre2-8-0', 'libssl3', 'libsystemd0', 'libzstd1'],
  ...['tar', 'libacl1', 'libselinux1'],
];
const nodeArch = { amd64: 'x64', arm64: 'arm64' };
const lockFile = 'image/lock.json';
const cacheDir = '.cache/image';

export class ImageError extends Error {}

/** Of this machine, by Debian's name. */
export const architecture = () => execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();

export const readLock = () => JSON.parse(readFileSync(lockFile, 'utf8'));

const sum = (algorithm, file, encoding) => createHash(algorithm).update(readFileSync(file)).digest(encoding);

/** What is fetched appears in one moment: what was ended half way must not look whole, and be locked as it is. */
function fetched(file, command, args) {
  const target = path.resolve(cacheDir, file);
  if (existsSync(target)) return target;
  const draft = path.resolve(cacheDir, 'draft');
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  try {
    execFileSync(command, args, { cwd: draft, stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    throw new ImageError(`${command} ${args.join(' ')}: ${String(error.stderr ?? error).trim()}`);
  }
  if (!existsSync(path.join(draft, file))) throw new ImageError(`${command} ${args.join(' ')} left no ${file}`);
  renameSync(path.join(draft, file), target);
  return target;
}

/**
 * Options that let apt fetch for `arch`: for another machine's with lists of their own, so that nothing of this one's changes.
 * Those are fetched when there are none, or `anew`.
 */
function aptOptions(arch, anew = false) {
  if (arch === architecture()) return [];
  const dir = path.resolve(cacheDir, `apt-${arch}`);
  const options = {
    'APT::Architecture': arch,
    'APT::Architectures': arch,
    'Dir::State': path.join(dir, 'state'),
    'Dir::State::status': path.join(dir, 'status'),
    'Dir::Cache': path.join(dir, 'cache'),
    'Debug::NoLocking': '1',
  };
  const given = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  // The last thing that is written: without it they are not whole.
  const done = path.join(dir, 'done');
  if (existsSync(done) && !anew) return given;
  rmSync(dir, { recursive: true, force: true });
  for (const folder of ['state/lists/partial', 'cache/archives/partial'])
    mkdirSync(path.join(dir, folder), { recursive: true });
  writeFileSync(path.join(dir, 'status'), '');
  try {
    execFileSync('apt-get', [...given, 'update'], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    rmSync(dir, { recursive: true });
    throw new ImageError(`apt-get update for ${arch}: ${String(error.stderr ?? error).trim()}`);
  }
  writeFileSync(done, '');
  return given;
}

const debFile = (name, version, arch) => `${name}_${version.replace(':', '%3a')}_${arch}.deb`;

/** The files of the locked Debian packages. Throws ImageError when a mirror has them no more, or has others. */
export function debianFiles(arch) {
  const locked = readLock().debian[arch];
  if (!locked)
    throw new ImageError(`${lockFile} knows no packages for ${arch}: run image/build.sh --arch ${arch} --update`);
  const options = aptOptions(arch);
  return Object.entries(locked).map(([name, { version, sha256 }]) => {
    const file = fetched(debFile(name, version, arch), 'apt-get', [...options, 'download', `${name}=${version}`]);
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

/** The folder of koffi's binary for this architecture: npm installed the machine's own, another one's is fetched by package-lock.json. */
export function koffiBinary(arch) {
  const name = `@koromix/koffi-linux-${nodeArch[arch]}`;
  if (arch === architecture()) return { folder: path.join('node_modules', name), files: [] };
  const { version, integrity } = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages[`node_modules/${name}`];
  const file = fetched(`${name.replace('@', '').replace('/', '-')}-${version}.tgz`, 'npm', [
    'pack',
    '--silent',
    `${name}@${version}`,
  ]);
  if (`sha512-${sum('sha512', file, 'base64')}` !== integrity) {
    rmSync(file);
    throw new ImageError(`${path.basename(file)} is not the file of package-lock.json`);
  }
  const folder = path.resolve(cacheDir, `koffi-${arch}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  execFileSync('tar', ['-x', '-z', '-f', file, '--strip-components=1', '--no-same-owner', '-C', folder]);
  return { folder, files: [file, folder] };
}

/** Locks the versions that the mirror has now. */
export function updateLock(arch) {
  const lock = readLock();
  const options = aptOptions(arch, true);
  const entries = debianPackages.map((name) => {
    const policy = execFileSync('apt-cache', [...options, 'policy', name], {
      encoding: 'utf8',
      env: { ...process.env, LC_ALL: 'C' },
    });
    const version = /Candidate: (\S+)/.exec(policy)?.[1];
    if (!version || version === '(none)') throw new ImageError(`apt knows no ${name}: run apt-get update`);
    const file = fetched(debFile(name, version, arch), 'apt-get', [...options, 'download', `${name}=${version}`]);
    return [name, { version, sha256: sum('sha256', file, 'hex') }];
  });
  lock.debian[arch] = Object.fromEntries(entries);
  writeFileSync(lockFile, `${JSON.stringify(lock, null, 2)}\n`);
}

/** Of all that is fetched, what the lock does not name any more. */
export function forgetOthers(files) {
  const kept = new Set(files.map((file) => path.basename(file)));
  const others = readdirSync(cacheDir).filter((file) => !kept.has(file) && !file.startsWith('apt-'));
  for (const file of others) rmSync(path.join(cacheDir, file), { recursive: true });
}
