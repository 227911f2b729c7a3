import type { Key } from '../../../api/index.ts';
import { type KeyMemory, type Observation, type Remember, withMore } from '../observe/index.ts';

/** What this process remembers of its VMIs, one UID per key. It ends with the VMI and the last trace of it. */
export class Memories {
  readonly #byKey = new Map<Key, KeyMemory>();

  get size(): number {
    return this.#byKey.size;
  }

  get(key: Key): KeyMemory | undefined {
    return this.#byKey.get(key);
  }

  add(observation: Observation, more: Remember | undefined): void {
    if (more) this.#byKey.set(observation.key, withMore(this.refresh(observation).memory, more));
  }

  /** The observation with what was learnt since. */
  refresh(observation: Observation): Observation {
    const memory = this.#byKey.get(observation.key);
    return memory?.uid === observation.uid ? { ...observation, memory } : observation;
  }

  /** True: nothing of the VMI is left, here or at the API server. */
  forgetIfGone({ key, vmi, uid }: Observation): boolean {
    const isGone = vmi.kind === 'deleted' && (uid === '' || this.#byKey.get(key)?.ending.cleaned === true);
    if (isGone) this.#byKey.delete(key);
    return isGone;
  }

  clear(): void {
    this.#byKey.clear();
  }
}
