const firstMs = 500;
const longestMs = 10_000;

/** How long to wait before another try after so many failures in a row; `chance` is from 0 to 1. */
export function retryAfterMs(failures: number, chance: number): number {
  const full = Math.min(longestMs, firstMs * 2 ** Math.min(failures, 16));
  return Math.round(full * (0.75 + chance / 4));
}

/** The returned function keeps `callback` from being called. */
export function schedule(ms: number, callback: () => void): () => void {
  const timer = setTimeout(callback, ms);
  return () => clearTimeout(timer);
}
