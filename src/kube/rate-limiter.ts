import { type Clock, systemClock, TokenBucket, type TokenRate } from '../base/index.ts';

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

const turnsInFront = 3;

/** A token bucket that always lets something through, and where callers wait for their turn. */
export class RateLimiter extends TokenBucket {
  readonly #clock: Clock;
  readonly #first = new Set<() => void>();
  readonly #later = new Set<() => void>();
  #takenInFront = 0;
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
    const waiting = later ? this.#later : this.#first;
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        waiting.delete(go);
        reject(signal?.reason);
      };
      const go = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      waiting.add(go);
      this.#serve();
    });
  }

  #serve(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    while (this.#first.size + this.#later.size > 0) {
      if (!this.tryTake()) {
        this.#cancelTimer = this.#clock.schedule(this.waitMs, () => this.#serve());
        return;
      }
      const isTheirs = this.#first.size === 0 || (this.#later.size > 0 && this.#takenInFront >= turnsInFront);
      this.#takenInFront = isTheirs ? 0 : this.#takenInFront + 1;
      const waiting = isTheirs ? this.#later : this.#first;
      const [go] = waiting;
      if (go) waiting.delete(go);
      go?.();
    }
  }
}

function rateOf({ qps, burst }: RateLimit): TokenRate {
  if (!(qps > 0) || !(burst >= 1)) {
    throw new RangeError(`a rate limit needs qps > 0 and burst >= 1, not ${qps} and ${burst}`);
  }
  return { perSecond: qps, burst };
}
