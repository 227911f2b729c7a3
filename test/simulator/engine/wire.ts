import type { Chance } from './chance.ts';
import type { Life, Scheduler } from './scheduler.ts';

export interface RequestOptions {
  readonly life: Life;
  readonly label: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What a process asks of the world: it arrives after a while, is handled, and the answer takes its time. Of a process that
 * dies, what was under way may still arrive; the answer never does.
 */
export class Wire {
  readonly #scheduler: Scheduler;
  readonly #chance: Chance;
  readonly #world: Life;

  constructor(scheduler: Scheduler, chance: Chance, world: Life) {
    this.#scheduler = scheduler;
    this.#chance = chance;
    this.#world = world;
  }

  /** Rejects with what `handle` throws, or with the signal's reason. A `handle` that never resolves is a server that hangs. */
  request<T>({ life, label, signal }: RequestOptions, handle: () => T | Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let over = false;
      let cancelAnswer = () => {};
      const end = (finish: () => void) => {
        if (over) return;
        over = true;
        signal?.removeEventListener('abort', onAbort);
        cancelAnswer();
        finish();
      };
      const onAbort = () => end(() => reject(signal?.reason));
      if (signal?.aborted) {
        onAbort();
        return;
      }
      signal?.addEventListener('abort', onAbort, { once: true });
      const answer = (finish: () => void) => {
        if (over || life.dead) return;
        cancelAnswer = this.#scheduler.after(this.#chance.latencyMs(), `${label} answered`, life, () => end(finish));
      };
      this.#scheduler.after(this.#chance.latencyMs(), label, this.#world, () => {
        // Given up or orphaned on the way: it may have been sent already.
        if ((over || life.dead) && this.#chance.happens(0.5)) return;
        Promise.resolve()
          .then(handle)
          .then(
            (value) => answer(() => resolve(value)),
            (error) => answer(() => reject(error)),
          );
      });
    });
  }
}
