import { errorMessage, type Logger } from '../../base/index.ts';
import type { ApiObject } from '../object.ts';
import { judge, type Loss, type Start } from './continuity.ts';
import { adviceFor, type Database, type OpenDatabase, type Operation, openLevel, unavailable } from './database.ts';
import { type Address, type Collection, type Entry, objectKey, type StoreEvent } from './entry.ts';
import { StoreError } from './errors.ts';
import { History, type HistoryOptions } from './history.ts';
import { type Loaded, load, prepareDirectory } from './load.ts';
import { addToSum, format, recordKey, type StateRecord, stateKey } from './records.ts';
import { seal } from './seal.ts';
import { readMark, reservedAtOnce, Watermark } from './watermark.ts';

export interface StoreOptions extends HistoryOptions {
  readonly dir: string;
}

export interface StoreDeps {
  readonly log: Logger;
  readonly openDatabase?: OpenDatabase;
}

export type Mutation =
  /** Writes the object; its resourceVersion is set by the store. */
  | ({ readonly kind: 'put'; readonly object: ApiObject } & Address)
  /** Removes it; `object` is its last state, as watchers see it. */
  | ({ readonly kind: 'delete'; readonly object: ApiObject } & Address);

interface Waiting {
  readonly mutation: Mutation;
  readonly resolve: (entry: Entry) => void;
  readonly reject: (error: unknown) => void;
}

type Listener = (event: StoreEvent) => void;

interface Opened {
  readonly loaded: Loaded;
  readonly start: Start;
  readonly watermark: Watermark;
}

/**
 * All objects in memory, every change on disk before any client sees it. Changes that wait while the disk is busy go into one
 * batch with one sync. Revisions grow by one per change over all collections, as in etcd, go on after a restart, and never go back,
 * not even when the database comes back with less than was acknowledged: that is what `loss` reports.
 *
 * A change takes the place of what was there: callers hold the object's lock (`KeyLock`) from reading to `commit`.
 */
export class Store {
  readonly #options: StoreOptions;
  readonly #deps: StoreDeps;
  readonly #collections = new Map<Collection, Map<string, Entry>>();
  readonly #listeners = new Map<Collection | '*', Set<Listener>>();
  readonly #history: History;
  readonly #watermark: Watermark;
  /** What the database turned out to have lost at this start. */
  readonly loss: Loss | undefined;
  #database: Database;
  #state: StateRecord;
  /** Revision of the state record on disk: behind that of `#state` when revisions were skipped at the start. */
  #stored: number;
  #isMarking = true;
  #waiting: Waiting[] = [];
  #flushing: Promise<void> | undefined;
  #failed: { changes: StoreEvent[]; state: StateRecord } | undefined;
  #closed = false;

  private constructor(options: StoreOptions, deps: StoreDeps, { loaded, start, watermark }: Opened) {
    this.#options = options;
    this.#deps = deps;
    this.#database = loaded.database;
    this.#watermark = watermark;
    this.#stored = loaded.state.revision;
    this.#state = { ...loaded.state, revision: start.revision };
    this.loss = start.loss;
    this.#history = new History(options, start.revision, loaded.state.revision);
    for (const entry of loaded.entries) this.#collection(entry.collection).set(keyOf(entry), entry);
  }

  /** Throws StoreError. */
  static async open(options: StoreOptions, deps: StoreDeps): Promise<Store> {
    return new Store(options, deps, await open(options.dir, deps.openDatabase ?? openLevel));
  }

  /** Revision of the last visible change. */
  get revision(): number {
    return this.#state.revision;
  }

  /** Oldest revision from which a watch can resume. */
  get oldestRevision(): number {
    return this.#history.floor;
  }

  /** False while the disk refuses writes. */
  get healthy(): boolean {
    return !this.#closed && this.#failed === undefined;
  }

  get(address: Address): Entry | undefined {
    return this.#collections.get(address.collection)?.get(keyOf(address));
  }

  /** Entries of a collection, of one namespace when it is given; sorted by namespace and name. */
  list(collection: Collection, namespace?: string): Entry[] {
    const all = this.#collections.get(collection)?.values() ?? [];
    return [...all].filter((entry) => namespace === undefined || entry.namespace === namespace).sort(byKey);
  }

