/** All chance of one simulated world: the same seed gives the same numbers (sfc32). */
export class Chance {
  #a: number;
  #b: number;
  #c: number;
  #d = 1;

  constructor(seed: number) {
    this.#a = seed >>> 0;
    this.#b = Math.floor(seed / 2 ** 32) >>> 0;
    this.#c = 0x9e3779b9;
    for (let turn = 0; turn < 16; turn++) this.next();
  }

  /** At least 0, below 1. */
  next(): number {
    const sum = (this.#a + this.#b + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    return (sum >>> 0) / 2 ** 32;
  }

  happens(probability: number): boolean {
    return probability > 0 && this.next() < probability;
  }

  /** 0 to `below` - 1. */
  int(below: number): number {
    return Math.floor(this.next() * below);
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.next();
  }

  pick<T>(list: readonly T[]): T {
    const found = list[this.int(list.length)];
    if (found === undefined) throw new RangeError('nothing to pick from');
    return found;
  }

  /** How long something takes that goes over a socket: short as a rule, sometimes not. */
  latencyMs(): number {
    const kind = this.next();
    if (kind < 0.75) return this.between(0.1, 3);
    return kind < 0.97 ? this.between(3, 40) : this.between(40, 900);
  }
}
