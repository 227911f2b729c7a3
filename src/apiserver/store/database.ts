import { mkdir } from 'node:fs/promises';
import { ClassicLevel } from 'classic-level';
import { errorCode, errorMessage } from '../../base/index.ts';
import { syncDirectory } from '../../host/index.ts';
import { StoreError } from './errors.ts';
import { objectEnd, objectPrefix, stateKey } from './records.ts';

export type Operation =
  | { readonly type: 'put'; readonly key: string; readonly value: string }
  | { readonly type: 'del'; readonly key: string };

/** An open key-value database whose batches are whole or absent, and on disk once `write` resolves. */
export interface Database {
  readState(): Promise<string | undefined>;
  readObjects(): AsyncIterable<readonly [string, string]>;
  write(operations: readonly Operation[]): Promise<void>;
  close(): Promise<void>;
}

export type OpenDatabase = (dir: string) => Promise<Database>;

/** Opens (or makes) the database in `dir`. Throws StoreError. */
export async function openLevel(dir: string): Promise<Database> {
  const level = new ClassicLevel<string, string>(dir, { valueEncoding: 'utf8', cacheSize: 2 * 1024 * 1024 });
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await level.open();
    // LevelDB renames its CURRENT and makes its log without that.
    await syncDirectory(dir);
  } catch (error) {
    throw openError(dir, error);
  }
  return {
    readState: () => level.get(stateKey),
    readObjects: () => level.iterator({ gte: objectPrefix, lt: objectEnd }),
    write: (operations) => level.batch([...operations], { sync: true }),
    close: () => level.close(),
  };
}

/** Maps what LevelDB says; its own text is in the cause. */
export function openError(dir: string, error: unknown): StoreError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const code = errorCode(cause);
  if (code === 'LEVEL_LOCKED') {
    const text = `the database ${dir} is in use: another API server runs on it; stop that one first`;
    return new StoreError('STORE_IN_USE', text, { cause });
  }
  if (
    code === 'LEVEL_CORRUPTION' ||
    /corruption|missing files|(?:MANIFEST-\d+|\.ldb|\.sst|\.log): No such file/i.test(errorMessage(cause))
  ) {
    return corruptDatabase(dir, cause);
  }
  return unavailable(`the database ${dir}`, cause);
}

const advice: Readonly<Record<string, string>> = {
  ENOSPC: 'free some space there',
  EDQUOT: 'free some space there',
  EROFS: 'its file system is mounted read-only: see in the kernel log why, repair it and mount it again',
  EACCES: 'give it back to the user that runs the API server',
  EPERM: 'give it back to the user that runs the API server',
  EIO: 'the disk fails: see in the kernel log why',
};

/** LevelDB gives the system's text for an error of the system, not its code. */
const texts: Readonly<Record<string, string>> = {
  'No space left on device': 'ENOSPC',
  'Disk quota exceeded': 'EDQUOT',
  'Read-only file system': 'EROFS',
  'Permission denied': 'EACCES',
  'Operation not permitted': 'EPERM',
  'Input/output error': 'EIO',
};

/** What the system's error means for who has to do something about it. */
export function adviceFor(error: unknown): string {
  const message = errorMessage(error);
  const code = Object.keys(texts).find((text) => message.includes(text));
  return advice[code === undefined ? String(errorCode(error)) : String(texts[code])] ?? 'see what is wrong with it';
}

export function unavailable(what: string, cause: unknown): StoreError {
  const text = `${what} cannot be used: ${errorMessage(cause)}: ${adviceFor(cause)}`;
  return new StoreError('STORE_UNAVAILABLE', text, { cause });
}

export function corruptDatabase(dir: string, cause: unknown): StoreError {
  const text =
    `the database ${dir} is damaged: ${errorMessage(cause)}. ` +
    'Put back a copy of this directory, or move its files away, leave the directory empty and start again: the API is then ' +
    'empty, and a virtual machine that still runs is ended, because nobody asks for it.';
  return new StoreError('STORE_CORRUPT', text, { cause });
}
