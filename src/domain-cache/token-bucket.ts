import type { Clock } from '../base/index.ts';

export interface BucketOptions {
  readonly perSecond: number;
  readonly burst: number;
}

/** Lets `burst` through at once and `perSecond` for ever. */
export class TokenBucket {
  readonly #options: BucketOptions;
  readonly #clock: Clock;
  #tokens: number;
  #atMs: number;

  constructor(options: BucketOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    this.#tokens = options.burst;
    this.#atMs = clock.monotonicMs();
  }

  /** True when `cost` was free to take. */
  take(cost = 1): boolean {
    const now = this.#clock.monotonicMs();
    const { perSecond, burst } = this.#options;
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#atMs) / 1_000) * perSecond);
    this.#atMs = now;
    if (this.#tokens < cost) return false;
    this.#tokens -= cost;
    return true;
  }
}
