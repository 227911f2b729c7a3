import { randomBytes } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
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
  const directory = path.dirname(file);
  const draft = path.join(directory, `.${path.basename(file)}.${randomBytes(6).toString('hex')}${draftSuffix}`);
  try {
    if (outlives === 'process') replaceNow(draft, file, content, mode);
    else await replaceForGood(draft, file, content, mode);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw error;
  }
}

/** No disk is waited for: four calls cost a tenth of what four questions to the thread pool do. */
function replaceNow(draft: string, file: string, content: string | Uint8Array, mode: number): void {
  writeFileSync(draft, content, { flag: 'wx', mode });
  renameSync(draft, file);
}

async function replaceForGood(draft: string, file: string, content: string | Uint8Array, mode: number): Promise<void> {
  const handle = await open(draft, 'wx', mode);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
  await syncDirectory(path.dirname(file));
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
