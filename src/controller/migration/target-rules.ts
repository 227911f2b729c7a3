import { findCondition } from '../../api/index.ts';
import { podFacts } from '../pod/index.ts';
import { isTargetEnd } from './decentralised-facts.ts';
import {
  isIn,
  isPending,
  isTargetReady,
  limitAnnotation,
  limitMs,
  ownState,
  pendingMs,
  targetPod,
  whyUnschedulable,
} from './facts.ts';
import { failsWithPod } from './failure-rules.ts';
import { type Facts, goesTo, type MigrationRule, unschedulableCondition, waits } from './plan.ts';

const unschedulableSeconds = 300;
const pendingSeconds = 900;
const recheckMs = 60_000;

/** The pod to move to: whether it gets a node, and starts in time. */
export const targetRules: readonly MigrationRule[] = [
  {
    name: 'target-on-source-node',
    why: 'The target pod was put on the node that the guest is on: the migration has failed at once.',
    when: (facts) => {
      const node = targetPod(facts)?.spec.nodeName;
      // The VMI that receives a guest is on the node of this pod.
      if (ownState(facts) !== undefined || isTargetEnd(facts)) return false;
      return node !== undefined && node === facts.vmi?.status?.nodeName;
    },
    plan: (facts) =>
      failsWithPod(
        facts,
        'TargetOnSourceNode',
        `the target pod was scheduled onto ${facts.vmi?.status?.nodeName}, where the VMI is already`,
      ),
  },
  {
    name: 'unschedulable-too-long',
    why: 'No node has taken the target pod for longer than a migration waits: it has failed with the words of the scheduler.',
    when: (facts) => isUnschedulable(facts) && pendingTooLong(facts, 'UnschedulablePod', unschedulableSeconds),
    plan: (facts) =>
      failsWithPod(
        facts,
        'Unschedulable',
        `unschedulable pod ${podName(facts)} timeout period exceeded: ${schedulersWords(facts)}`,
      ),
  },
  {
    name: 'pending-too-long',
    why: 'The target pod has not started for longer than a migration waits: it has failed.',
    when: (facts) => pendingTooLong(facts, 'PendingPod', pendingSeconds),
    plan: (facts) =>
      failsWithPod(
        facts,
        'PendingTooLong',
        `pending pod ${podName(facts)} timeout period exceeded${startProblem(facts)}`,
      ),
  },
  {
    name: 'unschedulable',
    why: 'No node takes the target pod; the scheduler says why, and it is waited for a while.',
    when: isUnschedulable,
    plan: (facts) => ({
      steps: [],
      change: {
        kind: 'condition',
        condition: {
          type: unschedulableCondition,
          status: 'True',
          reason: 'Unschedulable',
          message: schedulersWords(facts),
        },
      },
      events: newsOfScheduler(facts),
      requeueAfterMs: leftMs(facts, 'UnschedulablePod', unschedulableSeconds),
    }),
  },
  {
    name: 'target-there',
    why: 'The target pod is there, and the VMI has it on record.',
    when: (facts) => isPending(facts) && facts.target.kind === 'pod' && facts.target.isRecorded,
    plan: () => goesTo('Scheduling'),
  },
  {
    name: 'target-not-recorded',
    why: 'The target pod is there; it is waited until the VMI has it on record, so that no program takes it for a foreign one.',
    when: isPending,
    plan: () => waits(recheckMs),
  },
  {
    name: 'target-ready',
    why: 'The target pod runs.',
    when: (facts) => isIn(facts, 'Scheduling') && isTargetReady(facts),
    plan: () => goesTo('Scheduled'),
  },
  {
    name: 'target-starts',
    why: 'The target pod has a node and is being started there.',
    when: (facts) => isIn(facts, 'Scheduling'),
    plan: (facts) => waits(leftMs(facts, 'PendingPod', pendingSeconds)),
  },
];

function isUnschedulable(facts: Facts): boolean {
  const pod = targetPod(facts);
  return pod !== undefined && isIn(facts, 'Pending', 'Scheduling') && podFacts.isUnschedulable(pod);
}

function leftMs(facts: Facts, limit: string, seconds: number): number {
  const pod = targetPod(facts);
  const spentMs = (pod && pendingMs(pod, facts.now)) ?? 0;
  return Math.max(1_000, limitMs(facts, limitAnnotation(limit), seconds) - spentMs);
}

function pendingTooLong(facts: Facts, limit: string, seconds: number): boolean {
  const pod = targetPod(facts);
  const spentMs = pod && pendingMs(pod, facts.now);
  return (
    isIn(facts, 'Pending', 'Scheduling') &&
    spentMs !== undefined &&
    spentMs >= limitMs(facts, limitAnnotation(limit), seconds)
  );
}

function podName(facts: Facts): string {
  const { namespace, name } = targetPod(facts)?.metadata ?? {};
  return `${namespace}/${name}`;
}

function schedulersWords(facts: Facts): string {
  const pod = targetPod(facts);
  return (pod && whyUnschedulable(pod)) ?? '';
}

function newsOfScheduler({ migration, vmi, ...facts }: Facts) {
  const message = schedulersWords({ migration, vmi, ...facts });
  if (findCondition(migration.status?.conditions, unschedulableCondition)?.message === message) return [];
  const text = `Migration target pod for VMI [${vmi?.metadata.namespace}/${vmi?.metadata.name}] is currently unschedulable: ${message}`;
  return [{ type: 'Warning', reason: unschedulableCondition, message: text } as const];
}

/** In the kubelet's words, an image that cannot be pulled for example. */
function startProblem(facts: Facts): string {
  const statuses = targetPod(facts)?.status?.containerStatuses ?? [];
  const waiting = statuses.map(({ state }) => state?.waiting).find((each) => each?.message);
  return waiting ? `: ${waiting.reason}: ${waiting.message}` : '';
}
