import type { Clock } from '../../base/index.ts';

export interface HangWatchDeps {
  readonly isConnected: () => boolean;
  readonly onHung: () => void;
  readonly clock: Clock;
}

/**
 * Calls `onHung` when there has been no connection for `goneMs`, and again after as long: a daemon that lives but does not
 * answer (stopped, deadlocked) would otherwise stay for ever. The returned function ends it.
 */
export function watchForHang(
  limits: { readonly checkMs: number; readonly goneMs: number },
  { isConnected, onHung, clock }: HangWatchDeps,
): () => void {
  let lastSeenMs = clock.monotonicMs();
  let cancel = clock.schedule(limits.checkMs, check);
  function check(): void {
    const nowMs = clock.monotonicMs();
    if (isConnected()) lastSeenMs = nowMs;
    if (nowMs - lastSeenMs >= limits.goneMs) {
      lastSeenMs = nowMs;
      onHung();
    }
    cancel = clock.schedule(limits.checkMs, check);
  }
  return () => cancel();
}
