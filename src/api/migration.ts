import { findCondition } from './conditions.ts';
import type { Condition, KubeObject } from './kubernetes.ts';
import { annotations } from './labels.ts';
import type { MigrationState, VirtualMachineInstance } from './vmi.ts';

/**
 * Upstream's phases in their order (`staging/src/kubevirt.io/api/core/v1/types.go`). The second and the third are of migrations between two VMI
 * objects: the target's and the source's object wait there until the other side is known.
 */
export const migrationPhases = [
  '',
  'WaitingForSync',
  'Synchronizing',
  'Pending',
  'Scheduling',
  'Scheduled',
  'PreparingTarget',
  'TargetReady',
  'Running',
  'Succeeded',
  'Failed',
] as const;

export type MigrationPhase = (typeof migrationPhases)[number];

export type MigrationPriority = 'system-critical' | 'user-triggered' | 'system-maintenance';

export interface MigrationStatus {
  phase?: MigrationPhase;
  conditions?: Condition[];
  phaseTransitionTimestamps?: { phase: MigrationPhase; phaseTransitionTimestamp: string }[];
  /** While it waits: only the pod that the guest is in; in the end a copy of the VMI's. */
  migrationState?: MigrationState;
  /** Where the synchronization controllers of this cluster are, for those who write `connectURL`. */
  synchronizationAddresses?: string[];
  [field: string]: unknown;
}

export interface VirtualMachineInstanceMigration extends KubeObject {
  spec: {
    vmiName?: string;
    addedNodeSelector?: Record<string, string>;
    priority?: MigrationPriority;
    /** Of a migration between two VMI objects: this is its source … */
    sendTo?: { migrationID?: string; connectURL?: string };
    /** … and this its target; both have an object of their own, and the same ID. */
    receive?: { migrationID?: string };
    [field: string]: unknown;
  };
  status?: MigrationStatus;
}

export function isFinalMigration({ status }: Pick<VirtualMachineInstanceMigration, 'status'>): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

/** It has no target pod on record yet. */
export function isWaitingMigration({ status }: Pick<VirtualMachineInstanceMigration, 'status'>): boolean {
  return !status?.phase || ['WaitingForSync', 'Synchronizing', 'Pending'].includes(status.phase);
}

/** Which end of a migration between two VMI objects an object is; undefined: it moves its VMI within the cluster. */
export function migrationEnd({
  spec: { sendTo, receive },
}: Pick<VirtualMachineInstanceMigration, 'spec'>): 'source' | 'target' | undefined {
  if (sendTo) return 'source';
  return receive ? 'target' : undefined;
}

/** Condition of a migration that a loss has ended before its guest had moved: whether it is tried again. */
export const retryCondition = 'migrationRetry';

const longestName = 253;

/** Name of the migration that tries this one again. It follows from this one alone, so that two controllers make one object. */
export function retryNameOf({
  metadata: { name, uid = '' },
}: Pick<VirtualMachineInstanceMigration, 'metadata'>): string {
  const end = `-retry-${uid.slice(0, 8)}`;
  return `${name.slice(0, longestName - end.length).replace(/\.$/, '')}${end}`;
}

/** Name of the migration that this one tries again; undefined: it is none of those. */
export function retriedBy({ metadata }: Pick<VirtualMachineInstanceMigration, 'metadata'>): string | undefined {
  return metadata.annotations?.[annotations.migrationRetryOf];
}

/** A loss has ended it, and another migration tries it again, or will in a moment. */
export function isTriedAgain({ status }: Pick<VirtualMachineInstanceMigration, 'status'>): boolean {
  return status?.phase === 'Failed' && findCondition(status.conditions, retryCondition)?.status === 'True';
}

/**
 * Why the VMI cannot migrate, in the words of upstream's webhook for new migrations; undefined: nothing says that it cannot. Between two VMI objects
 * disks are copied, so that they need not be shared.
 */
export function migrationRefusal(
  { status }: VirtualMachineInstance,
  migration?: Pick<VirtualMachineInstanceMigration, 'spec'>,
): string | undefined {
  const found = findCondition(status?.conditions, 'LiveMigratable');
  if (found?.status !== 'False') return undefined;
  if (migration && migrationEnd(migration) && found.reason === 'DisksNotLiveMigratable') return undefined;
  return `Cannot migrate VMI, Reason: ${found.reason ?? ''}, Message: ${found.message ?? ''}`;
}

/** Says that it can; without the condition nothing is known. */
export function isMigratable({ status }: VirtualMachineInstance): boolean {
  return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
}
