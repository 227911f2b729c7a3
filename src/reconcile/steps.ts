import { type Clock, errorCode, errorMessage, withDeadline } from '../base/index.ts';

/**
 * What a plan may do, as a table: `Args` names each step and what it needs, `Executors` has one function per step, and the
 * compiler refuses a missing one. A step is idempotent and checks again whether it is still about the right object.
 */
export type Step<Args, Name extends keyof Args = keyof Args> = {
  [Each in Name]: { readonly step: Each } & Args[Each];
}[Name];

/** An event on the object that is reconciled. */
export interface ObjectEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

/** Why a step failed, as far as decisions depend on it. `critical`: trying again cannot help. */
export interface StepError {
  readonly severity: 'retry' | 'critical';
  readonly code: string;
  readonly message: string;
}

/** What a step threw, as an error after which it is tried again; its code is kept. */
export function stepErrorOf(error: unknown, step: PropertyKey): StepError {
  return { severity: 'retry', code: errorCode(error) ?? 'FAILED', message: `${String(step)}: ${errorMessage(error)}` };
}

/** One of several things that a step did, with a line of its own in "explain" and in the log. No rule decides by it. */
export interface StepPart {
  readonly name: string;
  readonly outcome: 'done' | 'waits' | 'failed';
  readonly tookMs: number;
  readonly because?: string;
  /** What came of it, in a few words. */
  readonly gave?: string;
}

interface Reported {
  readonly events?: readonly ObjectEvent[];
  readonly parts?: readonly StepPart[];
}

/** `Memory`: what a step that is done adds to what is remembered of the key. */
export type Outcome<Memory = never> = Reported &
  (
    | { readonly kind: 'done'; readonly remember?: Memory }
    /** Not possible yet and no error: the rest of the plan waits. */
    | { readonly kind: 'wait'; readonly afterMs: number; readonly reason: string }
    | { readonly kind: 'failed'; readonly error: StepError }
  );

export interface StepOutcome<Name = string, Memory = unknown> {
  readonly step: Name;
  readonly outcome: Outcome<Memory>;
  readonly tookMs: number;
}

/** The error that ended the plan; undefined: no step failed. */
export function stepFailureOf(outcomes: readonly StepOutcome<unknown>[]): StepError | undefined {
  for (const { outcome } of outcomes) if (outcome.kind === 'failed') return outcome.error;
  return undefined;
}

export interface StepContext {
  readonly signal: AbortSignal;
}

export type Executors<Args, Context extends StepContext, Memory = never> = {
  readonly [Name in keyof Args]: (step: Step<Args, Name>, context: Context) => Promise<Outcome<Memory>>;
};

export interface PlanRunner<Args, Context extends StepContext, Memory> {
  readonly executors: Executors<Args, Context, Memory>;
  /** Longest time the step may take, whatever is inside; its signal is aborted then. */
  readonly deadlineMs: (step: keyof Args) => number;
  /** The one place where what a step threw becomes a code; `stepErrorOf` where nothing depends on which. */
  readonly errorOf: (error: unknown, step: keyof Args) => StepError;
  /** What follows does not depend on it: its failure is reported and tried again, and the plan goes on. Without it none. */
  readonly goesOnAfter?: (step: keyof Args) => boolean;
  readonly clock: Clock;
}

/**
 * Does the steps in order; the first that has to wait, or fails and matters to those after it, ends the plan. Never rejects: what a step throws is its outcome.
 * Things that are independent of one another, such as the deletion of several pods, are one step.
 */
export async function runPlan<Args, Context extends StepContext, Memory = never>(
  steps: readonly Step<Args>[],
  context: Context,
  runner: PlanRunner<Args, Context, Memory>,
): Promise<StepOutcome<keyof Args, Memory>[]> {
  const outcomes: StepOutcome<keyof Args, Memory>[] = [];
  for (const step of steps) {
    const startMs = runner.clock.monotonicMs();
    const outcome = await runStep(step, context, runner);
    outcomes.push({ step: step.step, outcome, tookMs: runner.clock.monotonicMs() - startMs });
    const isBehind = outcome.kind === 'done' || (outcome.kind === 'failed' && runner.goesOnAfter?.(step.step));
    if (!isBehind || context.signal.aborted) break;
  }
  return outcomes;
}

async function runStep<Args, Context extends StepContext, Memory>(
  step: Step<Args>,
  context: Context,
  { executors, deadlineMs, errorOf, clock }: PlanRunner<Args, Context, Memory>,
): Promise<Outcome<Memory>> {
  const { signal } = context;
  // TypeScript does not see that a step and its own executor belong together; the type of `Executors` guarantees it.
  const execute = executors[step.step] as (step: Step<Args>, context: Context) => Promise<Outcome<Memory>>;
  try {
    const limit = { timeoutMs: deadlineMs(step.step), signal, clock };
    return await withDeadline(limit, (ending) => execute(step, { ...context, signal: ending }));
  } catch (error) {
    return { kind: 'failed', error: errorOf(error, step.step) };
  }
}
