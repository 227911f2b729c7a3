import type { Key } from '../api/index.ts';
import { backoffDelayMs } from '../base/index.ts';
import type { Written } from './next.ts';

/** So often in a row the same decision may ask for another run at once, and so long is the pause beyond it. */
const spinningTimes = 3;
const spinningPauseMs = 1_000;
/** Others who write an object without end slow its reconciles down, no single one of them does. */
const collisionTimes = 8;
const collisionBackoff = { baseMs: 2, maxMs: spinningPauseMs };

interface Streak {
  readonly times: number;
  /** Writes in a row that came too late, each for a newer object than the one before. */
  readonly collisions: number;
  /** Of the object that the last run of it observed. */
  readonly version: string | undefined;
}

export interface RunAtOnce {
  readonly version: string | undefined;
  readonly written: Written;
  /** The same decision this often in a row, this one included. */
  readonly timesInARow: number;
}

export interface Pause {
  readonly afterMs: number;
  /** It begins to spin: worth a line in the log, once. */
  readonly isNews: boolean;
}

/**
 * "Again at once" is for progress: the same decision over and over makes none. A write that came too late is progress when the run
 * before observed an older object. What was decided before and asked for nothing at once does not count: a key that rests is woken
 * for the same decision all day.
 */
export class AtOnceStreaks {
  readonly #streaks = new Map<Key, Streak>();

  /** The run asked for nothing at once. */
  end(key: Key): void {
    this.#streaks.delete(key);
  }

  /** Before the run that is asked for at once; undefined: none. */
  pause(key: Key, { version, written, timesInARow }: RunAtOnce): Pause | undefined {
    const before = this.#streaks.get(key) ?? { times: 0, collisions: 0, version: undefined };
    const isNewer = written.kind === 'outdated' && version !== undefined && before.version !== version;
    const times = Math.min(timesInARow, before.times + (isNewer ? 0 : 1));
    const collisions = isNewer ? before.collisions + 1 : 0;
    this.#streaks.set(key, { times, collisions, version });
    if (isNewer) {
      if (collisions <= collisionTimes) return undefined;
      return { afterMs: backoffDelayMs(collisions - collisionTimes, collisionBackoff), isNews: false };
    }
    if (times <= spinningTimes) return undefined;
    return { afterMs: spinningPauseMs, isNews: times === spinningTimes + 1 };
  }
}
