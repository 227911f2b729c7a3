import { type Clock, systemClock } from './clock.ts';

/** Resolves after `ms`; rejects with the signal's reason when that comes first. */
export function sleep(ms: number, signal?: AbortSignal, clock: Clock = systemClock): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.schedule(ms, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** A signal that fires when `parent` does or after `timeoutMs`, whichever is first. */
export function deadline(timeoutMs: number, parent?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(timeoutMs);
  return parent ? AbortSignal.any([parent, timeout]) : timeout;
}

/**
 * Runs `work` with a signal that fires when `parent` does or after `timeoutMs` of `clock`. Nothing of it is left when `work`
 * has ended, so it is the choice for what runs often.
 */
export async function withDeadline<T>(
  {
    timeoutMs,
    signal: parent,
    clock,
  }: { readonly timeoutMs: number; readonly signal: AbortSignal; readonly clock: Clock },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const onAbort = () => ending.abort(parent.reason);
  if (parent.aborted) onAbort();
  else parent.addEventListener('abort', onAbort, { once: true });
  const late = () => ending.abort(new DOMException(`not done within ${timeoutMs} ms`, 'TimeoutError'));
  const cancel = clock.schedule(timeoutMs, late);
  try {
    return await work(ending.signal);
  } finally {
    cancel();
    parent.removeEventListener('abort', onAbort);
  }
}
