import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { draftFile, type FileDraft, replaceFile } from '../host/index.ts';

/** Replaces a file whole or not at all, for its owner only unless told otherwise; makes its directory. */
export async function writeFileAtomic(file: string, content: string | Uint8Array, mode = 0o600): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  await replaceFile(file, content, mode);
}

/** The same for what is of no use after a power failure, as the processes that it is about end with it: no disk is waited for. */
export async function writeForThisBoot(file: string, content: string, mode = 0o600): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  await replaceFile(file, content, mode, 'process');
}

/** As `writeFileAtomic`, in two steps: what is written replaces the file only when it is kept. */
export async function draftFileAtomic(file: string, content: string, mode = 0o600): Promise<FileDraft> {
  await mkdir(path.dirname(file), { recursive: true });
  return draftFile(file, content, mode);
}

/** Text of a file; undefined when it is not there or cannot be read. */
export async function readIfThere(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch(() => undefined);
}
