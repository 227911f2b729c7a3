import { type Clock, systemClock } from './clock.ts';
import { sleep } from './sleep.ts';

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

  /** Callers that wait already keep their time. */
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

  /** Waits for a token: callers are served in the order they came. Rejects with the signal's reason. */
  async take(signal?: AbortSignal): Promise<void> {
    this.#refill();
    this.#tokens -= 1;
    if (this.#tokens >= 0) return;
    const waitMs = (-this.#tokens / this.#rate.perSecond) * 1000;
    try {
      await sleep(waitMs, signal, this.#clock);
    } catch (reason) {
      this.#tokens += 1;
      throw reason;
    }
  }

  #refill(): void {
    const nowMs = this.#clock.monotonicMs();
    const gained = ((nowMs - this.#refilledMs) / 1000) * this.#rate.perSecond;
    this.#refilledMs = nowMs;
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + gained);
  }
}
