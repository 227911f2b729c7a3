import { Budget } from './budget.ts';
import { limits } from './options.ts';

/** Parts of the time after which the memory is looked at: the first of them is warm-up. */
const looks = [0.3, 0.5, 0.7, 0.9];

const lookEvery = 16;

/** Looks at the memory that is in use after a collection, at intervals: what grows from each to the next leaks. */
export class HeapWatch {
  readonly #seconds: number;
  readonly #samples: number[] = [];
  #budget: Budget;
  #looked = 0;

  constructor(seconds: number) {
    this.#seconds = seconds;
    this.#budget = new Budget(seconds);
  }

  start(): void {
    this.#budget = new Budget(this.#seconds);
  }

  look(): void {
    const share = looks[this.#samples.length];
    if (share === undefined || ++this.#looked % lookEvery !== 0 || this.#budget.usedShare < share) return;
    this.#samples.push(usedBytes());
  }

  end(): void {
    if (this.#samples.length > 0) this.#samples.push(usedBytes());
  }

  get growthBytes(): number {
    return (this.#samples.at(-1) ?? 0) - (this.#samples[0] ?? 0);
  }

  get isLeaking(): boolean {
    const rises = this.#samples.every((bytes, at) => at === 0 || bytes > (this.#samples[at - 1] ?? 0));
    return this.#samples.length > 2 && rises && this.growthBytes > limits.growthBytes;
  }

  toString(): string {
    return `${this.#samples.map((bytes) => (bytes / 2 ** 20).toFixed(1)).join(', ')} MiB`;
  }
}

function usedBytes(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