  /** The list as it was at `revision`; undefined when that is too long ago. */
  listAt(collection: Collection, namespace: string | undefined, revision: number): Entry[] | undefined {
    const later = this.#history.since(revision);
    if (later === undefined) return undefined;
    const then = new Map(this.list(collection, namespace).map((entry) => [keyOf(entry), entry]));
    for (const { entry, previous } of [...later].reverse()) {
      if (entry.collection !== collection || (namespace !== undefined && entry.namespace !== namespace)) continue;
      if (previous) then.set(keyOf(entry), previous);
      else then.delete(keyOf(entry));
    }
    return [...then.values()].sort(byKey);
  }

  /** Changes after `revision`; undefined when some of them are forgotten. */
  changesSince(revision: number): readonly StoreEvent[] | undefined {
    return this.#history.since(revision);
  }

  /** Calls back for each later change of a collection (or of all: `*`), in order; the returned function ends it. */
  subscribe(collection: Collection | '*', listener: Listener): () => void {
    const set = this.#listeners.get(collection) ?? new Set();
    this.#listeners.set(collection, set.add(listener));
    return () => {
      set.delete(listener);
      if (set.size === 0 && this.#listeners.get(collection) === set) this.#listeners.delete(collection);
    };
  }

  /** Resolves when the change is on disk and visible. Throws StoreError STORE_WRITE_FAILED or STORE_CLOSED. */
  commit(mutation: Mutation): Promise<Entry> {
    if (this.#closed) return Promise.reject(new StoreError('STORE_CLOSED', 'the API server is stopping'));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ mutation, resolve, reject });
      this.#flushing ??= this.#flush();
    });
  }

  /** Resolves when all changes handed over before have been decided. */
  async barrier(): Promise<void> {
    while (this.#flushing) await this.#flushing;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.barrier();
    this.#listeners.clear();
    // What of a failed batch is on disk is unknown: its revisions stay reserved.
    const last = this.#failed ? this.#watermark.reserved : this.#state.revision;
    const closed = await Promise.allSettled([this.#database.close(), this.#watermark.close(last)]);
    for (const result of closed) if (result.status === 'rejected') throw result.reason;
  }

  async #flush(): Promise<void> {
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#writeBatch(this.#waiting.splice(0));
    this.#flushing = undefined;
  }

  async #writeBatch(batch: readonly Waiting[]): Promise<void> {
    try {
      if (this.#failed) await this.#recover();
      await this.#store(batch);
    } catch (error) {
      this.#refuse(batch, error);
    }
  }

  async #store(batch: readonly Waiting[]): Promise<void> {
    const { changes, operations, state } = this.#prepare(batch);
    if (state.revision > this.#watermark.reserved) await this.#watermark.reserve(state.revision + reservedAtOnce);
    try {
      await this.#database.write(operations);
    } catch (error) {
      this.#failed = { changes, state };
      throw error;
    }
    await this.#publish(changes, state);
    for (const [index, { resolve, reject }] of batch.entries()) {
      const entry = changes[index]?.entry;
      if (entry) resolve(entry);
      else reject(new Error('a change without an entry'));
    }
  }

  #refuse(batch: readonly Waiting[], cause: unknown): void {
    this.#deps.log.error({ err: errorMessage(cause), changes: batch.length }, 'database write failed');
    // One that could not be opened again says itself what to do.
    const advice = cause instanceof StoreError ? '' : `: ${adviceFor(cause)}`;
    const text = `the change could not be stored (if the disk kept it all the same, it shows later): ${errorMessage(cause)}${advice}`;
    for (const { reject } of batch) reject(new StoreError('STORE_WRITE_FAILED', text, { cause }));
  }

  /** Gives each change its revision and builds one batch. A key may occur more than once; the last one counts. */
  #prepare(batch: readonly Waiting[]): { changes: StoreEvent[]; operations: Operation[]; state: StateRecord } {
    let { revision, count, revisionSum } = this.#state;
    const changes: StoreEvent[] = [];
    const operations: Operation[] = [];
    const latest = new Map<string, Entry | undefined>();
    for (const { mutation } of batch) {
      const key = recordKey(mutation);
      const previous = latest.has(key) ? latest.get(key) : this.get(mutation);
      revision++;
      const entry = entryOf(mutation, revision);
      const isDelete = mutation.kind === 'delete';
      latest.set(key, isDelete ? undefined : entry);
      if (isDelete) operations.push({ type: 'del', key });
      else operations.push({ type: 'put', key, value: seal(key, entry.json) });
      count += (isDelete ? 0 : 1) - (previous ? 1 : 0);
      revisionSum = addToSum(revisionSum, (isDelete ? 0 : revision) - (previous?.revision ?? 0));
      const type = isDelete ? 'DELETED' : previous ? 'MODIFIED' : 'ADDED';
      changes.push({ type, revision, entry, previous });
    }
    const state = { format, revision, count, revisionSum };
    operations.push({ type: 'put', key: stateKey, value: seal(stateKey, JSON.stringify(state)) });
    return { changes, operations, state };
  }

