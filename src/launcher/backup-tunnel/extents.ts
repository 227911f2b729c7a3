import type { Extent } from '../../nbd-tunnel/index.ts';
import { type BlockExtent, holeFlag, zeroFlag } from '../nbd/index.ts';

/** Of `qemu:dirty-bitmap:…`: changed since the checkpoint. In a map of changes it has this place, where `holeFlag` is in a map of all. */
const dirtyFlag = 1;

const ofAll: Readonly<Record<number, string>> = {
  0: 'data',
  [holeFlag]: 'hole',
  [zeroFlag]: 'zero',
  [holeFlag | zeroFlag]: 'hole,zero',
};
const ofChanges: Readonly<Record<number, string>> = {
  0: 'clean',
  [dirtyFlag]: 'dirty',
  [zeroFlag]: 'zero',
  [dirtyFlag | zeroFlag]: 'dirty,zero',
};
/** Upstream's. */
const batchExtents = 512;

/** What both say of the same bytes: changed or not, and whether they read as zeros. As far as both know it. */
export function mergedFlags(
  allocation: readonly BlockExtent[],
  changes: readonly BlockExtent[],
): readonly BlockExtent[] {
  const merged: BlockExtent[] = [];
  const [one, other] = [new Rest(allocation), new Rest(changes)];
  while (one.extent && other.extent) {
    const length = Math.min(one.length, other.length);
    merged.push({ length, flags: (one.extent.flags & zeroFlag) | (other.extent.flags & dirtyFlag) });
    one.take(length);
    other.take(length);
  }
  return merged;
}

/** What is left of a list. A fragmented disk has 100,000 extents: nothing of the list is moved. */
class Rest {
  readonly #extents: readonly BlockExtent[];
  #index = 0;
  #taken = 0;

  constructor(extents: readonly BlockExtent[]) {
    this.#extents = extents;
  }

  get extent(): BlockExtent | undefined {
    return this.#extents[this.#index];
  }

  /** Of the first one. */
  get length(): number {
    return (this.extent?.length ?? 0) - this.#taken;
  }

  take(length: number): void {
    this.#taken += length;
    if (this.length > 0) return;
    this.#index += 1;
    this.#taken = 0;
  }
}

/** Of a disk that is whole in an incremental backup, as it came after the checkpoint: all of it is new to a reader, also what reads as zeros. */
export function allChanged(allocation: readonly BlockExtent[]): readonly BlockExtent[] {
  return allocation.map(({ length, flags }) => ({ length, flags: (flags & zeroFlag) | dirtyFlag }));
}

/** Neighbours of the same kind as one, in batches that a reader can hold, with upstream's words for them (pkg/storage/nbdclient). */
export class ExtentBatches {
  readonly #give: (extents: readonly Extent[]) => Promise<void>;
  readonly #words: Readonly<Record<number, string>>;
  readonly #batch: Extent[] = [];
  #last: { offset: number; length: number; flags: number } | undefined;

  constructor(isOfChanges: boolean, give: (extents: readonly Extent[]) => Promise<void>) {
    this.#words = isOfChanges ? ofChanges : ofAll;
    this.#give = give;
  }

  async add(offset: number, { length, flags }: BlockExtent): Promise<void> {
    const last = this.#last;
    if (last && last.flags === flags && last.offset + last.length === offset) {
      last.length += length;
      return;
    }
    await this.#close();
    this.#last = { offset, length, flags };
  }

  async end(): Promise<void> {
    await this.#close();
    if (this.#batch.length > 0) await this.#give(this.#batch.splice(0));
  }

  async #close(): Promise<void> {
    const last = this.#last;
    if (!last) return;
    this.#last = undefined;
    this.#batch.push({ ...last, description: this.#words[last.flags] ?? 'unknown' });
    if (this.#batch.length >= batchExtents) await this.#give(this.#batch.splice(0));
  }
}
