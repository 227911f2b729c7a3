import { constants } from 'node:fs';
import { chown, lstat, mkdir, open, rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { NodeError } from '../errors.ts';
import { importUser } from './confined.ts';

/** A new, empty directory of the import user; what was there of a try before is gone. */
export async function makeWorkDirectory(dir: string): Promise<void> {
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await giveToImport(dir);
}

export async function giveToImport(file: string): Promise<void> {
  if (process.geteuid?.() === 0) await chown(file, importUser.uid, importUser.gid);
}

/**
 * Takes a file of the work directory away from the import user, synced. What is no ordinary file with one name was put there by a program that
 * was taken over. Rejects with NodeError DISK_REFUSED.
 */
export async function takeBack(
  file: string,
  owner: { readonly uid: number; readonly gid: number },
  mode: number,
): Promise<void> {
  const found = await lstat(file);
  if (!found.isFile() || found.nlink !== 1) {
    throw new NodeError('DISK_REFUSED', `${path.basename(file)} is no ordinary file any more`);
  }
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    await handle.chown(owner.uid, owner.gid);
    await handle.chmod(mode);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** What may be filled of the file system there without taking it from everything else. */
export async function roomIn(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return Math.floor(bavail * bsize * 0.9);
}

/** Rejects with NodeError NO_SPACE, which has both numbers. */
export async function requireSpace(dir: string, bytes: number, what: string): Promise<void> {
  const { bavail, bsize } = await statfs(dir);
  if (bavail * bsize >= bytes) return;
  const text = `${what} needs ${bytes} bytes, and ${bavail * bsize} are free in ${dir}: free some space`;
  throw new NodeError('NO_SPACE', text);
}
