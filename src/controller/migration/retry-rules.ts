import { findCondition, retryCondition, retryNameOf } from '../../api/index.ts';
import { reachedMs } from './facts.ts';
import { type Facts, fails, type MigrationPlan, type MigrationRule, retryDue, waits } from './plan.ts';
import { obstacleToRetry } from './retry.ts';
import type { MigrationStep } from './steps.ts';

/** Fails by something that went away, not by an order or a refusal: the same may go well once more. */
export function loses(
  facts: Facts,
  reason: string,
  message: string,
  steps: readonly MigrationStep[] = [],
): MigrationPlan {
  if (obstacleToRetry(facts) !== undefined) return fails(reason, message, steps);
  return { steps, change: { kind: 'failed', reason, message, isTriedAgain: true } };
}

/** A VMI whose launcher or guest has ended says so within this. */
const settlingMs = 3_000;

/** Never more than that: the controller that stamped the failure may have another clock. */
const settlingLeftMs = (facts: Facts) => settlingMs - Math.max(0, reachedMs(facts, 'Failed') ?? settlingMs);

const isDue = ({ migration }: Facts) =>
  findCondition(migration.status?.conditions, retryCondition)?.reason === retryDue.reason;

/**
 * Of a migration that a loss has ended. Only one that said so when it failed is tried again: not those of an earlier version or of another
 * controller. The object that is made is found again by its name, whoever made it and whatever answer was lost.
 */
export const retryRules: readonly MigrationRule[] = [
  {
    name: 'retry-needless',
    why: 'The migration was to be tried again, and that makes no sense any more.',
    when: (facts) => isDue(facts) && obstacleToRetry(facts) !== undefined,
    plan: (facts) => {
      const message = `not tried again: ${obstacleToRetry(facts)}`;
      const condition = { type: retryCondition, status: 'False', reason: 'RetryNeedless', message } as const;
      return { steps: [], change: { kind: 'condition', condition } };
    },
  },
  {
    name: 'retry-settles',
    why: 'The migration is to be tried again; an end of the guest itself, which ends its migration, too, is told a moment later and waited for.',
    when: (facts) => isDue(facts) && settlingLeftMs(facts) > 0,
    plan: (facts) => waits(settlingLeftMs(facts)),
  },
  {
    name: 'retry-due',
    why: 'A loss ended the migration before its guest had moved: another migration tries it again, once.',
    when: isDue,
    plan: ({ migration }) => {
      const message = `tried again as ${retryNameOf(migration)}`;
      const condition = { type: retryCondition, status: 'True', reason: 'Retried', message } as const;
      return { steps: [{ step: 'tryAgain' }], change: { kind: 'condition', condition } };
    },
  },
];
