import { findCondition } from './conditions.ts';
import type { Condition, KubeObject } from './kubernetes.ts';
import { annotations } from './labels.ts';
import type { MigrationState, VirtualMachineInstance } from './vmi.ts';

/** Upstream's phases in their order (`staging/src/kubevirt.io/api/core/v1/types.go`), without those between clusters. */
export const migrationPhases = [
  '',
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
  [field: string]: unknown;
}

export interface VirtualMachineInstanceMigration extends KubeObject {
  spec: {
    vmiName?: string;
    addedNodeSelector?: Record<string, string>;
    priority?: MigrationPriority;
    /** Of migrations between clusters or namespaces. */
    sendTo?: unknown;
    receive?: unknown;
    [field: string]: unknown;
  };
  status?: MigrationStatus;
}

export function isFinalMigration({ status }: Pick<VirtualMachineInstanceMigration, 'status'>): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

/** It has no target pod on record yet. */
export function isWaitingMigration({ status }: Pick<VirtualMachineInstanceMigration, 'status'>): boolean {
  return !status?.phase || status.phase === 'Pending';
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

/** Why the VMI cannot migrate, in the words of upstream's webhook for new migrations; undefined: nothing says that it cannot. */
export function migrationRefusal({ status }: VirtualMachineInstance): string | undefined {
  const found = findCondition(status?.conditions, 'LiveMigratable');
  if (found?.status !== 'False') return undefined;
  return `Cannot migrate VMI, Reason: ${found.reason ?? ''}, Message: ${found.message ?? ''}`;
}

/** Says that it can; without the condition nothing is known. */
export function isMigratable({ status }: VirtualMachineInstance): boolean {
  return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
}
