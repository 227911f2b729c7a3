import { backoffDelayMs } from './backoff.ts';

/** Something that may be done soon once, and ever more seldom while it is done again and again. */
export class Seldom {
  readonly #maxMs: number;
  #times = 0;

  constructor(options: { readonly maxMs: number }) {
    this.#maxMs = options.maxMs;
  }

  /** How long to wait for it this time; the first time `baseMs`. */
  delayMs(baseMs: number): number {
    return backoffDelayMs(this.#times + 1, { baseMs, maxMs: this.#maxMs });
  }

  /** It is done now. */
  count(): void {
    this.#times++;
  }

  /** It was not done for long. */
  forget(): void {
    this.#times = 0;
  }
}
