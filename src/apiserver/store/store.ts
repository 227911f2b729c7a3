import { errorMessage, type Logger } from '../../base/index.ts';
import type { ApiObject } from '../object.ts';
import { corruptDatabase, type Database, type OpenDatabase, type Operation, openLevel } from './database.ts';
import { type Address, type Collection, type Entry, objectKey, type StoreEvent } from './entry.ts';
import { StoreError } from './errors.ts';
import { History, type HistoryOptions } from './history.ts';
import { addToSum, emptyState, parseEntry, parseState, recordKey, type StateRecord, stateKey } from './records.ts';

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

interface Loaded {
  readonly database: Database;
  readonly state: StateRecord;
  readonly entries: readonly Entry[];
}

/**
 * All objects in memory, every change on disk before anybody sees it. Changes that wait while the disk is busy go into one
 * batch with one sync. Revisions grow by one per change over all collections, as in etcd, and go on after a restart.
 *
 * A change takes the place of what was there: callers hold the object's lock (`KeyLock`) from reading to `commit`.
 */
export class Store {
  readonly #options: StoreOptions;
  readonly #deps: StoreDeps;
  readonly #collections = new Map<Collection, Map<string, Entry>>();
  readonly #listeners = new Map<Collection | '*', Set<Listener>>();
  readonly #history: History;
  #database: Database;
  #state: StateRecord;
  #waiting: Waiting[] = [];
  #flushing: Promise<void> | undefined;
  #failed: { changes: StoreEvent[]; state: StateRecord } | undefined;
  #closed = false;

  private constructor(options: StoreOptions, deps: StoreDeps, loaded: Loaded) {
    this.#options = options;
    this.#deps = deps;
    this.#database = loaded.database;
    this.#state = loaded.state;
    this.#history = new History(options, loaded.state.revision);
    for (const entry of loaded.entries) this.#collection(entry.collection).set(keyOf(entry), entry);
  }

  /** Throws StoreError. */
  static async open(options: StoreOptions, deps: StoreDeps): Promise<Store> {
    return new Store(options, deps, await load(options.dir, deps.openDatabase ?? openLevel));
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
    await this.#database.close();
  }

  async #flush(): Promise<void> {
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#writeBatch(this.#waiting.splice(0));
    this.#flushing = undefined;
  }

  async #writeBatch(batch: readonly Waiting[]): Promise<void> {
    try {
      if (this.#failed) await this.#recover();
    } catch (error) {
      this.#refuse(batch, error);
      return;
    }
    const { changes, operations, state } = this.#prepare(batch);
    try {
      await this.#database.write(operations);
    } catch (error) {
      this.#failed = { changes, state };
      this.#refuse(batch, error);
      return;
    }
    this.#publish(changes, state);
    for (const [index, { resolve, reject }] of batch.entries()) {
      const entry = changes[index]?.entry;
      if (entry) resolve(entry);
      else reject(new Error('a change without an entry'));
    }
  }

  #refuse(batch: readonly Waiting[], cause: unknown): void {
    this.#deps.log.error({ err: errorMessage(cause), changes: batch.length }, 'database write failed');
    const text = `the change could not be stored: ${errorMessage(cause)}`;
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
      else operations.push({ type: 'put', key, value: entry.json });
      count += (isDelete ? 0 : 1) - (previous ? 1 : 0);
      revisionSum = addToSum(revisionSum, (isDelete ? 0 : revision) - (previous?.revision ?? 0));
      const type = isDelete ? 'DELETED' : previous ? 'MODIFIED' : 'ADDED';
      changes.push({ type, revision, entry, previous });
    }
    const state = { format: this.#state.format, revision, count, revisionSum };
    operations.push({ type: 'put', key: stateKey, value: JSON.stringify(state) });
    return { changes, operations, state };
  }

  #publish(changes: readonly StoreEvent[], state: StateRecord): void {
    this.#state = state;
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

  /**
   * LevelDB refuses everything after a failed write until it is opened again. The failed batch is then whole on disk or not at
   * all. If it is, it has happened although its callers were told 500: it is shown now, and the changes that waited are
   * refused once, because they were made from the state before it.
   */
  async #recover(): Promise<void> {
    const failed = this.#failed;
    if (!failed) return;
    await this.#database.close().catch(() => undefined);
    const { database, state } = await load(this.#options.dir, this.#deps.openDatabase ?? openLevel);
    this.#database = database;
    this.#failed = undefined;
    this.#deps.log.info({ revision: state.revision }, 'database opened again');
    if (state.revision !== failed.state.revision) return;
    this.#publish(failed.changes, failed.state);
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

async function load(dir: string, openDatabase: OpenDatabase): Promise<Loaded> {
  const database = await openDatabase(dir);
  try {
    const state = parseState(await database.readState());
    const entries: Entry[] = [];
    for await (const [key, json] of database.readObjects()) entries.push(parseEntry(key, json));
    if (!state && entries.length > 0) throw new StoreError('STORE_CORRUPT', 'its state record is missing');
    checkState(state ?? emptyState, entries);
    return { database, state: state ?? emptyState, entries };
  } catch (error) {
    await database.close().catch(() => undefined);
    if (error instanceof StoreError && error.code !== 'STORE_CORRUPT') throw error;
    throw corruptDatabase(dir, error);
  }
}

function checkState(state: StateRecord, entries: readonly Entry[]): void {
  const sum = entries.reduce((total, entry) => addToSum(total, entry.revision), 0);
  const newest = entries.reduce((max, entry) => Math.max(max, entry.revision), 0);
  if (entries.length === state.count && sum === state.revisionSum && newest <= state.revision) return;
  const text = `${entries.length} objects found where ${state.count} were written, or some of them are old`;
  throw new StoreError('STORE_CORRUPT', text);
}
