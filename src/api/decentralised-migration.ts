import { annotations } from './labels.ts';
import type { MigrationState, VirtualMachineInstance } from './vmi.ts';

/**
 * A migration between two VMI objects, maybe of two clusters: each side has `sourceState` and `targetState`, and knows by its own lack of a
 * `syncAddress` which of them it is (upstream: IsDecentralizedMigration in staging/src/kubevirt.io/api/core/v1/types.go).
 */
export function isDecentralised(state: MigrationState | undefined): boolean {
  const { sourceState, targetState } = state ?? {};
  if (!sourceState || !targetState) return false;
  return Boolean(sourceState.syncAddress) !== Boolean(targetState.syncAddress);
}

/** The guest leaves this VMI object, and the other side is ready for it: only then is it known. Never of a migration within a cluster. */
export function isMigrationSource({ status }: Pick<VirtualMachineInstance, 'status'>): boolean {
  const { syncAddress, nodeAddress } = status?.migrationState?.targetState ?? {};
  return Boolean(syncAddress) && nodeAddress !== undefined && nodeAddress !== null;
}

/** Made to receive a guest of another VMI object. The agent takes the annotation away when the guest has arrived. */
export function isMigrationTarget({ metadata }: Pick<VirtualMachineInstance, 'metadata'>): boolean {
  return metadata.annotations?.[annotations.createMigrationTarget] === 'true';
}
