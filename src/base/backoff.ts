export interface BackoffOptions {
  /** First delay. */
  readonly baseMs: number;
  /** Longest delay. */
  readonly maxMs: number;
  /** Growth per failure; 2 unless given. */
  readonly factor?: number;
  /** Part of the delay that is random, 0 to 1; 0 unless given. */
  readonly jitter?: number;
  readonly random?: () => number;
}

/** Delay before try number `failures + 1`, where `failures` counts from 1. */
export function backoffDelayMs(failures: number, options: BackoffOptions): number {
  const { baseMs, maxMs, factor = 2, jitter = 0, random = Math.random } = options;
  const grown = Math.min(maxMs, baseMs * factor ** Math.max(0, failures - 1));
  return Math.min(maxMs, grown * (1 - jitter + 2 * jitter * random()));
}
