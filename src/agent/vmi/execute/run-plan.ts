import type { Plan, StepOutcome } from '../decide/index.ts';
import type { ExecuteContext } from './context.ts';
import { executeStep } from './executors.ts';

/** The steps of a plan in order; the first that fails or has to wait ends it. */
export async function runPlan(plan: Plan, context: ExecuteContext): Promise<StepOutcome[]> {
  const outcomes: StepOutcome[] = [];
  const { clock } = context.ports;
  for (const step of plan.steps) {
    const startMs = clock.monotonicMs();
    const outcome = await executeStep(step, context);
    outcomes.push({ step: step.step, outcome, tookMs: clock.monotonicMs() - startMs });
    if (outcome.kind !== 'done' || context.signal.aborted) break;
  }
  return outcomes;
}
