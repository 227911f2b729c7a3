import { type Clock, sleep } from '../../base/index.ts';
import type { ForwardRow } from './forwards.ts';

const [firstPauseMs, maxPauseMs] = [5, 200];

interface Waiting {
  readonly resolve: (rows: readonly ForwardRow[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Looks at QEMU's table, which has no events, for all connections that wait for the guest: one question at a time, however many they are. */
export class TableLooks {
  readonly #read: () => Promise<readonly ForwardRow[]>;
  readonly #clock: Clock;
  readonly #waiting: Waiting[] = [];
  #pauseMs = firstPauseMs;
  #isLooking = false;

  constructor(deps: { readonly read: () => Promise<readonly ForwardRow[]>; readonly clock: Clock }) {
    this.#read = deps.read;
    this.#clock = deps.clock;
  }

  /** The table as it is after a while, which grows until a new connection waits. Rejects with what the question of the monitor rejects with. */
  next(isNew: boolean): Promise<readonly ForwardRow[]> {
    if (isNew) this.#pauseMs = firstPauseMs;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      if (!this.#isLooking) void this.#look();
    });
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    while (this.#waiting.length > 0) {
      await sleep(this.#pauseMs, undefined, this.#clock);
      this.#pauseMs = Math.min(2 * this.#pauseMs, maxPauseMs);
      // Who comes meanwhile has to see a newer one.
      const asked = this.#waiting.splice(0);
      await this.#read().then(
        (rows) => asked.map(({ resolve }) => resolve(rows)),
        (error: unknown) => asked.map(({ reject }) => reject(error)),
      );
      // Those who go on waiting say so at once.
      await Promise.resolve();
    }
    this.#isLooking = false;
  }
}
