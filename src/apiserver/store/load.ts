import { readdir, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../base/index.ts';
import { corruptDatabase, type Database, type OpenDatabase, unavailable } from './database.ts';
import type { Entry } from './entry.ts';
import { StoreError } from './errors.ts';
import { addToSum, emptyState, parseEntry, parseState, type StateRecord } from './records.ts';

export interface Loaded {
  readonly database: Database;
  readonly state: StateRecord;
  readonly entries: readonly Entry[];
  /** There was nothing in it. */
  readonly isNew: boolean;
}

/** Opens the database and reads all of it. Throws StoreError: an error of what is in it, of the disk, or of another program on it. */
export async function load(dir: string, openDatabase: OpenDatabase, isNewAllowed: boolean): Promise<Loaded> {
  const database = await openDatabase(dir);
  try {
    const state = parseState(await database.readState());
    const entries: Entry[] = [];
    for await (const [key, text] of database.readObjects()) entries.push(parseEntry(key, text));
    if (!state && (entries.length > 0 || !isNewAllowed)) {
      throw new StoreError('STORE_CORRUPT', 'its state record is missing');
    }
    checkState(state ?? emptyState, entries);
    return { database, state: state ?? emptyState, entries, isNew: !state };
  } catch (error) {
    await database.close().catch(() => undefined);
    if (error instanceof StoreError && error.code !== 'STORE_CORRUPT') throw error;
    throw corruptDatabase(dir, error);
  }
}

/**
 * Looks before LevelDB does, which makes a new database wherever there is no file CURRENT. `had`: there were objects in it.
 * True: a new one may be made here. Throws StoreError STORE_CORRUPT or STORE_UNAVAILABLE.
 */
export async function prepareDirectory(dir: string, had: boolean): Promise<boolean> {
  const names = await readdir(dir).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw unavailable(`the database ${dir}`, error);
  });
  if (!names) {
    if (had) throw corruptDatabase(dir, new Error('it is gone'));
    return true;
  }
  const hasData = await holdsData(dir, names);
  const hasCurrent = names.includes('CURRENT');
  if (hasData && !hasCurrent) throw corruptDatabase(dir, new Error('its file CURRENT is missing'));
  // The power failed at the very first start, before anything was acknowledged.
  if (!hasData && !had && hasCurrent && !(await hasManifest(dir))) await rm(path.join(dir, 'CURRENT'));
  return !had || (!hasData && !hasCurrent);
}

/** Tables, or a log with something in it. */
async function holdsData(dir: string, names: readonly string[]): Promise<boolean> {
  if (names.some((name) => /\.(?:ldb|sst)$/.test(name))) return true;
  const logs = names.filter((name) => name.endsWith('.log'));
  const sizes = await Promise.all(logs.map(async (name) => (await stat(path.join(dir, name))).size));
  return sizes.some((size) => size > 0);
}

/** CURRENT names a file with something in it. */
async function hasManifest(dir: string): Promise<boolean> {
  const name = (await readFile(path.join(dir, 'CURRENT'), 'utf8')).trim();
  if (!/^MANIFEST-\d+$/.test(name)) return false;
  return stat(path.join(dir, name)).then(
    ({ size }) => size > 0,
    () => false,
  );
}

function checkState(state: StateRecord, entries: readonly Entry[]): void {
  const sum = entries.reduce((total, entry) => addToSum(total, entry.revision), 0);
  const newest = entries.reduce((max, entry) => Math.max(max, entry.revision), 0);
  if (entries.length === state.count && sum === state.revisionSum && newest <= state.revision) return;
  const text = `${entries.length} objects found where ${state.count} were written, or some of them are old`;
  throw new StoreError('STORE_CORRUPT', text);
}
