import { mkdir } from 'node:fs/promises';
import { ClassicLevel } from 'classic-level';
import { errorCode, errorMessage } from '../../base/index.ts';
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
  const text = `the database ${dir} cannot be opened: ${errorMessage(cause)}`;
  return new StoreError('STORE_UNAVAILABLE', text, { cause });
}

export function corruptDatabase(dir: string, cause: unknown): StoreError {
  const text =
    `the database ${dir} is damaged: ${errorMessage(cause)}. ` +
    'Put back a copy of this directory, or move it away and start again: the API is then empty, ' +
    'running virtual machines go on and have to be applied again.';
  return new StoreError('STORE_CORRUPT', text, { cause });
}
