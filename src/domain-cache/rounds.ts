import type { Clock } from '../base/index.ts';

export interface WorkerSlots {
  /** Items worked on side by side. */
  readonly limit: number;
  /** An item that takes longer goes on, and the next one has its slot: those that hang keep no slot from others. */
  readonly slotMs: number;
  readonly clock: Clock;
}

/** Runs `work` for every item; resolves when each has ended or given up its slot. `work` must not reject. */
export async function forEachLimited<T>(
  items: readonly T[],
  { limit, slotMs, clock }: WorkerSlots,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = [...items];
  const worker = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) {
      const working = work(item);
      await new Promise<void>((resolve) => {
        const cancel = clock.schedule(slotMs, resolve);
        void working.finally(() => {
          cancel();
          resolve();
        });
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
}

/** Work that comes back again and again until it is stopped. */
export class Rounds {
  readonly #clock: Clock;
  readonly #cancels = new Set<() => void>();
  #isStopped = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs `work` again and again, `ms` after it ended. `work` must not reject. */
  every(ms: number, work: () => Promise<void>): void {
    if (this.#isStopped) return;
    const cancel = this.#clock.schedule(ms, () => {
      this.#cancels.delete(cancel);
      void work().finally(() => this.every(ms, work));
    });
    this.#cancels.add(cancel);
  }

  /** What runs goes on, and does not come back. */
  stop(): void {
    this.#isStopped = true;
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }
}
