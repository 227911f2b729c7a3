import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';

/** Ending of drafts. One that a killed process left behind may be deleted by the owner of the directory. */
export const draftSuffix = '.tmp';

/** What the new content outlives: a killed process, or a power failure, too, which waits for the disk twice. */
export type Outlives = 'process' | 'power failure';

/**
 * Replaces a file whole or not at all, unless told otherwise also when the power fails: a draft beside it is synced and
 * renamed, then the directory is synced. Readers see the old content or the new. Rejects with the system's error; the draft is
 * then gone.
 */
export async function replaceFile(
  file: string,
  content: string | Uint8Array,
  mode: number,
  outlives: Outlives = 'power failure',
): Promise<void> {
  const isSynced = outlives === 'power failure';
  const directory = path.dirname(file);
  const draft = path.join(directory, `.${path.basename(file)}.${randomBytes(6).toString('hex')}${draftSuffix}`);
  try {
    await write(draft, content, mode, isSynced);
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw error;
  }
  if (isSynced) await syncDirectory(directory);
}

async function write(file: string, content: string | Uint8Array, mode: number, isSynced: boolean): Promise<void> {
  const handle = await open(file, 'wx', mode);
  try {
    await handle.writeFile(content);
    if (isSynced) await handle.sync();
  } finally {
    await handle.close();
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
