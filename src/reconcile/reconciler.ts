import type { ExplainTry, Key } from '../api/index.ts';
import { AtOnceStreaks } from './at-once.ts';
import { CrashLoopBackoff, type CrashLoopChange } from './crash-loop-backoff.ts';
import { DecisionLog } from './decision-log.ts';
import { clip, type DecisionRecord } from './decision-record.ts';
import { KeyedQueue, type KeyResult, type QueueCounts } from './keyed-queue.ts';
import { again, backOff, decidedAtOnce, describeCause, type Next, nextOf, type Written } from './next.ts';
import {
  type Attempt,
  crashLoopAttempt,
  type Decided,
  type ReconcileParts,
  type ReconcilerDeps,
  type ReconcilerOptions,
  type WriteReport,
} from './reconcile-parts.ts';
import { type Observed, Reporter } from './reporter.ts';
import type { ObjectEvent, StepOutcome } from './steps.ts';

const unsyncedMs = 1_000;

/**
 * The loop over all objects of one kind: one serial actor per key, woken by `wake` and `wakeAfter`. Each run observes, decides,
 * does the steps, and writes the status if it differs; nothing that happens to one key reaches another. It keeps the decisions
 * for "explain", backs off a key that fails, and recognises one that fails the same way over and over.
 *
 * A user gives `ReconcileParts`, subscribes its caches to `wake` after they have synced, and ends those subscriptions before
 * `stop`. What the user remembers per key it drops in `isGone`.
 */
export class Reconciler<Observation extends Observed, Decision extends Decided, Seen> {
  readonly decisions: DecisionLog<Seen>;
  readonly crashLoops: CrashLoopBackoff;
  readonly #options: ReconcilerOptions;
  readonly #parts: ReconcileParts<Observation, Decision, Seen>;
  readonly #deps: ReconcilerDeps;
  readonly #reporter: Reporter<Observation, Seen>;
  readonly #queue: KeyedQueue;
  readonly #atOnce = new AtOnceStreaks();

  constructor(options: ReconcilerOptions, parts: ReconcileParts<Observation, Decision, Seen>, deps: ReconcilerDeps) {
    const { words, recordEvent, crashLoop, isSameSeen } = parts;
    this.#options = options;
    this.#parts = parts;
    this.#deps = deps;
    this.decisions = new DecisionLog({}, { isSameSeen });
    this.crashLoops = new CrashLoopBackoff({ failures: options.crashLoopFailures });
    const crashLoopEvent = (entry: CrashLoopChange['entry']) => crashLoop.event(entry, options.backoff.maxMs);
    this.#reporter = new Reporter({ decisions: this.decisions, words, recordEvent, crashLoopEvent, log: deps.log });
    this.#queue = this.#makeQueue();
  }

