import { findCondition } from '../../api/index.ts';
import { inPhaseMs, isIn, isTargetReady, ownState, targetPod } from './facts.ts';
import { does, type Facts, goesTo, type MigrationRule, waits } from './plan.ts';

/** The target's agent has said nothing: nothing has moved yet, and nothing else can begin. */
const preparationMs = 300_000;
const recheckMs = 60_000;

/** From the hand-over on: what the agents report of it. */
export const agentRules: readonly MigrationRule[] = [
  {
    name: 'handed-over',
    why: 'The VMI names the target node: its agent prepares itself.',
    when: (facts) => isIn(facts, 'Scheduled') && ownState(facts)?.targetNode !== undefined,
    plan: () => goesTo('PreparingTarget'),
  },
  {
    name: 'hand-over',
    why: 'The target pod is ready: the VMI is shown to the agent of its node.',
    when: (facts) => isIn(facts, 'Scheduled') && isTargetReady(facts),
    plan: (facts) => {
      const pod = targetPod(facts);
      return pod ? does([{ step: 'handOver', pod }]) : waits(recheckMs);
    },
  },
  {
    name: 'target-prepared',
    why: "The target's agent is ready for the streams.",
    when: (facts) =>
      isIn(facts, 'PreparingTarget') && Boolean(ownState(facts)?.targetNode && ownState(facts)?.targetNodeAddress),
    plan: () => goesTo('TargetReady'),
  },
  {
    name: 'target-not-prepared',
    why: "The target's agent has said nothing for minutes: nothing has moved, and the migration is ended.",
    when: (facts) => isIn(facts, 'PreparingTarget') && inPhaseMs(facts) >= preparationMs,
    plan: () =>
      does([{ step: 'failState', reason: 'the agent of the target node did not prepare itself within five minutes' }]),
  },
  {
    name: 'moving',
    why: 'The guest is on its way.',
    when: (facts) => isIn(facts, 'TargetReady') && Boolean(ownState(facts)?.startTimestamp),
    plan: () => goesTo('Running'),
  },
  {
    name: 'resize-to-finish',
    why: 'The guest has arrived; CPUs or memory that came with the migration are plugged in first.',
    when: (facts) => isIn(facts, 'Running') && ownState(facts)?.completed === true && isResizing(facts),
    plan: () => waits(),
  },
  {
    name: 'arrived',
    why: 'The guest runs on its new node.',
    when: (facts) => isIn(facts, 'Running') && ownState(facts)?.completed === true,
    plan: () => ({
      ...goesTo('Succeeded'),
      events: [{ type: 'Normal', reason: 'SuccessfulMigration', message: 'Source node reported migration succeeded' }],
    }),
  },
];

/** What there is to do lies with the agents. */
export const agentsTurn = {
  name: 'agents-at-work',
  why: 'The agents of both nodes are at work; the VMI says how far they are.',
  plan: (facts: Facts) => waits(isIn(facts, 'PreparingTarget') ? preparationMs : undefined),
};

function isResizing({ vmi }: Facts): boolean {
  const conditions = vmi?.status?.conditions;
  const isTrue = (type: string) => findCondition(conditions, type)?.status === 'True';
  return (
    findCondition(conditions, 'HotVCPUChange') !== undefined || isTrue('HotMemoryChange') || isTrue('MigrationRequired')
  );
}
