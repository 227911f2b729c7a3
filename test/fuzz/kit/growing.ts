import { Budget } from './budget.ts';
import type { FuzzOptions } from './options.ts';
import type { Place } from './progress.ts';
import type { Target } from './target.ts';

const firstBytes = 16 * 1024;
/** Below it the collector and the compiler make more difference than the input. */
const reportingMs = 150;
/** Times the input, which is four doublings: in 16 times the time it is linear, in 256 times quadratic. */
const step = 16;
const mostForStep = 100;

type Read<T> = (value: T, place: Place) => Promise<number>;

/** Measures inputs of growing size: whoever writes one must not get more than its length out of it. */
export class Growing<T> {
  readonly #target: Target<T>;
  readonly #options: FuzzOptions;
  readonly #read: Read<T>;
  measured = 0;

  constructor(target: Target<T>, options: FuzzOptions, read: Read<T>) {
    this.#target = target;
    this.#options = options;
    this.#read = read;
  }

  /** Begins with another one each time: there may not be time for all. */
  async finding(): Promise<string | undefined> {
    const all = Object.entries(this.#target.growing ?? {}).map(([name, make], index) => ({ name, make, index }));
    const first = this.#options.seed % Math.max(1, all.length);
    const budget = new Budget(this.#options.seconds);
    for (const each of [...all.slice(first), ...all.slice(0, first)]) {
      if (budget.isUsed) break;
      const finding = await this.#findingOf(each.make, each.index);
      if (finding) return `${each.name}: ${finding}`;
      this.measured++;
    }
    return undefined;
  }

  async #findingOf(make: (bytes: number) => T, index: number): Promise<string | undefined> {
    const times: number[] = [];
    for (let size = firstBytes; size <= (this.#target.growingTo ?? 2 ** 20); size *= 2) {
      const place: Place = { stage: 'growing', index, size };
      try {
        times.push(await this.#read(make(size), place));
      } catch (error) {
        return `${size} bytes: ${error instanceof Error ? error.stack : String(error)}`;
      }
      const [before, now] = [times.at(-5), times.at(-1) ?? 0];
      if (before === undefined || now < reportingMs || now < mostForStep * before) continue;
      if (await this.#isSteep(make, place)) return `${size} bytes take ${now} ms, a sixteenth of them ${before} ms`;
    }
    return undefined;
  }

  /** Measured again, and again: the machine has other work, too. */
  async #isSteep(make: (bytes: number) => T, place: Place): Promise<boolean> {
    const fastest = async (size: number) => {
      const value = make(size);
      let least = Number.POSITIVE_INFINITY;
      for (let turn = 0; turn < 3; turn++) least = Math.min(least, await this.#read(value, { ...place, size }));
      return least;
    };
    const whole = await fastest(place.size);
    return whole > reportingMs && whole > mostForStep * (await fastest(place.size / step));
  }
}
