import { lstat, mkdir, statfs } from 'node:fs/promises';
import path from 'node:path';
import { errorCode, errorMessage } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';
import { failureReason } from './failures.ts';

/** The last one is new, and none is a link, which a user of the claim may have put there. */
export async function makeDirectories([volume, vmi, backup]: readonly [string, string, string]): Promise<void> {
  const name = path.basename(volume);
  const there = await lstat(volume).catch(() => undefined);
  if (!there?.isDirectory()) {
    const why = there ? 'is no file system: the claim of a backup needs volumeMode Filesystem' : 'is not there yet';
    throw new LauncherError('INVALID_REQUEST', `volume ${name} ${why}`);
  }
  const refuse = (what: string, advice: string, cause: unknown) =>
    new LauncherError('SETUP_FAILED', `${path.basename(what)} cannot be made in volume ${name}: ${advice}`, { cause });
  try {
    await mkdir(vmi, { mode: 0o755 });
  } catch (cause) {
    if (errorCode(cause) !== 'EEXIST') throw refuse(vmi, mkdirAdvice(cause), cause);
    const present = await lstat(vmi).catch(() => undefined);
    if (!present?.isDirectory()) throw refuse(vmi, 'there is a file or link of that name: remove it', cause);
  }
  try {
    await mkdir(backup, { mode: 0o755 });
  } catch (cause) {
    const isThere = errorCode(cause) === 'EEXIST';
    throw refuse(backup, isThere ? 'remove it, or give the backup another name' : mkdirAdvice(cause), cause);
  }
}

function mkdirAdvice(cause: unknown): string {
  const isLong = errorCode(cause) === 'ENAMETOOLONG';
  return isLong ? 'the name is too long: give the backup a shorter one' : failureReason(errorMessage(cause), 'Push');
}

/** QEMU writes into a file that somebody deletes to the end, and says nothing. */
export async function missingFile(files: readonly string[]): Promise<string | undefined> {
  for (const file of files) {
    const there = await lstat(file).catch(() => undefined);
    if (!there?.isFile()) return path.basename(file);
  }
  return undefined;
}

/** No room for one more block of a disk. */
export async function isFull(directory: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize < blockBytes;
}

/** What QEMU copies at once. */
const blockBytes = 64 * 1024;
