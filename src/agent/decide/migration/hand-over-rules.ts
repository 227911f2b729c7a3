import type { Facts } from '../facts.ts';
import { type Plan, type Rule, rest, wait } from '../rule.ts';
import { failedMigration } from './failed-migration.ts';
import { rememberMigration, type SourceView, sourceView } from './source-view.ts';

/**
 * How long the target node may stay silent after the source has sent its guest. Upstream waits without end for a migration
 * within one cluster (spec 11 §11, 8). A phase Failed ends the guest wherever it arrived, so an agent that is being updated
 * on the target node gets its time, and more of it once it has seen the guest.
 */
const silentLimitMs = 180_000;
const arrivedLimitMs = 600_000;

/** The guest has left and the API server does not say yet where it is; also while the VMI is being deleted. */
function handedOver(facts: Facts): SourceView | undefined {
  return facts.situation.kind === 'migrated' && !facts.final ? sourceView(facts) : undefined;
}

function leftMs({ observation }: Facts, { memory, state }: SourceView): number {
  const hasArrived = state.targetNodeDomainDetected === true || Boolean(state.targetNodeDomainReadyTimestamp);
  const limitMs = hasArrived ? arrivedLimitMs : silentLimitMs;
  return (memory.overSeenMs ?? observation.nowMs) + limitMs - observation.nowMs;
}

function giveUp(facts: Facts): Plan {
  const reason =
    "The VirtualMachineInstance's domain was never observed on the target after the migration completed within the " +
    'timeout period.';
  const problem = `${reason} Look at virt-handler and the launcher pod on the target node, then start the VM again.`;
  return {
    steps: [],
    phase: 'Failed',
    patch: failedMigration(facts, { reason }),
    remember: { verdict: { phase: 'Failed', because: reason } },
    problem,
    requeueAfterMs: 0,
  };
}

/** Nothing of the source is touched before the hand-over is visible: its domain is all that proves where the guest went. */
export const handOverRules: readonly Rule[] = [
  {
    name: 'hand-over-never-came',
    why: 'The guest was sent away and the target node never reported it, so the VMI has failed.',
    when: (facts) => {
      const view = handedOver(facts);
      return view !== undefined && leftMs(facts, view) <= 0;
    },
    plan: giveUp,
  },
  {
    name: 'hand-over-awaited',
    why: 'The guest was sent to the target node, whose word that it runs there is awaited.',
    when: (facts) => handedOver(facts) !== undefined,
    plan: (facts) => {
      const view = handedOver(facts);
      if (!view) return rest;
      const overSeenMs = view.memory.overSeenMs ?? facts.observation.nowMs;
      return { ...wait(leftMs(facts, view)), remember: rememberMigration(view, { overSeenMs }) };
    },
  },
];
