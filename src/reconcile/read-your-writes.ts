import { isOlderVersion, type Key, type KubeObject } from '../api/index.ts';
import { type Clock, Listeners } from '../base/index.ts';
import type { CachedObjects } from './cached-objects.ts';

/** An own write that the watch has not shown yet. */
interface OwnWrite<T> {
  readonly kind: 'update' | 'create' | 'delete' | 'assumed';
  /** What readers get in place of what the watch shows; undefined: what it shows. */
  readonly object: T | undefined;
  /** The watch still shows the time before the write. */
  readonly isAhead: (shown: T | undefined) => boolean;
  readonly cancel: (() => void) | undefined;
}

/** A write under way. Its echo usually comes before its answer, and cannot be known for one until then. */
interface Writing {
  /** The watch has shown something meanwhile. */
  isShown: boolean;
  /** Versions that the API server answered; after a conflict several, of which the last holds what others wrote. */
  readonly answers: (string | undefined)[];
}

export interface ReadYourWritesOptions {
  /**
   * An own write that the watch has not shown after this time is given up, and listeners are called: an object that was created
   * and deleted while no watch was open is never shown. Without it only updates may be noted; one of those ends with whatever
   * newer state the watch shows, and a wrong one with the next conflict.
   */
  readonly giveUp?: { readonly afterMs: number; readonly clock: Clock };
  /** The echo of an own update wakes, too: for reconciles that go on from it. Otherwise it is no news. */
  readonly wakeOnEcho?: boolean;
}

/**
 * The read-your-writes overlay: cached objects with this process's own writes on top until the watch has caught up. No reconcile
 * sees an object older than its own last write, none creates or deletes a second time what it has created or deleted, and none
 * has to wait for the echo.
 *
 * Notify it of each write as soon as the API server has answered: `saw` for an update or patch, `created`, `deleted`, and `assumed`
 * where the answer does not hold the object (a binding). Read through `get`, `list` and `pending`; `onChange` leaves out echoes.
 */
export class ReadYourWrites<T extends KubeObject> implements CachedObjects<T> {
  readonly #cache: CachedObjects<T>;
  readonly #options: ReadYourWritesOptions;
  readonly #writes = new Map<Key, OwnWrite<T>>();
  readonly #writing = new Map<Key, Writing>();
  readonly #listeners = new Listeners<[key: Key]>();
  #endFollowing: (() => void) | undefined;

  constructor(cache: CachedObjects<T>, options: ReadYourWritesOptions = {}) {
    this.#cache = cache;
    this.#options = options;
  }

  get synced(): boolean {
    return this.#cache.synced;
  }

  get(key: Key): T | undefined {
    const shown = this.#cache.get(key);
    const own = this.#writes.get(key);
    if (!own) return shown;
    if (own.isAhead(shown)) return own.object ?? shown;
    this.#drop(key, own);
    return shown;
  }