  #makeQueue(): KeyedQueue {
    const { concurrency, slotMs, backoff } = this.#options;
    const { clock, random, observer } = this.#deps;
    return new KeyedQueue(
      { concurrency, ...(slotMs !== undefined && { slotMs }), backoff: { ...backoff, jitter: 0.1, random } },
      {
        run: (key, signal) => this.#run(key, signal),
        onError: (key, error, retryInMs) => this.#reporter.retry(key, error, retryInMs),
        clock,
        ...(observer && { observer }),
      },
    );
  }

  /** The key is reconciled soon; one that waits is woken. */
  wake(key: Key): void {
    this.#queue.add(key);
  }

  /** What `work` wakes waits behind all that is woken otherwise, as long as nothing else wakes it: for looks at everything there is. */
  inBackground(work: () => void): void {
    this.#queue.inBackground(work);
  }

  /** The key is reconciled after this time; an earlier time is kept. */
  wakeAfter(key: Key, ms: number): void {
    this.#queue.addAfter(key, ms);
  }

  /** No new reconcile; resolves when those under way have ended. No object is touched by it. */
  async stop(): Promise<void> {
    await this.#queue.stop();
  }

  get counts(): QueueCounts {
    return this.#queue.counts;
  }

  /** Reconciles under way: how long all of them together, and the longest. */
  get unfinished(): { readonly totalMs: number; readonly longestMs: number } {
    return this.#queue.unfinished;
  }

  /** Resolves as soon as no reconcile is under way. */
  whenIdle(): Promise<void> {
    return this.#queue.whenIdle();
  }

  /** Keys whose reconcile has been under way for this long. */
  runningFor(ms: number): Key[] {
    return this.#queue.runningFor(ms);
  }

  /** Keys whose last reconcile failed. */
  failing(): Key[] {
    return this.#queue.failing();
  }

  /** When the key is reconciled again, and what is waited for. */
  tryOf(key: Key): ExplainTry {
    const { state, dueInMs, forMs, failures } = this.#queue.status(key);
    const because = this.decisions.last(key)?.next?.because ?? 'nothing was decided yet';
    return {
      state,
      ...(dueInMs !== undefined && { inMs: Math.round(dueInMs) }),
      ...(forMs !== undefined && { forMs: Math.round(forMs) }),
      because,
      // The queue forgets them when a run only waits for the next try, and knows of those of which the object is not the cause.
      failuresInARow: Math.max(failures, this.crashLoops.failuresOf(key)),
    };
  }

  async #run(key: Key, signal: AbortSignal): Promise<KeyResult> {
    const { isSynced, isOnlyALook } = this.#parts;
    if (!isSynced()) return { kind: 'done', requeueAfterMs: unsyncedMs };
    let observation: Observation | undefined;
    try {
      observation = await this.#observe(key, signal);
      const first = await this.#act(observation, signal);
      if (signal.aborted || !isOnlyALook?.(first.attempt)) return await this.#conclude(first, signal);
      first.record.next = { because: decidedAtOnce, afterMs: 0 };
      this.#queue.absorb(key);
      observation = await this.#observe(key, signal);
      return await this.#conclude(await this.#act(observation, signal), signal);
    } catch (error) {
      if (signal.aborted) throw error;
      return this.#fault(key, observation, error);
    }
  }

  async #observe(key: Key, signal: AbortSignal): Promise<Observation> {
    const observation = await this.#parts.observe(key, signal);
    return { ...observation, lastRule: this.decisions.runOf(observation.key, observation.uid) };
  }

  /** Decides and does it. */
  async #act(observation: Observation, signal: AbortSignal): Promise<Acted<Observation, Decision, Seen>> {
    const { decide, execute, record } = this.#parts;
    const decision = decide(observation);
    const outcomes = await execute(observation, decision, signal);
    const attempt = { observation, decision, outcomes };
    return { attempt, record: this.#reporter.note(observation, record(attempt)) };
  }

  /** Makes known what came of it, and says when the key runs again. */
  async #conclude({ attempt, record }: Acted<Observation, Decision, Seen>, signal: AbortSignal): Promise<KeyResult> {
    if (signal.aborted) return { kind: 'done' };
    const { observation, decision, outcomes } = attempt;
    const report: WriteReport = (events) => this.#reporter.events(record, observation, events);
    report([...(decision.events ?? []), ...eventsOf(outcomes)]);
    const written = await this.#parts.write(attempt, report, signal);
    this.#noteWrite(observation.key, record, written);
    this.#judge(attempt, record, written);
    const wanted = nextOf(decision, outcomes, written, this.#parts.words);
    return this.#plan(observation.key, record, this.#slowed(observation, written, wanted));
  }

  #noteWrite(key: Key, record: DecisionRecord<Seen>, written: Written): void {
    if (written.kind === 'no-object') return;
    record.write =
      written.kind === 'failed' || written.kind === 'refused'
        ? { outcome: 'failed', because: clip(describeCause(written.error)) }
        : { outcome: written.kind };
    if (written.kind === 'written') this.#deps.observer?.written(key);
  }

  /** What the queue gets; the reason, too, for "explain". */
  #plan(key: Key, record: DecisionRecord<Seen>, { result, because, afterMs, latestMs }: Next): KeyResult {
    record.next = { because: clip(because), ...(afterMs !== undefined && { afterMs: Math.round(afterMs) }) };
    this.decisions.close(key);
    this.#deps.observer?.reconciled(record.rule, result.kind);
    if (result.kind !== 'retry') return result;
    if (latestMs !== undefined) this.#queue.addAfter(key, latestMs);
    return this.crashLoops.of(key) ? { ...result, atLeastMs: this.#options.backoff.maxMs } : result;
  }

  /** What is wanted at once over and over comes after a pause. */
  #slowed(observation: Observation, written: Written, wanted: Next): Next {
    const { key } = observation;
    if (wanted.afterMs !== 0) {
      this.#atOnce.end(key);
      return wanted;
    }
    const version = this.#parts.versionOf(observation);
    const pause = this.#atOnce.pause(key, { version, written, timesInARow: this.decisions.timesInARow(key) });
    if (!pause) return wanted;
    if (pause.isNews) this.#reporter.spinning(key);
    return again(pause.afterMs, written.kind === 'outdated' ? wanted.because : 'it makes no progress');
  }

  /** A reconcile that threw: a bug of this program, which costs this key only. */
  #fault(key: Key, observation: Observation | undefined, error: unknown): KeyResult {
    const at = this.#deps.clock.now();
    const record = this.#reporter.fault(key, observation?.uid, at, error, this.#parts.seen(observation));
    const change = this.crashLoops.judgeFault(key, record.uid, at, error);
    if (change && observation) this.#reporter.crashLoop(record, observation, change);
    this.#atOnce.end(key);
    return this.#plan(key, record, backOff(error));
  }

  #judge(attempt: Attempt<Observation, Decision>, record: DecisionRecord<Seen>, written: Written): void {
    const { observation } = attempt;
    const { key, now } = observation;
    const change = this.crashLoops.judge(key, crashLoopAttempt(attempt, written, this.#parts.crashLoop));
    if (change) this.#reporter.crashLoop(record, observation, change);
    if (!this.#parts.isGone(observation)) return;
    this.crashLoops.forget(key);
    this.decisions.markGone(key, now);
  }
}

interface Acted<Observation, Decision, Seen> {
  readonly attempt: Attempt<Observation, Decision>;
  readonly record: DecisionRecord<Seen>;
}

function eventsOf(outcomes: readonly StepOutcome<PropertyKey>[]): ObjectEvent[] {
  return outcomes.flatMap(({ outcome }) => outcome.events ?? []);
}
