import { type Clock, sleep, systemClock } from '../base/index.ts';

export interface RateLimit {
  /** Sustained requests per second. */
  readonly qps: number;
  /** Requests that may go out at once after a quiet time. */
  readonly burst: number;
}

/** Token bucket: callers are served in the order they came. The limit can be changed while it runs. */
export class RateLimiter {
  #limit: RateLimit;
  #tokens: number;
  #refilledMs: number;
  readonly #clock: Clock;

  constructor(limit: RateLimit, clock: Clock = systemClock) {
    this.#limit = checked(limit);
    this.#tokens = limit.burst;
    this.#clock = clock;
    this.#refilledMs = clock.monotonicMs();
  }

  /** Those who wait already keep their time. */
  setLimit(limit: RateLimit): void {
    this.#refill();
    this.#limit = checked(limit);
    this.#tokens = Math.min(this.#tokens, limit.burst);
  }

  /** Takes a token if there is one. */
  tryTake(): boolean {
    this.#refill();
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Waits for a token; rejects with the signal's reason. */
  async take(signal?: AbortSignal): Promise<void> {
    this.#refill();
    this.#tokens -= 1;
    if (this.#tokens >= 0) return;
    const waitMs = (-this.#tokens / this.#limit.qps) * 1000;
    try {
      await sleep(waitMs, signal, this.#clock);
    } catch (reason) {
      this.#tokens += 1;
      throw reason;
    }
  }

  #refill(): void {
    const nowMs = this.#clock.monotonicMs();
    const gained = ((nowMs - this.#refilledMs) / 1000) * this.#limit.qps;
    this.#refilledMs = nowMs;
    this.#tokens = Math.min(this.#limit.burst, this.#tokens + gained);
  }
}

function checked(limit: RateLimit): RateLimit {
  if (!(limit.qps > 0) || !(limit.burst >= 1)) {
    throw new RangeError(`a rate limit needs qps > 0 and burst >= 1, not ${limit.qps} and ${limit.burst}`);
  }
  return limit;
}
