import type { Key, KubeObject } from '../api/index.ts';
import { type Clock, Listeners } from '../base/index.ts';
import type { CachedObjects } from './cached-objects.ts';
import {
  assumptionOf,
  creationOf,
  deletionOf,
  isCreation,
  isOlder,
  isStillAhead,
  type OwnWrite,
  pendingKind,
  updateOf,
  viewOf,
} from './own-write.ts';

/** A write under way. Its echo usually comes before its answer, and cannot be known for one until then. */
interface Writing {
  /** Versions that the watch has shown meanwhile; undefined: that there is none. */
  readonly shown: Set<string | undefined>;
  /** Versions whose being shown is no news. */
  readonly known: Set<string | undefined>;
  /** The API server took a write whatever others had written before. */
  isUnguarded: boolean;
  /** Versions that the API server answered; after a conflict several, of which the last holds what others wrote. */
  readonly answers: (string | undefined)[];
}

export interface ReadYourWritesOptions {
  /**
   * An own write that the watch has not shown after this time is given up, and listeners are called: an object that was created
   * and deleted while no watch was open is never shown. Without it only updates may be noted. An update is never given up, however long
   * no watch is open: it ends with whatever newer state the watch shows, and a wrong one with the next conflict.
   */
  readonly giveUp?: { readonly afterMs: number; readonly clock: Clock };
  /** The echo of an own update wakes, too: for reconciles that go on from it. Otherwise it is no news. */
  readonly wakeOnEcho?: boolean;
}

type Kept<T> = OwnWrite<T> & { readonly cancel: (() => void) | undefined };

/**
 * The read-your-writes overlay: cached objects with this process's own writes on top until the watch has caught up. No reconcile
 * sees an object older than its own last write, none creates or deletes a second time what it has created or deleted, and none
 * has to wait for the echo.
 *
 * Notify it of each write as soon as the API server has answered: `saw` for an update, or a patch that tests what was decided on,
 * `patched` for a patch without such a test, `created`, `deleted`, and `assumed` where the answer does not hold the object (a
 * binding). Read through `get`, `list` and `pending`; `onChange` leaves out echoes.
 */
