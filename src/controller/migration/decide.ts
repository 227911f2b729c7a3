import { isFinalMigration, type Pod, type VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { decideBy, longerPause, type Rule, ruleTable } from '../../reconcile/index.ts';
import { once, unclearPauses } from '../reconciling.ts';
import { ended, endedRules } from './ended-rules.ts';
import { failureRules } from './failure-rules.ts';
import type { AbsentMigration, MigrationFacts, MigrationObservation, UnclearMigration } from './observation.ts';
import { agentsTurn, phaseRules } from './phase-rules.ts';
import { type Facts, type MigrationDecision, type MigrationPlan, type NewPod, waits } from './plan.ts';

/** The pod to move to. Throws PodRenderError. */
export type RenderTarget = (facts: MigrationFacts, vmi: VirtualMachineInstance, sourcePod: Pod) => Pod;

const endedTable = ruleTable<Facts, MigrationPlan>(endedRules, ended);
const openTable = ruleTable<Facts, MigrationPlan>([...failureRules, ...phaseRules], agentsTurn);

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

export function decideMigration(observation: MigrationObservation, render: RenderTarget): MigrationDecision {
  switch (observation.kind) {
    case 'absent':
      return decideBy(absentTable, observation);
    case 'unclear':
      return decideBy(unclearTable, observation);
    case 'present': {
      const facts = { ...observation, newPod: once(() => rendered(observation, render)) };
      return decideBy(isFinalMigration(observation.migration) ? endedTable : openTable, facts);
    }
    default:
      return observation satisfies never;
  }
}

/** As it is made once the VMI has the user that new launchers have. */
function rendered(facts: MigrationFacts, render: RenderTarget): NewPod {
  const { vmi, sourcePod, config } = facts;
  if (!vmi || !sourcePod) return { kind: 'problem', problem: 'the pod that the guest is in is not known' };
  try {
    const status = { ...vmi.status, runtimeUser: config.runtimeUser };
    return { kind: 'made', pod: render(facts, { ...vmi, status }, sourcePod) };
  } catch (error) {
    return { kind: 'problem', problem: errorMessage(error) };
  }
}
