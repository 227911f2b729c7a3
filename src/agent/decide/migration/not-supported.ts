import type { Facts } from '../facts.ts';
import type { Plan } from '../rule.ts';

const migrationUidOf = ({ vmi }: Facts) => vmi?.status?.migrationState?.migrationUid ?? '';

export const isUntold = (facts: Facts) => facts.observation.memory.toldMigrationUid !== migrationUidOf(facts);

export function tell(facts: Facts): Plan {
  const message =
    'live migration is not supported by this node agent yet; the guest goes on where it runs. ' +
    'Delete the VirtualMachineInstanceMigration object; to move the VM, stop it and start it on another node.';
  return {
    steps: [],
    requeueAfterMs: 0,
    remember: { toldMigrationUid: migrationUidOf(facts) },
    events: [{ type: 'Warning', reason: 'MigrationNotSupported', message }],
  };
}
