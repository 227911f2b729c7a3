/** HAProxy counts what runs this often (option contstats). */
const countSeconds = 5;
const longestLookMs = 5_000;

/** When a frozen stream is looked for, all from the seconds that are set. */
export interface StallTimes {
  readonly stallMs: number;
  /** Between two questions to a process. */
  readonly lookMs: number;
  /** An answer that has not come by then does not come: since the last one `stallMs` have passed then. */
  readonly answerMs: number;
  /** Streams without a byte for so long carry none: what flows is counted, and looked at, several times meanwhile. */
  readonly silentMs: number;
  /** So long after a moment, streams that are called silent have been so for `stallMs` since: figures are as old as the rest. */
  readonly surelyMs: number;
}

export function stallTimes(stallSeconds: number, lookMs?: number): StallTimes {
  const stallMs = stallSeconds * 1000;
  const everyMs = lookMs ?? Math.min(longestLookMs, stallMs / 4);
  const silentMs = Math.max(stallMs, 2 * countSeconds * 1000 + everyMs);
  const surelyMs = stallMs + countSeconds * 1000 + everyMs;
  return { stallMs, lookMs: everyMs, answerMs: Math.max(stallMs - everyMs, stallMs / 2), silentMs, surelyMs };
}

/** Of TCP, in seconds: silence, then questions that nobody answers; together no longer than `stallSeconds`. */
export function keepalive(stallSeconds: number): {
  readonly idle: number;
  readonly interval: number;
  readonly count: number;
} {
  const count = 3;
  return {
    idle: Math.max(1, Math.floor(stallSeconds / 2)),
    interval: Math.max(1, Math.floor(stallSeconds / 6)),
    count,
  };
}
