import { type Clock, withDeadline } from '../../../../base/index.ts';
import type { HostHook } from './contract.ts';
import { HostWorkError } from './errors.ts';

/** Of one call of one hook. */
export const defaultDeadlineMs = 30_000;

export type CallEnd<T> =
  | { readonly kind: 'returned'; readonly value: T; readonly tookMs: number }
  | { readonly kind: 'threw'; readonly error: unknown; readonly tookMs: number };

/**
 * Calls of hooks, each with its deadline: one that does not come back is given up, whether it heeds its signal or not. Until it
 * has ended the same hook is not called again for the same UID: two of them would undo each other's work.
 */
export class HookCalls {
  readonly #clock: Clock;
  /** Hook and UID → when the call began that has not ended. */
  readonly #running = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Never rejects. */
  async call<T>(
    { name, deadlineMs: timeoutMs = defaultDeadlineMs }: Pick<HostHook, 'name' | 'deadlineMs'>,
    uid: string,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<CallEnd<T>> {
    const startMs = this.#clock.monotonicMs();
    const took = () => this.#clock.monotonicMs() - startMs;
    const id = `${name} ${uid}`;
    const sinceMs = this.#running.get(id);
    if (sinceMs !== undefined) {
      const forS = Math.round((startMs - sinceMs) / 1000);
      const problem = `${name} was given up and has not ended for ${forS} s: nothing is done before it has`;
      return { kind: 'threw', error: new HostWorkError('HOOK_BUSY', problem), tookMs: 0 };
    }
    try {
      const value = await withDeadline({ timeoutMs, signal, clock: this.#clock }, (ending) =>
        untilAborted(
          this.#tracked(id, startMs, () => work(ending)),
          ending,
        ),
      );
      return { kind: 'returned', value, tookMs: took() };
    } catch (error) {
      return { kind: 'threw', error: lateError(name, timeoutMs, error), tookMs: took() };
    }
  }

  async #tracked<T>(id: string, startMs: number, work: () => Promise<T>): Promise<T> {
    this.#running.set(id, startMs);
    try {
      return await work();
    } finally {
      this.#running.delete(id);
    }
  }
}

/** Also when `work` does not heed its signal. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    work.then(resolve, reject);
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

function lateError(name: string, timeoutMs: number, error: unknown): unknown {
  if (!(error instanceof DOMException) || error.name !== 'TimeoutError') return error;
  return new HostWorkError('HOOK_TIMEOUT', `${name} has not ended within ${timeoutMs / 1000} s and is tried again`);
}
