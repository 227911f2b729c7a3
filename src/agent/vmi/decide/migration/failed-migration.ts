import { annotations } from '../../../../api/index.ts';
import { rfc3339, shortened } from '../../../../base/index.ts';
import type { Facts } from '../facts.ts';
import type { VmiPatch } from '../rule.ts';

export interface MigrationFailure {
  /** For people: event and `failureReason`. */
  readonly reason: string;
  /** RFC 3339; now when absent. */
  readonly endTimestamp?: string;
  /** RFC 3339; only written where none is yet; now when absent. */
  readonly startTimestamp?: string;
  /** This node or its launcher does not want to: another try would end in the same way, so virt-controller makes none. */
  readonly isRefusal?: boolean;
  /** Further fields of `status.migrationState`. */
  readonly more?: Readonly<Record<string, unknown>>;
}

/** Bytes of launchers and other nodes end up in the VMI: a reason has room, a dump of something has not. */
const maxReasonLength = 1_024;

/**
 * Ends the VMI's present migration: nothing goes on and no waiter is left; the guest stays where it runs. The controller
 * reads it off the VMI and fails its VirtualMachineInstanceMigration (pkg/virt-controller/watch/migration/migration.go).
 */
export function failedMigration({ vmi, observation }: Facts, failure: MigrationFailure): VmiPatch {
  const state = vmi?.status?.migrationState;
  const now = rfc3339(observation.now);
  const reason = shortened(failure.reason, maxReasonLength);
  const message = `VirtualMachineInstance migration uid ${state?.migrationUid ?? ''} failed. reason:${reason}`;
  return {
    ...(failure.isRefusal && { annotations: { [annotations.migrationRefused]: state?.migrationUid ?? null } }),
    status: {
      migrationState: {
        ...(!state?.startTimestamp && { startTimestamp: failure.startTimestamp ?? now }),
        ...failure.more,
        endTimestamp: failure.endTimestamp ?? now,
        failed: true,
        completed: true,
        failureReason: reason,
      },
    },
    events: [{ type: 'Warning', reason: 'Migrated', message }],
  };
}

/** This node carries none at all, while an agent that leaves or a relay that is away is soon replaced. */
export const isRefusedForGood = ({ observation }: Facts): boolean => !observation.migrationProxies.supported;

/** Why this node cannot carry a migration now, for the user; undefined: it can. */
export function proxyRefusal({ observation }: Facts): string | undefined {
  const { unavailable } = observation.migrationProxies;
  if (unavailable === undefined) return undefined;
  return `node ${observation.nodeName}: ${unavailable}. The guest goes on where it runs; to move the VM, stop it and start it on another node`;
}
