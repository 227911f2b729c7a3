/** Longest time on the clock for a budget of processor time: some parsers wait, and some machines are busy. */
const clockFactor = 5;

/** Processor time of this process that may be used from now on. */
export class Budget {
  readonly #seconds: number;
  readonly #startMs = performance.now();
  readonly #startCpu = process.cpuUsage();

  constructor(seconds: number) {
    this.#seconds = seconds;
  }

  get isUsed(): boolean {
    return this.usedShare >= 1;
  }

  get usedShare(): number {
    const { user, system } = process.cpuUsage(this.#startCpu);
    const onClock = (performance.now() - this.#startMs) / 1e3 / clockFactor;
    return Math.max((user + system) / 1e6, onClock) / this.#seconds;
  }

  /** At least one turn. */
  get leftMs(): number {
    return Math.max(1, (1 - this.usedShare) * this.#seconds * 1000);
  }
}
