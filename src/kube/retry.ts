import { backoffDelayMs } from '../base/index.ts';
import type { KubeError } from './errors.ts';
import { isNeverSent } from './transport.ts';

export interface RetryOptions {
  /** Tries in all. */
  readonly attempts: number;
  readonly baseMs: number;
  readonly maxMs: number;
}

/** A longer `Retry-After` than this is the caller's business. */
const longestRetryAfterMs = 30_000;

/** Delay before the next try, or undefined when the error is final. `attempt` counts from 1. */
export function retryDelayMs(
  error: KubeError,
  attempt: number,
  idempotent: boolean,
  options: RetryOptions,
  random: () => number,
): number | undefined {
  if (attempt >= options.attempts || !mayRetry(error, idempotent)) return undefined;
  const { baseMs, maxMs } = options;
  const ownMs = backoffDelayMs(attempt, { baseMs, maxMs, jitter: 0.5, random });
  const askedMs = error.retryAfterMs ?? 0;
  return askedMs > longestRetryAfterMs ? undefined : Math.max(ownMs, askedMs);
}

function mayRetry(error: KubeError, idempotent: boolean): boolean {
  switch (error.code) {
    case 'TOO_MANY_REQUESTS':
      // Turned away before it was looked at.
      return true;
    case 'UNREACHABLE':
      return idempotent || isNeverSent(error);
    case 'SERVER_ERROR':
    case 'BAD_RESPONSE':
      return idempotent;
    default:
      // TIMEOUT: the caller has waited long enough.
      return false;
  }
}
