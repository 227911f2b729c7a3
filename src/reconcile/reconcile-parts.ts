import type { Key } from '../api/index.ts';
import type { Clock, Logger } from '../base/index.ts';
import type { CrashLoopAttempt, CrashLoopChange } from './crash-loop-backoff.ts';
import type { DecisionRecord, RecordedDecision } from './decision-record.ts';
import type { KeyResult, QueueObserver } from './keyed-queue.ts';
import { describeCause, type Requeue, type Written } from './next.ts';
import type { Observed, ReportWords } from './reporter.ts';
import type { ObjectEvent, StepError, StepOutcome } from './steps.ts';

export interface ReconcilerOptions {
  /** Keys worked on side by side; a reconcile waits, it does not compute. */
  readonly concurrency: number;
  /** A reconcile that hangs gives its worker slot to another key after this time. */
  readonly slotMs?: number;
  /** Per key. `maxMs` is also the pause between two tries in crash-loop back-off. */
  readonly backoff: { readonly baseMs: number; readonly maxMs: number };
  /** The same failure this often in a row puts a key into crash-loop back-off. */
  readonly crashLoopFailures: number;
}

/** What every decision says; a user's own has more. */
export interface Decided extends RecordedDecision, Requeue {
  readonly events?: readonly ObjectEvent[];
}

/** One observation, what was decided on it, and what came of the steps. */
export interface Attempt<Observation, Decision> {
  readonly observation: Observation;
  readonly decision: Decision;
  readonly outcomes: readonly StepOutcome<PropertyKey>[];
}

/**
 * The reconciled kind, as the reconciler calls it. In this order for each run of a key:
 * `observe` → `decide` → `execute` → `record` → events → `write` → `isGone`. All but `observe`, `execute` and `write` are pure or
 * touch memory only. Whatever throws costs its own key only and is reported as a fault of this program.
 */
export interface ReconcileParts<Observation extends Observed, Decision extends Decided, Seen> {
  /** False until all caches have been filled: what they do not have would be taken for missing. */
  readonly isSynced: () => boolean;
  readonly observe: (key: Key, signal: AbortSignal) => Promise<Observation>;
  readonly decide: (observation: Observation) => Decision;
  /** See `runPlan`. */
  readonly execute: (
    observation: Observation,
    decision: Decision,
    signal: AbortSignal,
  ) => Promise<readonly StepOutcome<PropertyKey>[]>;
  /** See `decisionRecord`. */
  readonly record: (attempt: Attempt<Observation, Decision>) => DecisionRecord<Seen>;
  /** Of a reconcile that threw, maybe before there was an observation. */
  readonly seen: (observation: Observation | undefined) => Seen;
  readonly isSameSeen: (left: Seen, right: Seen) => boolean;
  /** Projects the status and writes what differs, also after a failed step. See `writeGuarded`. */
  readonly write: (
    attempt: Attempt<Observation, Decision>,
    report: WriteReport,
    signal: AbortSignal,
  ) => Promise<Written>;
  /** Optional: it only looked and goes on at once; what is decided next needs no write and no slot in the queue before it. */
  readonly isOnlyALook?: (attempt: Attempt<Observation, Decision>) => boolean;
  /** `resourceVersion` of the object as it was observed. */
  readonly versionOf: (observation: Observation) => string | undefined;
  /** Nothing of the object is left, here or at the API server: all that was remembered of the key is dropped. */
  readonly isGone: (observation: Observation) => boolean;
  readonly recordEvent: (observation: Observation, event: ObjectEvent) => boolean;
  readonly crashLoop: {
    /** What the object asks for, and what was observed of the real thing; see `CrashLoopAttempt`. */
    readonly wishOf: (observation: Observation) => string;
    readonly stateOf: (observation: Observation) => string;
    /** Steps that came too late for their object: no failure of it. */
    readonly isOvertaken: (error: StepError) => boolean;
    readonly event: (entry: CrashLoopChange['entry'], longestPauseMs: number) => ObjectEvent | undefined;
  };
  readonly words: ReportWords<Seen> & {
    /** What wakes a key, as in: when the VMI, its domain or its launcher changes. */
    readonly onChange: string;
  };
}

/** Events that belong to the write: those of a change are for when it went through. */
export type WriteReport = (events: readonly ObjectEvent[]) => void;

/** Is called for all that the loop does: metrics count it. */
export interface ReconcileObserver extends QueueObserver {
  /** A reconcile has ended; `kind`: whether it failed. */
  reconciled(rule: string, kind: KeyResult['kind']): void;
  /** The object of this key was written. */
  written(key: Key): void;
}

export interface ReconcilerDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** Spreads the retries. */
  readonly random: () => number;
  readonly observer?: ReconcileObserver | undefined;
}

/** A reconcile that came to its end, as far as a crash loop depends on it. */
export function crashLoopAttempt<Observation extends Observed, Decision extends Decided>(
  { observation, decision, outcomes }: Attempt<Observation, Decision>,
  written: Written,
  parts: Pick<ReconcileParts<Observation, Decision, never>['crashLoop'], 'wishOf' | 'stateOf' | 'isOvertaken'>,
): CrashLoopAttempt {
  const { uid, now } = observation;
  return {
    uid,
    now,
    wish: () => parts.wishOf(observation),
    state: () => parts.stateOf(observation),
    failure: failureOf(outcomes, written, parts.isOvertaken),
    hasPassed: (where) => {
      if (where === 'write') return written.kind === 'written' || written.kind === 'unchanged';
      if (decision.healthy === true) return true;
      return outcomes.some(({ step, outcome }) => step === where && outcome.kind === 'done');
    },
  };
}

function failureOf(
  outcomes: readonly StepOutcome<PropertyKey>[],
  written: Written,
  isOvertaken: (error: StepError) => boolean,
): CrashLoopAttempt['failure'] {
  for (const { step, outcome } of outcomes) {
    if (outcome.kind !== 'failed' || isOvertaken(outcome.error)) continue;
    return { where: String(step), code: outcome.error.code, problem: outcome.error.message };
  }
  // Content that the API server refuses stays refused; one that is away comes back.
  if (written.kind !== 'refused') return undefined;
  return { where: 'write', code: 'INVALID', problem: describeCause(written.error) };
}
