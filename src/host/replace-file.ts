import { randomBytes } from 'node:crypto';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { open, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../base/index.ts';

/** Ending of drafts. One that a killed process left behind may be deleted by the owner of the directory. */
export const draftSuffix = '.tmp';

/** What the new content outlives: a killed process, or a power failure, too, which waits for the disk twice. */
export type Outlives = 'process' | 'power failure';

/**
 * Replaces a file whole or not at all, unless asked otherwise also when the power fails: a draft beside it is synced and
 * renamed, then the directory is synced. Readers see the old content or the new. Rejects with the system's error; the draft is
 * then gone.
 */
export async function replaceFile(
  file: string,
  content: string | Uint8Array,
  mode: number,
  outlives: Outlives = 'power failure',
): Promise<void> {
  if (outlives === 'process') {
    replaceFileSync(file, content, mode);
    return;
  }
  const draft = await draftFile(file, content, mode);
  await draft.keep();
}

/** The content of a file before it takes its place. */
export interface FileDraft {
  /** Replaces the file, also when the power fails. Rejects with the system's error; the draft is then gone. */
  keep(): Promise<void>;
  /** The file stays as it is. */
  discard(): Promise<void>;
}

/**
 * Writes what is to replace a file, under a name beside it that nobody has: what can fail has been tried before something else is
 * done that cannot be taken back. Rejects with the system's error; the draft is then gone.
 */
export async function draftFile(file: string, content: string | Uint8Array, mode: number): Promise<FileDraft> {
  const draft = draftOf(file);
  const discard = () => rm(draft, { force: true });
  const orDiscarded = async (work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      await discard().catch(() => undefined);
      throw error;
    }
  };
  await orDiscarded(() => writeSynced(draft, content, mode));
  const keep = async () => {
    await rename(draft, file);
    await syncDirectory(path.dirname(file));
  };
  return { keep: () => orDiscarded(keep), discard };
}

/**
 * As `replaceFile`, for what need not outlive a power failure: no disk is waited for, and four calls cost a tenth of what four
 * questions to the thread pool do. Throws the system's error; the draft is then gone.
 */
export function replaceFileSync(file: string, content: string | Uint8Array, mode: number): void {
  const draft = draftOf(file);
  try {
    writeFileSync(draft, content, { flag: 'wx', mode });
    renameSync(draft, file);
  } catch (error) {
    try {
      rmSync(draft, { force: true });
    } catch {
      // The failure before it is the one to report.
    }
    throw error;
  }
}

function draftOf(file: string): string {
  return path.join(path.dirname(file), `.${path.basename(file)}.${randomBytes(6).toString('hex')}${draftSuffix}`);
}

async function writeSynced(draft: string, content: string | Uint8Array, mode: number): Promise<void> {
  const handle = await open(draft, 'wx', mode);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * A directory of files that are not changed any more is on disk with all that is in it, so that it can be renamed into place for
 * good. Rejects with the system's error.
 */
export async function syncTree(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const name = path.join(directory, entry.name);
    if (entry.isDirectory()) await syncTree(name);
    else if (entry.isFile()) await syncOpened(name);
  }
  await syncDirectory(directory);
}

/** Names that were made, renamed or removed in a directory outlive a power failure. Rejects with the system's error. */
export async function syncDirectory(directory: string): Promise<void> {
  await syncOpened(directory).catch((error: unknown) => {
    // A file system that cannot do that, or has no disk.
    if (errorCode(error) !== 'EINVAL') throw error;
  });
}

async function syncOpened(name: string): Promise<void> {
  const handle = await open(name, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
