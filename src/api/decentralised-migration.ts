import { annotations } from './labels.ts';
import type { MigrationState, VirtualMachineInstance } from './vmi.ts';

/**
 * A migration between two VMI objects, maybe of two clusters. An end lacks its own `syncAddress`, until the synchronization controller there
 * starts anew and writes it (rebuildConnectionsAndUpdateSyncAddress in pkg/synchronization-controller); upstream's own predicate, which asks for
 * exactly one address, takes the migration for an ordinary one from then on.
 */
export function isDecentralised(state: MigrationState | undefined): boolean {
  const { sourceState, targetState } = state ?? {};
  return Boolean(sourceState && targetState && (sourceState.syncAddress || targetState.syncAddress));
}

/** The guest leaves this VMI object, and the other side is ready for it: only then is it known. Never of a migration within a cluster. */
export function isMigrationSource({ status, metadata }: Pick<VirtualMachineInstance, 'status' | 'metadata'>): boolean {
  const { sourceState, targetState } = status?.migrationState ?? {};
  const { virtualMachineInstanceUID: source = metadata.uid } = sourceState ?? {};
  return Boolean(targetState?.syncAddress && targetState.nodeAddress) && source === metadata.uid;
}

/** The guest has left this VMI object: it goes on elsewhere, and must not start here again. */
export function hasLeftForElsewhere(vmi: Pick<VirtualMachineInstance, 'status' | 'metadata'>): boolean {
  const { completed, failed } = vmi.status?.migrationState ?? {};
  return isMigrationSource(vmi) && completed === true && failed !== true;
}

/** Made to receive a guest of another VMI object. The agent takes the annotation away when the guest has arrived. */
export function isMigrationTarget({ metadata }: Pick<VirtualMachineInstance, 'metadata'>): boolean {
  return metadata.annotations?.[annotations.createMigrationTarget] === 'true';
}
