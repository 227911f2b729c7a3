import path from 'node:path';
import { type GhostRecord, type Key, makeKey } from '../api/index.ts';
import { CodedError, errorCode, errorMessage, type Logger, silentLogger } from '../base/index.ts';
import { type RecordFiles, recordDirectory } from '../host/index.ts';
import { DomainCacheError } from './errors.ts';

export interface GhostRecordsOptions {
  /** `<kubevirt-private-dir>/ghost-records`. */
  readonly directory: string;
}

export interface GhostRecordsDeps {
  readonly logger?: Logger;
  /** The files of `directory`, unless the real ones are not wanted. */
  readonly files?: RecordFiles;
}

const version = 1;
const maxRecordBytes = 64 * 1024;
const readTries = 3;
const corruptSuffix = '.corrupt';
const uidPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/**
 * One file per VMI UID, with upstream's JSON plus a `version`; each is replaced as a whole. In memory by
 * UID, so that a new VMI with the name of a dead one is no conflict. A failed write never loses a record: memory keeps
 * it and `saveUnsaved` tries again.
 */
export class GhostRecords {
  readonly #directory: string;
  readonly #files: RecordFiles;
  readonly #logger: Logger;
  readonly #records = new Map<string, GhostRecord>();
  /** UIDs of each key, the one added last at the end. */
  readonly #uids = new Map<Key, Set<string>>();
  /** UIDs whose file does not match memory yet. */
  readonly #unsaved = new Set<string>();
  readonly #writing = new Map<string, Promise<void>>();

  constructor(options: GhostRecordsOptions, deps: GhostRecordsDeps = {}) {
    this.#directory = options.directory;
    this.#files = deps.files ?? recordDirectory(options.directory);
    this.#logger = deps.logger ?? silentLogger;
  }

  /** Reads the directory, made if absent. Unusable files are set aside as `*.corrupt`, with one warning each; those that the disk cannot read stay. */
  async load(): Promise<void> {
    for (const file of await this.#files.list()) {
      if (!file.endsWith(corruptSuffix)) await this.#loadOne(file);
    }
  }