  /** Shows what is on disk; the watermark knows of it before any client. */
  async #publish(changes: readonly StoreEvent[], state: StateRecord): Promise<void> {
    await this.#note(state);
    this.#state = state;
    this.#stored = state.revision;
    for (const change of changes) {
      const collection = this.#collection(change.entry.collection);
      if (change.type === 'DELETED') collection.delete(keyOf(change.entry));
      else collection.set(keyOf(change.entry), change.entry);
      this.#history.push(change);
    }
    for (const change of changes) {
      for (const listener of this.#listeners.get(change.entry.collection) ?? []) listener(change);
      for (const listener of this.#listeners.get('*') ?? []) listener(change);
    }
  }

  /** A watermark that is behind reports no loss where there is none; so a change is not refused for it. */
  async #note({ revision, count }: StateRecord): Promise<void> {
    try {
      await this.#watermark.note(revision, count);
      this.#isMarking = true;
    } catch (error) {
      if (this.#isMarking) this.#deps.log.warn({ err: errorMessage(error) }, 'the watermark of the database is behind');
      this.#isMarking = false;
    }
  }

  /**
   * LevelDB refuses everything after a failed write until it is opened again. The failed batch is then whole on disk or not at
   * all. If it is, it has happened although its callers got 500: it is shown now, and the changes that waited are
   * refused once, because they were made from the state before it. A database that came back with less than was shown is
   * not written to again: the next start reports what was lost.
   */
  async #recover(): Promise<void> {
    const failed = this.#failed;
    if (!failed) return;
    await this.#database.close().catch(() => undefined);
    const { dir } = this.#options;
    const mayBeNew = await prepareDirectory(dir, this.#state.count > 0);
    const { database, state } = await load(dir, this.#deps.openDatabase ?? openLevel, mayBeNew);
    this.#database = database;
    const isKept = state.revision === failed.state.revision;
    if (!isKept && state.revision !== this.#stored) {
      throw new Error(
        `the database came back at revision ${state.revision} instead of ${this.#stored}: restart the node`,
      );
    }
    this.#failed = undefined;
    this.#deps.log.info({ revision: state.revision }, 'database opened again');
    if (!isKept) return;
    await this.#publish(failed.changes, failed.state);
    throw new Error('the database was opened again; try again');
  }

  #collection(name: Collection): Map<string, Entry> {
    const found = this.#collections.get(name) ?? new Map<string, Entry>();
    this.#collections.set(name, found);
    return found;
  }
}

function keyOf({ namespace, name }: Address): string {
  return objectKey(namespace, name);
}

function byKey(a: Entry, b: Entry): number {
  const [left, right] = [keyOf(a), keyOf(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}

function entryOf(mutation: Mutation, revision: number): Entry {
  const { collection, namespace, name } = mutation;
  const metadata = { ...mutation.object.metadata, resourceVersion: String(revision) };
  const object: ApiObject = { ...mutation.object, metadata };
  return { collection, namespace, name, revision, object, json: JSON.stringify(object) };
}

/** Database and watermark together: what one of them lost the other reports. Throws StoreError. */
async function open(dir: string, openDatabase: OpenDatabase): Promise<Opened> {
  const file = watermarkFile(dir);
  const found = await readMark(file).catch((error: unknown) => {
    throw unavailable(`the watermark ${file} of the database`, error);
  });
  const mayBeNew = await prepareDirectory(dir, found.kind === 'found' && found.mark.count > 0);
  const loaded = await load(dir, openDatabase, mayBeNew);
  try {
    const start = judge(found, loaded.state, loaded.isNew);
    return { loaded, start, watermark: await Watermark.begin(file, found, start.mark) };
  } catch (error) {
    await loaded.database.close().catch(() => undefined);
    throw unavailable(`the watermark ${file} of the database`, error);
  }
}

/** Beside the directory: an older copy of it that is put back leaves this one as it is. */
export function watermarkFile(dir: string): string {
  return `${dir}.watermark`;
}
