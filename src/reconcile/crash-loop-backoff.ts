import type { ExplainQuarantine, Key } from '../api/index.ts';
import { errorCode } from '../base/index.ts';
import { describeCause } from './next.ts';

export interface CrashLoopOptions {
  /** The same failure this often in a row makes a crash loop. */
  readonly failures: number;
}

export interface CrashLoopChange {
  readonly kind: 'entered' | 'left';
  readonly entry: ExplainQuarantine;
}

/** One reconcile of a key, as far as a crash loop depends on it. */
export interface CrashLoopAttempt {
  readonly uid: string;
  readonly now: Date;
  /** What the object asks for: another wish is another attempt. */
  readonly wish: () => string;
  /** What was observed of the real thing: a start that fails goes through the same few states each time. */
  readonly state: () => string;
  /** What failed and will not mend by itself; undefined: nothing, or only something of which the object is not the cause. */
  readonly failure: CrashLoopFailure | undefined;
  /** What failed before has gone through this time. */
  readonly hasPassed: (where: string) => boolean;
}

export interface CrashLoopFailure {
  /** Step that fails, `write` or `pass`. */
  readonly where: string;
  readonly code: string;
  readonly problem: string;
}

interface Streak {
  readonly uid: string;
  readonly wish: string;
  readonly where: string;
  readonly code: string;
  /** States that were observed during the streak. */
  readonly states: Set<string>;
  failures: number;
  problem: string;
  since: string | undefined;
}

/** `where` of a reconcile that threw. Clients of the explain document read this word. */
const reconcileItself = 'pass';

/**
 * Crash-loop back-off: keys that fail the same way over and over. Such a key is reported once and tried at the longest back-off.
 * It leaves when what failed goes through, when its object asks for something else, or when another state is observed. An API
 * server that does not answer is no fault of an object and does not count.
 */
export class CrashLoopBackoff {
  readonly #options: CrashLoopOptions;
  readonly #streaks = new Map<Key, Streak>();

  constructor(options: CrashLoopOptions) {
    this.#options = options;
  }

  of(key: Key): ExplainQuarantine | undefined {
    const streak = this.#streaks.get(key);
    return streak?.since === undefined ? undefined : entryOf(streak, streak.since);
  }

  /** How often in a row the key has failed the same way, in a crash loop or not yet. Runs in between that waited for the next try end no row. */
  failuresOf(key: Key): number {
    return this.#streaks.get(key)?.failures ?? 0;
  }

  /** Keys in a crash loop. */
  keys(): Key[] {
    return [...this.#streaks].filter(([, { since }]) => since !== undefined).map(([key]) => key);
  }

  forget(key: Key): void {
    this.#streaks.delete(key);
  }

  /** A reconcile that came to its end. */
  judge(key: Key, attempt: CrashLoopAttempt): CrashLoopChange | undefined {
    const left = this.#leaveIfChanged(key, attempt);
    if (attempt.failure) return this.#count(key, attempt, attempt.failure) ?? left;
    const streak = this.#streaks.get(key);
    const hasPassed = streak && (streak.where === reconcileItself || attempt.hasPassed(streak.where));
    return (hasPassed ? this.#leave(key) : undefined) ?? left;
  }

  /** A reconcile that threw. */
  judgeFault(key: Key, uid: string, at: Date, error: unknown): CrashLoopChange | undefined {
    const failure = { where: reconcileItself, code: errorCode(error) ?? '', problem: describeCause(error) };
    const streak = this.#streaks.get(key);
    const isSame = streak?.where === reconcileItself && streak.code === failure.code;
    return this.#fail(key, isSame ? streak : newStreak(uid, streak?.wish ?? '', failure), failure, at);
  }

  #count(
    key: Key,
    { uid, now, wish, state }: CrashLoopAttempt,
    failure: CrashLoopFailure,
  ): CrashLoopChange | undefined {
    const known = this.#streaks.get(key);
    const isSame = known?.where === failure.where && known.code === failure.code;
    const streak = isSame ? known : newStreak(uid, wish(), failure);
    const left = isSame ? undefined : this.#leave(key);
    streak.states.add(state());
    return this.#fail(key, streak, failure, now) ?? left;
  }

  #fail(key: Key, streak: Streak, failure: CrashLoopFailure, at: Date): CrashLoopChange | undefined {
    streak.failures++;
    streak.problem = failure.problem;
    this.#streaks.set(key, streak);
    if (streak.since !== undefined || streak.failures < this.#options.failures) return undefined;
    streak.since = at.toISOString();
    return { kind: 'entered', entry: entryOf(streak, streak.since) };
  }

  #leaveIfChanged(key: Key, { uid, wish, state }: CrashLoopAttempt): CrashLoopChange | undefined {
    const streak = this.#streaks.get(key);
    if (!streak) return undefined;
    if (streak.uid !== uid || streak.wish !== wish()) return this.#leave(key);
    const now = state();
    if (streak.since !== undefined && !streak.states.has(now)) return this.#leave(key);
    streak.states.add(now);
    return undefined;
  }

  #leave(key: Key): CrashLoopChange | undefined {
    const entry = this.of(key);
    this.#streaks.delete(key);
    return entry && { kind: 'left', entry };
  }
}

function newStreak(uid: string, wish: string, { where, code, problem }: CrashLoopFailure): Streak {
  return { uid, wish, where, code, problem, states: new Set(), failures: 0, since: undefined };
}

function entryOf({ failures, where, problem }: Streak, since: string): ExplainQuarantine {
  return { since, failures, where, problem };
}
