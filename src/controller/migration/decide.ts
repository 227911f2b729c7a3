import { isFinalMigration, type Pod, type VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { decideBy, longerPause, type Rule, ruleTable } from '../../reconcile/index.ts';
import { once, unclearPauses } from '../reconciling.ts';
import { agentRules, agentsTurn } from './agent-rules.ts';
import { attachmentRules } from './attachment-rules.ts';
import { pendingRules, waitingRules } from './before-target-rules.ts';
import { beginRules } from './begin-rules.ts';
import { isTargetEnd } from './decentralised-facts.ts';
import { brokenLinkRules, decentralisedFailureRules, decentralisedRules } from './decentralised-rules.ts';
import { ended, endedRules } from './ended-rules.ts';
import { targetPod } from './facts.ts';
import { failureRules } from './failure-rules.ts';
import type { AbsentMigration, MigrationFacts, MigrationObservation, UnclearMigration } from './observation.ts';
import { type Facts, type MigrationDecision, type MigrationPlan, type NewPod, waits } from './plan.ts';
import { targetRules } from './target-rules.ts';

/** Both throw PodRenderError. */
export interface Renderers {
  /** The pod to move to; `sourcePod`: undefined for a guest of another VMI object. */
  readonly target: (facts: MigrationFacts, vmi: VirtualMachineInstance, sourcePod: Pod | undefined) => Pod;
  /** The one that brings plugged volumes to it. */
  readonly attachment: (facts: MigrationFacts, vmi: VirtualMachineInstance, target: Pod) => Pod;
}

const endedTable = ruleTable<Facts, MigrationPlan>(endedRules, ended);
const openRules = [
  ...decentralisedFailureRules,
  ...failureRules,
  ...beginRules,
  ...pendingRules,
  ...decentralisedRules,
  ...waitingRules,
  ...attachmentRules,
  ...targetRules,
  ...agentRules,
  ...brokenLinkRules,
];
const openTable = ruleTable<Facts, MigrationPlan>(openRules, agentsTurn);

const absentTable = ruleTable<AbsentMigration, MigrationPlan>([], {
  name: 'migration-gone',
  why: 'There is no migration of this name.',
  plan: () => waits(),
});

const unclearTable = ruleTable<UnclearMigration, MigrationPlan>([], {
  name: 'api-without-answer',
  why: 'The API server did not say what a decision about the migration depends on; it is asked again.',
  plan: (unclear) => ({
    ...waits(longerPause(unclear, 'api-without-answer', unclearPauses)),
    problem: unclear.reason,
  }),
});

/** Names and sentences of all rules. */
export const migrationRules: readonly Pick<Rule<never, unknown>, 'name' | 'why'>[] = [
  ...openTable.rules,
  ...endedTable.rules,
  ...absentTable.rules,
  ...unclearTable.rules,
];

export function decideMigration(observation: MigrationObservation, renderers: Renderers): MigrationDecision {
  switch (observation.kind) {
    case 'absent':
      return decideBy(absentTable, observation);
    case 'unclear':
      return decideBy(unclearTable, observation);
    case 'present': {
      const newPod = once(() => rendered(observation, renderers));
      const facts = { ...observation, newPod, newAttachment: once(() => renderedAttachment(observation, renderers)) };
      return decideBy(isFinalMigration(observation.migration) ? endedTable : openTable, facts);
    }
    default:
      return observation satisfies never;
  }
}

/** As it is made once the VMI has the user that new launchers have. */
function rendered(facts: MigrationFacts, { target }: Renderers): NewPod {
  const { vmi, sourcePod, config } = facts;
  if (!vmi || (!sourcePod && !isTargetEnd(facts)))
    return { kind: 'problem', problem: 'the pod that the guest is in is not known' };
  const status = { ...vmi.status, runtimeUser: config.runtimeUser };
  return tried(() => target(facts, { ...vmi, status }, sourcePod));
}

function renderedAttachment(facts: MigrationFacts, { attachment }: Renderers): NewPod {
  const { vmi } = facts;
  const target = targetPod(facts);
  if (!vmi || !target) return { kind: 'problem', problem: 'the target pod is not known' };
  return tried(() => attachment(facts, vmi, target));
}

function tried(make: () => Pod): NewPod {
  try {
    return { kind: 'made', pod: make() };
  } catch (error) {
    return { kind: 'problem', problem: errorMessage(error) };
  }
}
