import { type Key, type KubeObject, keyOf } from '../api/index.ts';

/** Called in the order of the changes, one after the other, with the cache already changed. Objects are shared: copy before changing. */
export interface StoreHandlers<T extends KubeObject> {
  readonly added?: (object: T) => void;
  readonly updated?: (old: T, object: T) => void;
  /** `isTombstone`: the end was not seen, only that the object is no more; `last` is then an older state. */
  readonly deleted?: (last: T, isTombstone: boolean) => void;
}

/** Values under which an object is found: `byIndex(name, value)`. */
export type IndexFunctions<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

/** The cache of an informer: objects by `namespace/name`, an object of the same name with another UID is another object. */
export class ObjectStore<T extends KubeObject> {
  readonly #objects = new Map<Key, T>();
  readonly #handlers = new Set<StoreHandlers<T>>();
  readonly #functions: IndexFunctions<T>;
  readonly #indexes = new Map<string, Map<string, Set<Key>>>();
  readonly #onHandlerError: (error: unknown) => void;

  constructor(functions: IndexFunctions<T>, onHandlerError: (error: unknown) => void) {
    this.#functions = functions;
    this.#onHandlerError = onHandlerError;
    for (const name of Object.keys(functions)) this.#indexes.set(name, new Map());
  }

  get size(): number {
    return this.#objects.size;
  }

  get(key: Key): T | undefined {
    return this.#objects.get(key);
  }

  keys(): IterableIterator<Key> {
    return this.#objects.keys();
  }

  values(): IterableIterator<T> {
    return this.#objects.values();
  }

  /** Throws for an index that was not declared. */
  byIndex(name: string, value: string): T[] {
    const index = this.#indexes.get(name);
    if (!index) throw new RangeError(`no index ${name}`);
    const found: T[] = [];
    for (const key of index.get(value) ?? []) {
      const object = this.#objects.get(key);
      if (object) found.push(object);
    }
    return found;
  }

  /** New handlers first hear of everything that is there. */
  addHandlers(handlers: StoreHandlers<T>): () => void {
    this.#handlers.add(handlers);
    for (const object of this.#objects.values()) this.#guard(() => handlers.added?.(object));
    return () => this.#handlers.delete(handlers);
  }

  upsert(object: T): void {
    const key = keyOf(object);
    const old = this.#objects.get(key);
    if (old && old.metadata.uid !== object.metadata.uid) {
      this.#remove(key, old, old, true);
      this.#insert(key, undefined, object);
    } else if (old?.metadata.resourceVersion !== object.metadata.resourceVersion) {
      this.#insert(key, old, object);
    }
  }

  /** A late word about an earlier object of the name changes nothing. */
  delete(last: T): void {
    const key = keyOf(last);
    const old = this.#objects.get(key);
    if (old && old.metadata.uid === last.metadata.uid) this.#remove(key, old, last, false);
  }

  /** The whole truth of a list: what it does not name is gone. */
  replace(objects: readonly T[]): void {
    const present = new Set(objects.map(keyOf));
    for (const [key, old] of this.#objects) {
      if (!present.has(key)) this.#remove(key, old, old, true);
    }
    for (const object of objects) this.upsert(object);
  }

  #insert(key: Key, old: T | undefined, object: T): void {
    this.#objects.set(key, object);
    if (old) this.#unindex(key, old);
    this.#index(key, object);
    this.#notify((handlers) => (old ? handlers.updated?.(old, object) : handlers.added?.(object)));
  }

  #remove(key: Key, old: T, last: T, isTombstone: boolean): void {
    this.#objects.delete(key);
    this.#unindex(key, old);
    this.#notify((handlers) => handlers.deleted?.(last, isTombstone));
  }

  #index(key: Key, object: T): void {
    for (const [name, index] of this.#indexes) {
      for (const value of this.#functions[name]?.(object) ?? []) {
        const keys = index.get(value) ?? new Set();
        index.set(value, keys.add(key));
      }
    }
  }

  #unindex(key: Key, object: T): void {
    for (const [name, index] of this.#indexes) {
      for (const value of this.#functions[name]?.(object) ?? []) {
        const keys = index.get(value);
        keys?.delete(key);
        if (keys?.size === 0) index.delete(value);
      }
    }
  }

  #notify(call: (handlers: StoreHandlers<T>) => void): void {
    for (const handlers of this.#handlers) this.#guard(() => call(handlers));
  }

  /** A handler that throws must not stop the cache. */
  #guard(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.#onHandlerError(error);
    }
  }
}
