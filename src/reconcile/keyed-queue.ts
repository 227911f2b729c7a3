import { setMaxListeners } from 'node:events';
import {
  type BackoffOptions,
  backoffDelayMs,
  type Clock,
  systemClock,
  TwoLines,
  withOwnEnding,
} from '../base/index.ts';

export type KeyResult =
  | { readonly kind: 'done'; readonly requeueAfterMs?: number }
  /** Counts as a failure of this key: its next run comes after back-off, and not before `atLeastMs`. */
  | { readonly kind: 'retry'; readonly cause?: unknown; readonly atLeastMs?: number };

export interface KeyedQueueOptions {
  /** Keys that may run side by side. One key never runs twice at a time. */
  readonly concurrency: number;
  /** A run that takes longer gives its worker slot to another key, so that runs that hang block no others. Unlimited unless given. */
  readonly slotMs?: number;
  /** Back-off per key. Keys share no token bucket: in client-go's default queue one that fails slows down all the others. */
  readonly backoff?: BackoffOptions;
}

/** Is called for each run: metrics count them. */
export interface QueueObserver {
  /** A key was added that was not queued already. */
  added(): void;
  /** `waitedMs`: since it could have run, had a worker slot been free. */
  started(waitedMs: number): void;
  ended(tookMs: number, kind: KeyResult['kind']): void;
}

export interface KeyedQueueDeps {
  readonly run: (key: string, signal: AbortSignal) => Promise<KeyResult>;
  readonly onError?: (key: string, error: unknown, retryInMs: number) => void;
  readonly clock?: Clock;
  readonly observer?: QueueObserver;
}

/** What a key is doing now. */
export interface KeyStatus {
  readonly state: 'running' | 'queued' | 'waiting' | 'idle';
  /** `waiting`: time left. */
  readonly dueInMs?: number;
  /** `running`: since it began. */
  readonly forMs?: number;
  /** In a row. */
  readonly failures: number;
}

export interface QueueCounts {
  readonly running: number;
  /** Ready, but no worker slot is free. */
  readonly queued: number;
  /** On a timer. */
  readonly waiting: number;
  /** Of all, those whose last run failed. */
  readonly failing: number;
}

interface KeyState {
  queued: boolean;
  running: boolean;
  failures: number;
  cancelTimer: (() => void) | undefined;
  dueMs: number;
  /** Since when it only waits for a worker slot. */
  readyMs: number;
  startedMs: number;
}

/** So many keys are taken before those that wait in the background get a turn: they must come to it, however much else there is. */
const turnsInFront = 16;

/**
 * One serial actor per key: a key waits at most once, never runs twice at a time, and what is added while it runs makes it
 * run once more. A delayed add keeps the earliest time. State of a key goes when it is idle and has no failures.
 */
export class KeyedQueue {
  readonly #concurrency: number;
  readonly #slotMs: number | undefined;
  readonly #backoff: BackoffOptions;
  readonly #deps: KeyedQueueDeps;
  readonly #clock: Clock;
  readonly #states = new Map<string, KeyState>();
  /** Keys that could run; behind are those of the background. */
  readonly #ready = new TwoLines<string>(turnsInFront);
  #isBackground = false;
  #cancelTurn: (() => void) | undefined;
  readonly #stopping = new AbortController();
  #running = 0;
  #slotsTaken = 0;
  #idle: (() => void)[] = [];

