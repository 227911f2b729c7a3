import { findCondition } from './conditions.ts';
import type { Condition, KubeObject } from './kubernetes.ts';
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
