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
 * Runs `work` with an ending of its own, which `parent`'s also brings about. Nothing is left hung on `parent` when `work` has
 * ended: Node.js keeps for ever what `AbortSignal.any` hung on a signal that lives on.
 */
export async function withOwnEnding<T>(
  parent: AbortSignal | undefined,
  work: (ending: AbortController) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const forward = () => ending.abort(parent?.reason);
  if (parent?.aborted) forward();
  else parent?.addEventListener('abort', forward, { once: true });
  try {
    return await work(ending);
  } finally {
    parent?.removeEventListener('abort', forward);
  }
}

/**
 * Runs `work` with a signal that fires when `parent` does or after `timeoutMs` of `clock`. Nothing of it is left when `work`
 * has ended, so it is the choice for what runs often.
 */
export function withDeadline<T>(
  {
    timeoutMs,
    signal: parent,
    clock,
  }: { readonly timeoutMs: number; readonly signal: AbortSignal; readonly clock: Clock },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return withOwnEnding(parent, async (ending) => {
    const late = () => ending.abort(new DOMException(`not done within ${timeoutMs} ms`, 'TimeoutError'));
    const cancel = clock.schedule(timeoutMs, late);
    try {
      return await work(ending.signal);
    } finally {
      cancel();
    }
  });
}

/** Rejects with the signal's reason when that fires first; what `work` comes to then is dropped. For work that takes no signal. */
export async function orEnded<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stop = () => {};
  const ended = new Promise<never>((_, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    stop = () => signal.removeEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([work, ended]);
  } finally {
    stop();
  }
}
