/** Time as an argument: production uses `systemClock`, tests a fake one. */
export interface Clock {
  /** Wall clock. Only for timestamps that others read. */
  now(): Date;
  /** Monotonic milliseconds. For every duration, deadline and back-off. */
  monotonicMs(): number;
  /** Calls back once after `ms`; the returned function cancels it. */
  schedule(ms: number, callback: () => void): () => void;
}

/** Node.js turns anything longer into 1 ms: a grace period of a month would be a hot loop. */
const maxTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => new Date(),
  monotonicMs: () => performance.now(),
  schedule(ms, callback) {
    let timer: NodeJS.Timeout;
    const wait = (leftMs: number) => {
      const laterMs = leftMs - maxTimerMs;
      timer = laterMs > 0 ? setTimeout(() => wait(laterMs), maxTimerMs) : setTimeout(callback, leftMs);
    };
    wait(ms);
    return () => clearTimeout(timer);
  },
};

/** RFC 3339 UTC with second resolution, as Kubernetes writes its times. */
export function rfc3339(time: Date): string {
  return `${time.toISOString().slice(0, 19)}Z`;
}
