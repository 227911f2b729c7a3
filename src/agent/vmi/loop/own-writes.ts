import { isOlderVersion, type Key, type VirtualMachineInstance } from '../../../api/index.ts';
import type { VmiStore } from '../ports.ts';

interface OwnWrite {
  /** What the object was based on: while the watch still shows this version, ours is newer. */
  readonly baseVersion: string;
  readonly vmi: VirtualMachineInstance;
}

/** A write under way. The echo comes before the answer as a rule, and nobody can tell yet that it is one. */
interface Writing {
  /** The watch has shown something meanwhile. */
  isShown: boolean;
  /** Versions that the API server answered; after a conflict several, of which the last holds what somebody else wrote. */
  readonly answers: (string | undefined)[];
}

/**
 * The node's VMIs with this agent's own writes on top, until the watch has caught up. Takes the place of upstream's
 * expectations: no pass sees a VMI older than its own last write, and none has to wait for the echo.
 */
export class OwnWrites implements VmiStore {
  readonly #store: VmiStore;
  readonly #writes = new Map<Key, OwnWrite>();
  readonly #writing = new Map<Key, Writing>();
  readonly #listeners = new Set<(key: Key) => void>();

  constructor(store: VmiStore) {
    this.#store = store;
  }

  get synced(): boolean {
    return this.#store.synced;
  }

  get(key: Key): VirtualMachineInstance | undefined {
    const stored = this.#store.get(key);
    const own = this.#writes.get(key);
    if (!own) return stored;
    if (stored && isBefore(stored, own)) return own.vmi;
    this.#writes.delete(key);
    return stored;
  }

  keys(): Iterable<Key> {
    return this.#store.keys();
  }

  /** The echo of an own write, and of what came before it, is no news and wakes nobody. */
  onChange(listener: (key: Key) => void): () => void {
    this.#listeners.add(listener);
    const end = this.#store.onChange((key) => {
      const writing = this.#writing.get(key);
      if (writing) writing.isShown = true;
      else if (this.#isNews(key)) listener(key);
    });
    return () => {
      this.#listeners.delete(listener);
      end();
    };
  }

  /**
   * Runs a pass's write of `key`. What the watch shows meanwhile is told when it has ended, so that the echo is known for one;
   * nobody waits for it, as the pass over the key is under way.
   */
  async whileWriting<T>(key: Key, write: () => Promise<T>): Promise<T> {
    const writing: Writing = { isShown: false, answers: [] };
    this.#writing.set(key, writing);
    try {
      return await write();
    } finally {
      this.#writing.delete(key);
      if (this.#hasNews(key, writing)) for (const listener of this.#listeners) listener(key);
    }
  }

  /** What somebody else wrote before the own write is news even if no watch shows it: no pass has decided on it. */
  #hasNews(key: Key, { isShown, answers }: Writing): boolean {
    if (answers.length > 1) return true;
    const [answer] = answers;
    const isEcho = answer !== undefined && this.#store.get(key)?.metadata.resourceVersion === answer;
    return isShown && !isEcho && this.#isNews(key);
  }

  /** Forgets an own write that the watch has shown, or gone past. */
  #isNews(key: Key): boolean {
    const own = this.#writes.get(key);
    const stored = this.#store.get(key);
    if (own && stored && isBefore(stored, own)) return false;
    if (own) this.#writes.delete(key);
    return own === undefined || stored?.metadata.resourceVersion !== own.vmi.metadata.resourceVersion;
  }

  /** `observed`: what the pass began with; `newer`: what the API server answered since. */
  saw(key: Key, observed: VirtualMachineInstance, newer: VirtualMachineInstance): void {
    this.#writing.get(key)?.answers.push(newer.metadata.resourceVersion);
    const stored = this.#store.get(key);
    const baseVersion = stored?.metadata.resourceVersion;
    if (!stored || baseVersion === undefined) return;
    const shown = this.get(key)?.metadata.resourceVersion;
    const known = this.#writes.get(key)?.vmi.metadata.resourceVersion;
    const own = { baseVersion, vmi: newer };
    const wasShown = shown === observed.metadata.resourceVersion || (known !== undefined && shown === known);
    // Else the watch was faster than the answer: maybe only by what others wrote before it.
    if (wasShown || isOlder(stored, newer)) this.#writes.set(key, own);
  }
}

/** The watch has not caught up: it shows what the write was based on, or with several writes in a row the echo of an earlier one. */
function isBefore(stored: VirtualMachineInstance, { baseVersion, vmi }: OwnWrite): boolean {
  return stored.metadata.resourceVersion === baseVersion || isOlder(stored, vmi);
}

function isOlder(stored: VirtualMachineInstance, vmi: VirtualMachineInstance): boolean {
  return stored.metadata.uid === vmi.metadata.uid && isOlderVersion(stored, vmi);
}
