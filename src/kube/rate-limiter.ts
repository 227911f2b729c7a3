import { type Clock, TokenBucket, type TokenRate } from '../base/index.ts';

/** In the words of the KubeVirt object's `tokenBucketRateLimiter`. */
export interface RateLimit {
  /** Sustained requests per second. */
  readonly qps: number;
  /** Requests that may go out at once after a quiet time. */
  readonly burst: number;
}

/** A token bucket that always lets something through. */
export class RateLimiter extends TokenBucket {
  constructor(limit: RateLimit, clock?: Clock) {
    super(rateOf(limit), clock);
  }

  setLimit(limit: RateLimit): void {
    this.setRate(rateOf(limit));
  }
}

function rateOf({ qps, burst }: RateLimit): TokenRate {
  if (!(qps > 0) || !(burst >= 1)) {
    throw new RangeError(`a rate limit needs qps > 0 and burst >= 1, not ${qps} and ${burst}`);
  }
  return { perSecond: qps, burst };
}
