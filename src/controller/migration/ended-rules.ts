import { findCondition, isBeingDeleted, isTriedAgain, labels } from '../../api/index.ts';
import { listOf } from '../../base/index.ts';
import { podFacts } from '../pod/index.ts';
import { announcedState, isSourceEnd } from './decentralised-facts.ts';
import { isDeleted, ownState, phaseOf, targetPod } from './facts.ts';
import { deletionOf, mayHoldGuest } from './failure-rules.ts';
import { does, type Facts, failedCondition, type MigrationRule, waits } from './plan.ts';
import { retryRules } from './retry-rules.ts';
import { stateClaimLeft } from './state-rules.ts';

/** The target's agent tidies up first: it lets go of mounts and network of the pod. By then it has, or is dead. */
const tidyingMs = 60_000;
/** A pod that was made and deleted while no watch was open is forgotten without an event: whether it is gone is looked up. */
const goneMs = 5_000;

/** What is left to do for a migration that is over. */
export const endedRules: readonly MigrationRule[] = [
  stateClaimLeft(isTidying),
  {
    name: 'over-without-vmi',
    why: 'The migration is over and its VMI does not exist any more: the migration is deleted.',
    when: (facts) => facts.vmi === undefined && !isDeleted(facts),
    plan: () => ({ steps: [{ step: 'deleteMigration' }], change: { kind: 'keep' } }),
  },
  {
    name: 'failed-for-agents-too',
    why: 'The migration has failed, and the agents do not know it yet: the VMI says so from now on.',
    when: (facts) => {
      const state = ownState(facts) ?? announcedState(facts);
      return phaseOf(facts) === 'Failed' && state !== undefined && !state.failed && !state.completed;
    },
    plan: (facts) => does([{ step: 'failState', reason: failureOf(facts) }]),
  },
  {
    name: 'copied-volumes-left',
    why: 'The guest stays here, and its VMI still lists the volumes that were to be copied to the other side: launchers would refuse every migration within the cluster for them.',
    when: (facts) => isSourceEnd(facts) && announcedState(facts)?.failed === true && listsCopies(facts),
    plan: () => does([{ step: 'forgetCopies' }]),
  },
  {
    name: 'target-left',
    why: 'The migration has failed and its target pod is still there: it is deleted, so that the VMI may migrate again.',
    when: (facts) => isLeft(facts) && !isTidying(facts),
    plan: (facts) => ({ ...does(deletionOf(facts, 'the migration has failed')), requeueAfterMs: goneMs }),
  },
  {
    name: 'unrecorded-left',
    why: 'A pod says that it is the target, and no record knows it: a controller made it and ended before it could record it. It is deleted.',
    when: (facts) => !isTidying(facts) && facts.leftovers.some((pod) => !isBeingDeleted(pod)),
    plan: ({ leftovers }) => {
      const pods = leftovers.filter((pod) => !isBeingDeleted(pod));
      const steps = pods.map((pod) => ({ step: 'deleteTargetPod', pod, why: 'the migration is over' }) as const);
      return { ...does(steps), requeueAfterMs: goneMs };
    },
  },
  {
    name: 'attachments-left',
    why: 'Pods still bring plugged volumes to launchers that the guest has left: they are deleted.',
    when: (facts) => !isTidying(facts) && facts.plugged.left.length > 0,
    plan: ({ plugged }) => ({
      ...does([{ step: 'deleteAttachments', pods: plugged.left }]),
      requeueAfterMs: goneMs,
    }),
  },
  // Behind what cleans up, which must not wait for a retry that cannot be made; before what only waits.
  ...retryRules,
  {
    name: 'target-tidies-up',
    why: "The migration has failed; the target's agent lets go of what it prepared before the pod is deleted.",
    when: isTidying,
    plan: (facts) => waits(tidyingLeftMs(facts)),
  },
  {
    name: 'older-ones',
    why: 'Of the migrations of a VMI that are over the newest five are kept.',
    when: ({ superseded }) => superseded.length > 0,
    plan: ({ superseded }) => ({ steps: [{ step: 'collect', superseded }], change: { kind: 'release' } }),
  },
  {
    name: 'over-tried-again',
    why: 'A loss ended the migration before its guest had moved, and another migration tries it again, once.',
    when: ({ migration }) => isTriedAgain(migration),
    plan: () => ({ steps: [], change: { kind: 'release' } }),
  },
];

export const ended = {
  name: 'over',
  why: 'The migration is over; it keeps what the VMI says of it.',
  plan: () => ({ steps: [], change: { kind: 'release' } as const }),
};

/** Upstream says the first of whatever ended it. */
function failureOf({ migration }: Facts): string {
  const { reason = '', message } = findCondition(migration.status?.conditions, failedCondition) ?? {};
  return message === undefined || reason.startsWith('TargetPod') ? 'Target pod is down' : message;
}

const listsCopies = ({ vmi }: Facts) => listOf(vmi?.status?.migratedVolumes).length > 0;

function isLeft(facts: Facts): boolean {
  const pod = targetPod(facts);
  if (phaseOf(facts) !== 'Failed' || !pod || isBeingDeleted(pod) || podFacts.isFinal(pod)) return false;
  return !mayHoldGuest(facts, pod);
}

function isTidying(facts: Facts): boolean {
  return isLeft(facts) && tidyingLeftMs(facts) > 0;
}

/** Never more than the limit: the agent that stamped the end may have another clock. */
function tidyingLeftMs(facts: Facts): number {
  const { vmi, now } = facts;
  const target = vmi?.metadata.labels?.[labels.migrationTargetNodeName];
  const node = targetPod(facts)?.spec.nodeName;
  const end = Date.parse(ownState(facts)?.endTimestamp ?? '');
  if (target === undefined || target !== node || Number.isNaN(end)) return 0;
  return Math.min(tidyingMs, end + tidyingMs - now.getTime());
}