  all(): readonly GhostRecord[] {
    return [...this.#records.values()];
  }

  byUid(uid: string): GhostRecord | undefined {
    return this.#records.get(uid);
  }

  /** The record of a key; with several UIDs the one added last. */
  get(key: Key): GhostRecord | undefined {
    const uid = [...(this.#uids.get(key) ?? [])].at(-1);
    return uid === undefined ? undefined : this.#records.get(uid);
  }

  keys(): Iterable<Key> {
    return this.#uids.keys();
  }

  /**
   * Remembers a launcher; the same UID with another socket replaces the former record. Rejects with DomainCacheError
   * RECORD_INVALID (nothing kept), NO_SPACE or RECORD_NOT_SAVED (kept in memory).
   */
  async add(record: GhostRecord): Promise<void> {
    const problem = invalidity(record);
    if (problem) throw new DomainCacheError('RECORD_INVALID', problem);
    const { uid } = record;
    const known = this.#records.get(uid);
    if (known && isEqual(known, record) && !this.#unsaved.has(uid)) return;
    this.#put({ ...record });
    await this.#save(uid);
  }

  /** Safe when there is none. Rejects with RECORD_NOT_SAVED when the file stays; it is tried again. */
  async remove(uid: string): Promise<void> {
    const record = this.#records.get(uid);
    if (record) this.#drop(record);
    else if (!this.#unsaved.has(uid)) return;
    await this.#save(uid);
  }

  /** UIDs that disk does not agree with. */
  unsaved(): readonly string[] {
    return [...this.#unsaved];
  }

  /** One more try for every record that could not be written. Rejects with the first error. */
  async saveUnsaved(): Promise<void> {
    for (const uid of [...this.#unsaved]) await this.#save(uid);
  }

  #put(record: GhostRecord): void {
    const { uid, namespace, name } = record;
    const key = makeKey(namespace, name);
    const known = this.#records.get(uid);
    if (known && makeKey(known.namespace, known.name) !== key) this.#drop(known);
    this.#records.set(uid, record);
    this.#uids.set(key, (this.#uids.get(key) ?? new Set()).add(uid));
  }

  #drop({ uid, namespace, name }: GhostRecord): void {
    this.#records.delete(uid);
    const key = makeKey(namespace, name);
    const uids = this.#uids.get(key);
    uids?.delete(uid);
    if (uids?.size === 0) this.#uids.delete(key);
  }

  /** Writes of one UID go one after the other, and always write what memory holds then. */
  #save(uid: string): Promise<void> {
    this.#unsaved.add(uid);
    const before = this.#writing.get(uid) ?? Promise.resolve();
    const mine = before.catch(() => undefined).then(() => this.#saveNow(uid));
    this.#writing.set(uid, mine);
    const done = () => {
      if (this.#writing.get(uid) === mine) this.#writing.delete(uid);
    };
    mine.then(done, done);
    return mine;
  }

  async #saveNow(uid: string): Promise<void> {
    const record = this.#records.get(uid);
    try {
      if (record) await this.#files.replace(uid, JSON.stringify({ ...record, version }));
      else await this.#files.remove(uid);
    } catch (cause) {
      throw this.#saveError(uid, cause);
    }
    if (this.#records.get(uid) === record) this.#unsaved.delete(uid);
  }

  async #loadOne(file: string): Promise<void> {
    try {
      const record = await this.#read(file);
      this.#put(record);
    } catch (error) {
      const fields = { file, reason: errorMessage(error) };
      if (isOfTheDisk(error)) {
        this.#logger.error(fields, 'ghost record cannot be read and stays for the next start');
        return;
      }
      this.#logger.warn(fields, 'ghost record is unusable and was set aside');
      await this.#files.rename(file, `${file}${corruptSuffix}`).catch(() => undefined);
    }
  }

  async #read(file: string): Promise<GhostRecord> {
    const value: unknown = JSON.parse(await this.#readText(file, readTries));
    const { name, namespace, socketFile, uid, pid, startTime } = (value ?? {}) as Partial<Record<string, unknown>>;
    const process = typeof pid === 'number' && typeof startTime === 'string' ? { pid, startTime } : {};
    const record = { name, namespace, socketFile, uid, ...process } as GhostRecord;
    const problem = invalidity(record);
    if (problem) throw new DomainCacheError('RECORD_INVALID', problem);
    if (record.uid !== file) throw new DomainCacheError('RECORD_INVALID', 'the file name is not the UID');
    return record;
  }

  /** A disk that fails once may do the next time. */
  async #readText(file: string, tries: number): Promise<string> {
    try {
      return await this.#files.read(file, maxRecordBytes);
    } catch (error) {
      if (tries <= 1 || !isOfTheDisk(error)) throw error;
      return this.#readText(file, tries - 1);
    }
  }

  #saveError(uid: string, cause: unknown): DomainCacheError {
    const code = errorCode(cause);
    const full = code === 'ENOSPC' || code === 'EDQUOT';
    const advice = full ? `free some space in ${this.#directory}` : `check ${this.#directory}`;
    const text = `the ghost record of VMI ${uid} was not saved (${errorMessage(cause)}): ${advice}; until then a restart of this agent may forget the VMI`;
    return new DomainCacheError(full ? 'NO_SPACE' : 'RECORD_NOT_SAVED', text, { cause });
  }
}

/** An error of the system says nothing about what is in the file. */
function isOfTheDisk(error: unknown): boolean {
  return !(error instanceof CodedError) && errorCode(error) !== undefined;
}

function invalidity(record: GhostRecord): string | undefined {
  for (const field of ['name', 'namespace', 'socketFile', 'uid'] as const) {
    if (typeof record[field] !== 'string' || record[field] === '') return `${field} is missing`;
  }
  if (!uidPattern.test(record.uid)) return 'the UID is no file name';
  if (!path.isAbsolute(record.socketFile)) return 'socketFile is not an absolute path';
  return undefined;
}

function isEqual(left: GhostRecord, right: GhostRecord): boolean {
  return (
    left.name === right.name &&
    left.namespace === right.namespace &&
    path.normalize(left.socketFile) === path.normalize(right.socketFile) &&
    left.pid === right.pid &&
    left.startTime === right.startTime
  );
}
