import { type Clock, sleep } from '../../../base/index.ts';

/** A wait that can be cut short: an end asked for before the wait began counts, too. */
export class Pause {
  readonly #clock: Clock;
  #cut: AbortController | undefined;
  #isEnded = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Never rejects: the time is over, `end` was called, or `signal` fired. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#isEnded || signal.aborted) {
      this.#isEnded = false;
      return;
    }
    this.#cut = new AbortController();
    try {
      await sleep(ms, this.#cut.signal, this.#clock).catch(() => undefined);
    } finally {
      this.#cut = undefined;
      this.#isEnded = false;
    }
  }

  end(): void {
    this.#isEnded = true;
    this.#cut?.abort(new Error('the pause was cut short'));
  }
}