  /** Of all objects, also of those that the watch does not show yet. */
  keys(): Iterable<Key> {
    if (this.#writes.size === 0) return this.#cache.keys();
    const created = [...this.#writes].filter(([, { kind }]) => kind === 'create').map(([key]) => key);
    return new Set([...this.#cache.keys(), ...created]);
  }

  list(): T[] {
    return [...this.keys()].flatMap((key) => this.get(key) ?? []);
  }

  /** The own write of this key that the watch has not shown yet. */
  pending(key: Key): OwnWrite<T>['kind'] | undefined {
    this.get(key);
    return this.#writes.get(key)?.kind;
  }

  /** The echo of an own update, and of what came before it, is no news and wakes nothing. */
  onChange(listener: (key: Key) => void): () => void {
    const end = this.#listeners.add(listener);
    this.#endFollowing ??= this.#cache.onChange((key) => this.#changed(key));
    return () => {
      end();
      if (this.#listeners.size > 0) return;
      this.#endFollowing?.();
      this.#endFollowing = undefined;
    };
  }

  /**
   * Runs a reconcile's write of `key`. Changes that the watch shows meanwhile are passed on when it has ended, because only then
   * the echo is known for one; nothing waits for them earlier, as that reconcile of the key is under way.
   */
  async whileWriting<R>(key: Key, write: () => Promise<R>): Promise<R> {
    const writing: Writing = { isShown: false, answers: [] };
    this.#writing.set(key, writing);
    try {
      return await write();
    } finally {
      this.#writing.delete(key);
      if (this.#hasNews(key, writing)) this.#wake(key);
    }
  }

  /** `observed`: what the reconcile began with; `newer`: what the API server answered since. */
  saw(key: Key, observed: T, newer: T): void {
    this.#writing.get(key)?.answers.push(newer.metadata.resourceVersion);
    const shown = this.#cache.get(key);
    if (!shown) this.#updateCreated(key, newer);
    const baseVersion = shown?.metadata.resourceVersion;
    if (!shown || baseVersion === undefined) return;
    const last = this.get(key)?.metadata.resourceVersion;
    const known = this.#writes.get(key)?.object?.metadata.resourceVersion;
    const wasShown = last === observed.metadata.resourceVersion || (known !== undefined && last === known);
    const isAhead = (now: T | undefined) =>
      now !== undefined && (now.metadata.resourceVersion === baseVersion || isOlder(now, newer));
    // Else the watch was faster than the answer: maybe only by what others wrote before it.
    if (wasShown || isOlder(shown, newer)) this.#keep(key, 'update', newer, isAhead);
  }

  /** A CREATE was accepted, or the object turned out to exist already. It is there from now on. */
  created(key: Key, object: T): void {
    const { uid } = object.metadata;
    const isAhead = (now: T | undefined) =>
      now === undefined || (now.metadata.uid !== uid && isOlderVersion(now, object));
    if (isAhead(this.#cache.get(key))) this.#keep(key, 'create', object, isAhead);
  }

  /** A DELETE was accepted. The object stays readable as the watch shows it; `pending` tells that it is on its way out. */
  deleted(key: Key, { metadata: { uid } }: T): void {
    const isAhead = (now: T | undefined) =>
      now !== undefined && now.metadata.uid === uid && now.metadata.deletionTimestamp === undefined;
    if (isAhead(this.#cache.get(key))) this.#keep(key, 'delete', undefined, isAhead);
  }

  /** A write was accepted whose answer is not the object; `object` is how it must look, `isEcho` knows a state that shows it. */
  assumed(key: Key, object: T, isEcho: (shown: T) => boolean): void {
    const { uid } = object.metadata;
    const isAhead = (now: T | undefined) => now !== undefined && now.metadata.uid === uid && !isEcho(now);
    if (isAhead(this.#cache.get(key))) this.#keep(key, 'assumed', object, isAhead);
  }

  /** An object that was created and updated before any watch showed it. */
  #updateCreated(key: Key, newer: T): void {
    const own = this.#writes.get(key);
    if (own?.kind === 'create' && own.object && isOlder(own.object, newer)) this.created(key, newer);
  }

  /** Drops what is left of the writes and their timers. */
  clear(): void {
    for (const [key, own] of this.#writes) this.#drop(key, own);
  }

  #changed(key: Key): void {
    const writing = this.#writing.get(key);
    if (writing) writing.isShown = true;
    else if (this.#isNews(key)) this.#wake(key);
  }

  /** What others wrote before the own write is news even if no watch shows it: no reconcile has decided on it. */
  #hasNews(key: Key, { isShown, answers }: Writing): boolean {
    if (answers.length > 1) return true;
    const [answer] = answers;
    const isEcho = answer !== undefined && this.#cache.get(key)?.metadata.resourceVersion === answer;
    if (isEcho && this.#options.wakeOnEcho) return isShown;
    return isShown && !isEcho && this.#isNews(key);
  }

  /** Forgets an own write that the watch has shown, or gone past. */
  #isNews(key: Key): boolean {
    const own = this.#writes.get(key);
    if (!own) return true;
    const shown = this.#cache.get(key);
    if (own.isAhead(shown)) return false;
    this.#drop(key, own);
    if (own.kind !== 'update' || this.#options.wakeOnEcho) return true;
    return shown?.metadata.resourceVersion !== own.object?.metadata.resourceVersion;
  }

  #keep(key: Key, kind: OwnWrite<T>['kind'], object: T | undefined, isAhead: OwnWrite<T>['isAhead']): void {
    const { giveUp } = this.#options;
    if (!giveUp && kind !== 'update')
      throw new TypeError(`a ${kind} of ${key} needs a time after which it is given up`);
    const before = this.#writes.get(key);
    if (before) this.#drop(key, before);
    const cancel = giveUp?.clock.schedule(giveUp.afterMs, () => {
      this.#writes.delete(key);
      this.#wake(key);
    });
    this.#writes.set(key, { kind, object, isAhead, cancel });
  }

  #drop(key: Key, own: OwnWrite<T>): void {
    own.cancel?.();
    this.#writes.delete(key);
  }

  #wake(key: Key): void {
    this.#listeners.notify(key);
  }
}

function isOlder<T extends KubeObject>(one: T, other: T): boolean {
  return one.metadata.uid === other.metadata.uid && isOlderVersion(one, other);
}
