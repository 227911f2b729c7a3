import { type Clock, systemClock, TokenBucket, type TokenRate, TwoLines } from '../base/index.ts';

/** In the words of the KubeVirt object's `tokenBucketRateLimiter`. */
export interface RateLimit {
  /** Sustained requests per second. */
  readonly qps: number;
  /** Requests that may go out at once after a quiet time. */
  readonly burst: number;
}

export interface Turn {
  readonly signal?: AbortSignal | undefined;
  /** Behind all who do not say so, but for every fourth turn, which is for these. */
  readonly later?: boolean | undefined;
}

/** A token bucket that always lets something through, and where callers wait for their turn. */
export class RateLimiter extends TokenBucket {
  readonly #clock: Clock;
  readonly #waiting = new TwoLines<() => void>(3);
  #cancelTimer: (() => void) | undefined;

  constructor(limit: RateLimit, clock: Clock = systemClock) {
    super(rateOf(limit), clock);
    this.#clock = clock;
  }

  /** For those who wait, too. */
  setLimit(limit: RateLimit): void {
    this.setRate(rateOf(limit));
    this.#serve();
  }

  /** Waits for a token, in the order of the callers. Rejects with the signal's reason. */
  async take({ signal, later = false }: Turn = {}): Promise<void> {
    if (signal?.aborted) throw signal.reason;
    const line = later ? this.#waiting.behind : this.#waiting.front;
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        line.delete(go);
        reject(signal?.reason);
      };
      const go = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      line.add(go);
      this.#serve();
    });
  }

  #serve(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    while (this.#waiting.size > 0) {
      if (!this.tryTake()) {
        this.#cancelTimer = this.#clock.schedule(this.waitMs, () => this.#serve());
        return;
      }
      this.#waiting.take()?.();
    }
  }
}

function rateOf({ qps, burst }: RateLimit): TokenRate {
  if (!(qps > 0) || !(burst >= 1)) {
    throw new RangeError(`a rate limit needs qps > 0 and burst >= 1, not ${qps} and ${burst}`);
  }
  return { perSecond: qps, burst };
}
