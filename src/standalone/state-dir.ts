import { access, chmod, constants, lstat, mkdir, readlink, realpath, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../base/index.ts';
import { NodeError } from './errors.ts';
import { type NodePaths, nodeDirectories } from './paths.ts';

const privateMode = 0o700;
const maxLinks = 40;
const otherDirectory = 'choose another directory with --state-dir';

/**
 * Makes the state directory and what lies directly in it, for this user (`uid`, the effective one) only; those of an older version
 * are tightened. Throws NodeError UNSAFE_STATE_DIR, with what to do, where other users could put or have put files: the node
 * reads its rights, keys and programs' configuration from here, as root.
 */
export async function ensureStateDir(paths: NodePaths, uid: number): Promise<void> {
  const { stateDir } = paths;
  await refuseUnsafeParents(stateDir, uid);
  await mkdir(stateDir, { recursive: true, mode: privateMode }).catch((error: unknown) => {
    if (!['EEXIST', 'ENOTDIR'].includes(errorCode(error) ?? '')) throw error;
    throw unsafe(stateDir, 'is a file, or below one', otherDirectory);
  });
  // In a sticky directory another user may just have made a parent that was missing, or a link with its name.
  await refuseUnsafeParents(stateDir, uid);
  await tighten(stateDir, uid);
  // Of a disk that is mounted read-only `mkdir` says that something is missing.
  await access(stateDir, constants.W_OK);
  for (const dir of [...nodeDirectories(paths), paths.hostDisksDir]) {
    await mkdir(dir, { recursive: true, mode: privateMode });
    // The owner may keep a part elsewhere, behind a link; no other user can have put one here.
    if (!(await lstat(dir)).isSymbolicLink()) await tighten(dir, uid);
  }
  // Of an older version, whose pods could write to it.
  await rm(path.join(path.dirname(paths.libvirtCacheDir), 'libvirt'), { recursive: true, force: true });
}

/** Throws NodeError NO_PERMISSION to who may not look into a state directory that is there: to them it would seem that no node is. */
export async function refuseClosedStateDir({ stateDir }: NodePaths): Promise<void> {
  await access(stateDir, constants.R_OK | constants.X_OK).catch(async (cause: unknown) => {
    const code = errorCode(cause);
    if (code === 'ENOTDIR' || (await isFile(stateDir)))
      throw unsafe(stateDir, 'is a file, or below one', otherDirectory);
    if (code !== 'EACCES') return;
    throw new NodeError('NO_PERMISSION', `${stateDir} is for its owner (root) only: use sudo`, { cause });
  });
}

async function isFile(file: string): Promise<boolean> {
  return stat(file).then(
    (found) => !found.isDirectory(),
    () => false,
  );
}

async function refuseUnsafeParents(stateDir: string, uid: number): Promise<void> {
  const problem = await othersMayChange(path.dirname(stateDir), uid);
  if (problem)
    throw unsafe(stateDir, problem, 'choose a directory below one that only root may write, such as /var/lib');
}

async function tighten(dir: string, uid: number): Promise<void> {
  const found = await lstat(dir);
  const other = 'move it away, or choose another directory with --state-dir';
  if (found.isSymbolicLink()) throw unsafe(dir, 'is a symbolic link', 'give the directory itself');
  if (!found.isDirectory()) throw unsafe(dir, 'is no directory', other);
  if (found.uid !== uid) throw unsafe(dir, `belongs to the user with the id ${found.uid}`, other);
  if (found.mode & 0o022) throw unsafe(dir, 'could be written by other users, so its content may be theirs', other);
  if (found.mode & 0o077) await chmod(dir, privateMode);
}

function unsafe(dir: string, problem: string, advice: string): NodeError {
  return new NodeError('UNSAFE_STATE_DIR', `${dir} ${problem}: ${advice}`);
}

/**
 * Why users other than root and `uid` could make another file or directory appear at this absolute path, in words that follow its
 * name; undefined when none can. Links are followed when only those two can have made them. What is not there has no owner.
 */
export async function othersMayChange(file: string, uid: number, links = 0): Promise<string | undefined> {
  let current = '/';
  const rest = file.split('/').filter(Boolean);
  for (;;) {
    const found = await lstat(current).catch((error: unknown) => {
      if (['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')) return undefined;
      throw error;
    });
    if (!found) return undefined;
    if (found.uid !== 0 && found.uid !== uid)
      return `is not safe: ${current} belongs to the user with the id ${found.uid}`;
    if (found.isSymbolicLink()) {
      if (links >= maxLinks) return `is not safe: ${current} is one of too many links`;
      const target = path.resolve(path.dirname(current), await readlink(current));
      return othersMayChange(path.join(target, ...rest), uid, links + 1);
    }
    const isOpen = found.isDirectory() && (found.mode & 0o022) !== 0 && (found.mode & 0o1000) === 0;
    if (isOpen) return `is not safe: other users may write to ${current}`;
    const next = rest.shift();
    if (next === undefined) return undefined;
    current = path.join(current, next);
  }
}

/**
 * Why other users could change what lies directly in this directory, or reach it: a file there may be given to QEMU, and an attacker who
 * took QEMU over may make it a program that runs as root. Also sticky directories are open. In words that follow its name.
 */
export async function isOpenToOthers(dir: string, uid: number): Promise<string | undefined> {
  const problem = await othersMayChange(dir, uid);
  if (problem) return problem;
  const real = await realpath(dir);
  if ((await lstat(real)).mode & 0o022) return 'is not safe: other users may write to it';
  for (let file = real; ; file = path.dirname(file)) {
    if (((await lstat(file)).mode & 0o001) === 0) return undefined;
    if (file === '/') return `may be searched by other users (chmod o-x ${dir})`;
  }
}