export class ReadYourWrites<T extends KubeObject> implements CachedObjects<T> {
  readonly #cache: CachedObjects<T>;
  readonly #options: ReadYourWritesOptions;
  readonly #writes = new Map<Key, Kept<T>>();
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
    if (isStillAhead(own, shown)) return viewOf(own, shown);
    this.#drop(key, own);
    return shown;
  }

  /** Of all objects, also of those that the watch does not show yet. */
  keys(): Iterable<Key> {
    if (this.#writes.size === 0) return this.#cache.keys();
    const created = [...this.#writes].filter(([, own]) => isCreation(own)).map(([key]) => key);
    return new Set([...this.#cache.keys(), ...created]);
  }

  list(): T[] {
    return [...this.keys()].flatMap((key) => this.get(key) ?? []);
  }

  /** The own write of this key that the watch has not shown yet. */
  pending(key: Key): OwnWrite<T>['kind'] | undefined {
    this.get(key);
    const own = this.#writes.get(key);
    return own && pendingKind(own);
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
    const known = new Set(this.#writes.get(key)?.known);
    const writing: Writing = { shown: new Set(), known, isUnguarded: false, answers: [] };
    this.#writing.set(key, writing);
    try {
      return await write();
    } finally {
      this.#writing.delete(key);
      if (this.#hasNews(key, writing)) this.#wake(key);
    }
  }

  /**
   * Of a write that the API server takes only onto what the reconcile decided on. `observed`: what the reconcile began with;
   * `newer`: what the API server answered since.
   */
  saw(key: Key, observed: T, newer: T): void {
    this.#note(key, observed, newer, false);
  }

  /** Of a patch that tests nothing: what others wrote before it was not decided on, so its echo is news always. */
  patched(key: Key, observed: T, newer: T): void {
    this.#note(key, observed, newer, true);
  }

  #note(key: Key, observed: T, newer: T, isUnguarded: boolean): void {
    const version = newer.metadata.resourceVersion;
    const before = this.#writes.get(key);
    const known = new Set([...(before?.known ?? []), observed.metadata.resourceVersion, version].slice(-maxKnown));
    this.#noteWriting(key, known, version, isUnguarded);
    const shown = this.#cache.get(key);
    if (shown?.metadata.uid !== newer.metadata.uid && before?.kind === 'create') this.#updateCreated(key, newer);
    else if (shown) this.#update(key, { observed, newer, shown }, { known, isUnguarded });
  }

  #noteWriting(key: Key, known: ReadonlySet<string | undefined>, version: string | undefined, isUnguarded: boolean) {
    const writing = this.#writing.get(key);
    if (!writing) return;
    writing.answers.push(version);
    writing.isUnguarded ||= isUnguarded;
    for (const each of known) writing.known.add(each);
  }

  #update(
    key: Key,
    { observed, newer, shown }: { readonly observed: T; readonly newer: T; readonly shown: T },
    { known, isUnguarded }: { readonly known: ReadonlySet<string | undefined>; readonly isUnguarded: boolean },
  ): void {
    const baseVersion = shown.metadata.resourceVersion;
    const last = this.get(key)?.metadata.resourceVersion;
    const before = this.#writes.get(key);
    const version = newer.metadata.resourceVersion;
    // A write that changed nothing has no echo.
    if (baseVersion === undefined || version === baseVersion || version === last) return;
    // Answers of two writers of one object come in any order.
    if (before?.object && isOlder(newer, before.object)) return;
    const lastKnown = before?.object?.metadata.resourceVersion;
    const wasShown = last === observed.metadata.resourceVersion || (lastKnown !== undefined && last === lastKnown);
    // Else the watch was faster than the answer: maybe only by what others wrote before it.
    if (!wasShown && !isOlder(shown, newer)) return;
    const isOnForeign = isUnguarded || before?.isOnForeign === true || !known.has(baseVersion);
    const update = updateOf(newer, baseVersion, { known: new Set([...known, baseVersion]), isOnForeign });
    const isLeaving = before?.kind === 'delete' && shown.metadata.uid === newer.metadata.uid;
    this.#keep(key, isLeaving ? { ...before, under: update } : update);
  }

  /** A CREATE was accepted, or the object turned out to exist already. It is there from now on. */
  created(key: Key, object: T): void {
    this.#keepIfAhead(key, creationOf(object));
  }

  /** A DELETE was accepted. The object stays readable; `pending` tells that it is on its way out. */
  deleted(key: Key, object: T): void {
    this.#keepIfAhead(key, deletionOf(object, this.#ahead(key)));
  }

  /** A write was accepted whose answer is not the object; `object` is how it must look, `isEcho` knows a state that shows it. */
  assumed(key: Key, object: T, isEcho: (shown: T) => boolean): void {
    this.#keepIfAhead(key, assumptionOf(object, isEcho, this.#ahead(key)));
  }

  /** An object that was created and updated before any watch showed it. */
  #updateCreated(key: Key, newer: T): void {
    const own = this.#writes.get(key);
    if (own?.kind === 'create' && own.object && isOlder(own.object, newer)) this.created(key, newer);
  }

  #ahead(key: Key): OwnWrite<T> | undefined {
    this.get(key);
    return this.#writes.get(key);
  }

  #keepIfAhead(key: Key, own: OwnWrite<T>): void {
    if (isStillAhead(own, this.#cache.get(key))) this.#keep(key, own);
  }

  /** Drops what is left of the writes and their timers. */
  clear(): void {
    for (const [key, own] of this.#writes) this.#drop(key, own);
  }

  #changed(key: Key): void {
    const writing = this.#writing.get(key);
    if (writing) writing.shown.add(this.#cache.get(key)?.metadata.resourceVersion);
    else if (this.#isNews(key)) this.#wake(key);
  }

  /** What others wrote before the own write is news even if no watch shows it: no reconcile has decided on it. */
  #hasNews(key: Key, { shown, known, answers, isUnguarded }: Writing): boolean {
    if (answers.length > 1) return true;
    const [answer] = answers;
    const isEcho = answer !== undefined && this.#cache.get(key)?.metadata.resourceVersion === answer;
    if (!isEcho) return shown.size > 0 && this.#isNews(key, shown);
    if (this.#options.wakeOnEcho || isUnguarded) return shown.size > 0;
    return [...shown].some((version) => !known.has(version));
  }

  /** Forgets an own write that the watch has shown, or gone past. `meanwhile`: versions that it showed since the last call. */
  #isNews(key: Key, meanwhile: Iterable<string | undefined> = []): boolean {
    const own = this.#writes.get(key);
    if (!own) return true;
    const shown = this.#cache.get(key);
    const version = shown?.metadata.resourceVersion;
    const isOnForeign = own.isOnForeign || [...meanwhile].some((each) => !own.known.has(each));
    if (isStillAhead(own, shown)) return this.#settle(key, { ...own, isOnForeign }, shown);
    this.#drop(key, own);
    if (own.kind !== 'update' || isOnForeign || this.#options.wakeOnEcho) return true;
    return version !== own.object?.metadata.resourceVersion;
  }

  /** What the watch has shown of it is not shown before it again. True: it has shown a creation. */
  #settle(key: Key, own: Kept<T>, shown: T | undefined): boolean {
    const isForeign = own.kind === 'update' && !own.known.has(shown?.metadata.resourceVersion);
    const isUnderShown = own.under !== undefined && !own.under.isAhead(shown);
    const under = isUnderShown ? undefined : own.under;
    this.#writes.set(key, { ...own, under, isOnForeign: own.isOnForeign || isForeign });
    return isUnderShown && own.kind === 'assumed';
  }

  #keep(key: Key, own: OwnWrite<T>): void {
    const { giveUp } = this.#options;
    if (!giveUp && own.kind !== 'update')
      throw new TypeError(`a ${own.kind} of ${key} needs a time after which it is given up`);
    const before = this.#writes.get(key);
    if (before) this.#drop(key, before);
    const isLasting = own.kind === 'update';
    const cancel = isLasting ? undefined : giveUp?.clock.schedule(giveUp.afterMs, () => this.#giveUp(key, own));
    this.#writes.set(key, { ...own, cancel });
  }

  #giveUp(key: Key, { under }: OwnWrite<T>): void {
    if (under?.kind === 'update') this.#writes.set(key, { ...under, cancel: undefined });
    else this.#writes.delete(key);
    this.#wake(key);
  }

  #drop(key: Key, own: Kept<T>): void {
    own.cancel?.();
    this.#writes.delete(key);
  }

  #wake(key: Key): void {
    this.#listeners.notify(key);
  }
}

/** Without an echo for long, older ones are forgotten: an echo of those wakes once for nothing. */
const maxKnown = 32;
