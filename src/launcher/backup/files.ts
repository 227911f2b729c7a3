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
  try {
    await mkdir(vmi, { mode: 0o755 }).catch(async (error: unknown) => {
      if (errorCode(error) !== 'EEXIST' || !(await lstat(vmi)).isDirectory()) throw error;
    });
    await mkdir(backup, { mode: 0o755 });
  } catch (cause) {
    const advice =
      errorCode(cause) === 'EEXIST'
        ? 'remove it, or give the backup another name'
        : failureReason(errorMessage(cause), 'Push');
    throw new LauncherError('SETUP_FAILED', `${path.basename(backup)} cannot be made in volume ${name}: ${advice}`, {
      cause,
    });
  }
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
