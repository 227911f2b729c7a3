import { type Clock, systemClock } from './clock.ts';

export interface TokenRate {
  readonly perSecond: number;
  /** Let through at once after a quiet time. */
  readonly burst: number;
}

/** Lets `burst` through at once and `perSecond` for ever. The rate can be changed while it is used. */
export class TokenBucket {
  #rate: TokenRate;
  #tokens: number;
  #refilledMs: number;
  readonly #clock: Clock;

  constructor(rate: TokenRate, clock: Clock = systemClock) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#clock = clock;
    this.#refilledMs = clock.monotonicMs();
  }

  setRate(rate: TokenRate): void {
    this.#refill();
    this.#rate = rate;
    this.#tokens = Math.min(this.#tokens, rate.burst);
  }

  /** True when `cost` was free to take. */
  tryTake(cost = 1): boolean {
    this.#refill();
    if (this.#tokens < cost) return false;
    this.#tokens -= cost;
    return true;
  }

  /** Until one is free to take, in whole milliseconds; 0 when it is. */
  get waitMs(): number {
    this.#refill();
    return Math.ceil((Math.max(0, 1 - this.#tokens) / this.#rate.perSecond) * 1000);
  }

  #refill(): void {
    const nowMs = this.#clock.monotonicMs();
    const gained = ((nowMs - this.#refilledMs) / 1000) * this.#rate.perSecond;
    this.#refilledMs = nowMs;
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + gained);
  }
}
