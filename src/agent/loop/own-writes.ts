import { isOlderVersion, type Key, type VirtualMachineInstance } from '../../api/index.ts';
import type { VmiStore } from '../ports.ts';

interface OwnWrite {
  /** What the object was based on: while the watch still shows this version, ours is newer. */
  readonly baseVersion: string;
  readonly vmi: VirtualMachineInstance;
}

/**
 * The node's VMIs with this agent's own writes on top, until the watch has caught up. Takes the place of upstream's
 * expectations: no pass sees a VMI older than its own last write, and none has to wait for the echo.
 */
export class OwnWrites implements VmiStore {
  readonly #store: VmiStore;
  readonly #writes = new Map<Key, OwnWrite>();

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
    return this.#store.onChange((key) => {
      const own = this.#writes.get(key);
      const stored = this.#store.get(key);
      if (own && stored && isBefore(stored, own)) return;
      if (own) this.#writes.delete(key);
      const isEcho = own !== undefined && stored?.metadata.resourceVersion === own.vmi.metadata.resourceVersion;
      if (!isEcho) listener(key);
    });
  }

  /** `observed`: what the pass began with; `newer`: what the API server answered since. */
  saw(key: Key, observed: VirtualMachineInstance, newer: VirtualMachineInstance): void {
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