  constructor(options: KeyedQueueOptions, deps: KeyedQueueDeps) {
    this.#concurrency = options.concurrency;
    this.#slotMs = options.slotMs;
    this.#backoff = options.backoff ?? { baseMs: 5, maxMs: 1_000_000, jitter: 0.1 };
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    // Every run listens on it.
    setMaxListeners(0, this.#stopping.signal);
  }

  /** Keys that wait for a free worker slot, without those on a timer. */
  get depth(): number {
    return this.#ready.size;
  }

  status(key: string): KeyStatus {
    const state = this.#states.get(key);
    if (!state) return { state: 'idle', failures: 0 };
    const { running, failures } = state;
    if (running) return { state: 'running', forMs: this.#clock.monotonicMs() - state.startedMs, failures };
    if (this.#ready.front.has(key) || this.#ready.behind.has(key)) return { state: 'queued', failures };
    if (!state.cancelTimer) return { state: 'idle', failures };
    return { state: 'waiting', dueInMs: Math.max(0, state.dueMs - this.#clock.monotonicMs()), failures };
  }

  get counts(): QueueCounts {
    const states = [...this.#states.values()];
    return {
      running: this.#running,
      queued: this.depth,
      waiting: states.filter(({ cancelTimer, queued }) => cancelTimer && !queued).length,
      failing: states.filter(({ failures }) => failures > 0).length,
    };
  }

  /** Keys that have been running for at least this long. */
  runningFor(ms: number): string[] {
    const nowMs = this.#clock.monotonicMs();
    return [...this.#states]
      .filter(([, { running, startedMs }]) => running && nowMs - startedMs >= ms)
      .map(([key]) => key);
  }

  /** Runs under way: how long all of them together, and the longest. */
  get unfinished(): { readonly totalMs: number; readonly longestMs: number } {
    const nowMs = this.#clock.monotonicMs();
    let [totalMs, longestMs] = [0, 0];
    for (const { running, startedMs } of this.#states.values()) {
      if (!running) continue;
      totalMs += nowMs - startedMs;
      longestMs = Math.max(longestMs, nowMs - startedMs);
    }
    return { totalMs, longestMs };
  }

  /** Keys whose last run failed. */
  failing(): string[] {
    return [...this.#states].filter(([, { failures }]) => failures > 0).map(([key]) => key);
  }

  /** Makes the key run soon; ends any delay of it. */
  add(key: string): void {
    if (this.#stopping.signal.aborted) return;
    const state = this.#state(key);
    // A delay may end before its turn in the background comes.
    if (!this.#isBackground) this.#cancelTimer(state);
    if (!state.queued) this.#deps.observer?.added();
    state.queued = true;
    if (!state.running) this.#makeReady(key, state);
    if (!this.#isBackground) this.#pump();
  }

  /** Makes the key run after `ms`; an earlier waiting time is kept. */
  addAfter(key: string, ms: number): void {
    if (ms <= 0) {
      this.add(key);
      return;
    }
    if (this.#stopping.signal.aborted) return;
    const state = this.#state(key);
    if (state.queued && !this.#ready.behind.has(key)) return;
    const dueMs = this.#clock.monotonicMs() + ms;
    if (state.cancelTimer && state.dueMs <= dueMs) return;
    this.#cancelTimer(state);
    state.dueMs = dueMs;
    state.cancelTimer = this.#clock.schedule(ms, () => {
      state.cancelTimer = undefined;
      this.add(key);
    });
  }

  /**
   * What is added within `work`, which is synchronous, waits behind all that is added otherwise, and lets the event loop hear of such between its
   * runs: a look at everything there is must not keep news waiting.
   */
  inBackground(work: () => void): void {
    const was = this.#isBackground;
    this.#isBackground = true;
    try {
      work();
    } finally {
      this.#isBackground = was;
      if (!was) this.#pump();
    }
  }

  /** For a run that observes everything anew: what was added until now makes it run no second time. */
  absorb(key: string): void {
    const state = this.#states.get(key);
    if (state?.running) state.queued = false;
  }

  /** No more runs are started; resolves when those under way have ended. Their signal is aborted. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('queue stopped'));
    this.#ready.clear();
    this.#cancelTurn?.();
    for (const state of this.#states.values()) this.#cancelTimer(state);
    await this.whenIdle();
    this.#states.clear();
  }

  /** Resolves as soon as no key runs, or could. */
  async whenIdle(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #state(key: string): KeyState {
    let state = this.#states.get(key);
    if (!state) {
      const times = { dueMs: 0, readyMs: 0, startedMs: 0 };
      state = { queued: false, running: false, failures: 0, cancelTimer: undefined, ...times };
      this.#states.set(key, state);
    }
    return state;
  }

  #makeReady(key: string, state: KeyState): void {
    const { front, behind } = this.#ready;
    if (front.has(key) || (this.#isBackground && behind.has(key))) return;
    if (!behind.delete(key)) state.readyMs = this.#clock.monotonicMs();
    (this.#isBackground ? behind : front).add(key);
  }

  #cancelTimer(state: KeyState): void {
    state.cancelTimer?.();
    state.cancelTimer = undefined;
  }

  #pump(): void {
    while (this.#ready.front.size > 0 && this.#hasSlot) this.#runNext();
    if (this.#ready.size === 0 || !this.#hasSlot) return;
    // Runs that wait for nothing would follow one another without the event loop between them.
    this.#cancelTurn ??= this.#clock.schedule(0, () => {
      this.#cancelTurn = undefined;
      while (this.#ready.size > 0 && this.#hasSlot) this.#runNext();
    });
  }

  get #hasSlot(): boolean {
    return this.#slotsTaken < this.#concurrency && !this.#stopping.signal.aborted;
  }

  #runNext(): void {
    const key = this.#ready.take();
    if (key !== undefined) void this.#runKey(key);
  }

  /** The slot is given back once: by the result, or when it has been held for too long. */
  #takeSlot(): () => void {
    this.#slotsTaken++;
    let isHeld = true;
    let cancel = () => {};
    const leave = () => {
      cancel();
      if (!isHeld) return;
      isHeld = false;
      this.#slotsTaken--;
    };
    if (this.#slotMs !== undefined) {
      cancel = this.#clock.schedule(this.#slotMs, () => {
        leave();
        this.#pump();
      });
    }
    return leave;
  }

  async #runKey(key: string): Promise<void> {
    const state = this.#state(key);
    this.#cancelTimer(state);
    state.queued = false;
    state.running = true;
    state.startedMs = this.#clock.monotonicMs();
    this.#deps.observer?.started(state.startedMs - state.readyMs);
    this.#running++;
    const leave = this.#takeSlot();
    let result: KeyResult;
    try {
      result = await withOwnEnding(this.#stopping.signal, ({ signal }) => this.#deps.run(key, signal));
    } catch (cause) {
      result = { kind: 'retry', cause };
    }
    state.running = false;
    this.#running--;
    this.#deps.observer?.ended(this.#clock.monotonicMs() - state.startedMs, result.kind);
    leave();
    this.#settle(key, state, result);
    this.#pump();
    if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  #settle(key: string, state: KeyState, result: KeyResult): void {
    if (this.#stopping.signal.aborted) return;
    if (result.kind === 'retry') {
      state.failures++;
      const delayMs = Math.max(result.atLeastMs ?? 0, backoffDelayMs(state.failures, this.#backoff));
      this.#deps.onError?.(key, result.cause, delayMs);
      this.addAfter(key, delayMs);
    } else {
      state.failures = 0;
      if (result.requeueAfterMs !== undefined) this.addAfter(key, result.requeueAfterMs);
    }
    // A run asked for with no delay has begun already: its state is in use.
    if (state.running) return;
    if (state.queued) this.#makeReady(key, state);
    else if (!state.cancelTimer && state.failures === 0) this.#states.delete(key);
  }
}
