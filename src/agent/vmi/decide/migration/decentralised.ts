import { isRecord } from '../../../../base/index.ts';
import type { Facts } from '../facts.ts';
import type { Plan } from '../rule.ts';
import { migrationUidOf } from './target-view.ts';

/**
 * A migration between two VMI objects, maybe of two clusters (pkg/synchronization-controller): exactly one side lacks its
 * `syncAddress`.
 */
export function isDecentralised({ vmi }: Facts): boolean {
  const { sourceState, targetState } = vmi?.status?.migrationState ?? {};
  if (!isRecord(sourceState) || !isRecord(targetState)) return false;
  return Boolean(sourceState.syncAddress) !== Boolean(targetState.syncAddress);
}

export const isUnreported = (facts: Facts) =>
  facts.observation.memory.reports.reportedMigrationUid !== migrationUidOf(facts);

export function reportDecentralised(facts: Facts): Plan {
  const message =
    'a migration to another cluster or namespace (sendTo, receive) is not supported by this node agent; nothing is done ' +
    'about it and the guest goes on where it runs. Delete the VirtualMachineInstanceMigration object; migrate within the ' +
    'cluster, or stop the VM and start it at the other place.';
  return {
    steps: [],
    requeueAfterMs: 0,
    remember: { reports: { reportedMigrationUid: migrationUidOf(facts) } },
    events: [{ type: 'Warning', reason: 'MigrationNotSupported', message }],
  };
}
