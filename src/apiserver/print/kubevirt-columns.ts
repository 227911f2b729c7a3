import type { Column } from '../api-type.ts';
import { ageAt, ageDateColumn, atPath, column, conditionStatus, nameColumn, wide } from './column.ts';

/** Printer columns of upstream's CRDs, in upstream's order (`pkg/virt-operator/resource/generate/components/crds.go`). */
export const vmiColumns: readonly Column[] = [
  nameColumn,
  ageDateColumn,
  column('Phase', atPath('status', 'phase')),
  column('IP', atPath('status', 'interfaces', 0, 'ipAddress')),
  column('NodeName', atPath('status', 'nodeName')),
  column('Ready', conditionStatus('Ready')),
  wide('Live-Migratable', conditionStatus('LiveMigratable')),
  wide('Paused', conditionStatus('Paused')),
];

export const vmColumns: readonly Column[] = [
  nameColumn,
  ageDateColumn,
  column('Status', atPath('status', 'printableStatus')),
  column('Ready', conditionStatus('Ready')),
];

export const migrationColumns: readonly Column[] = [
  nameColumn,
  column('Phase', atPath('status', 'phase')),
  column('VMI', atPath('spec', 'vmiName')),
];

export const kubevirtColumns: readonly Column[] = [
  nameColumn,
  ageDateColumn,
  column('Phase', atPath('status', 'phase')),
];

export const replicaColumns: readonly Column[] = [
  nameColumn,
  column('Desired', atPath('spec', 'replicas'), { type: 'integer' }),
  column('Current', atPath('status', 'replicas'), { type: 'integer' }),
  column('Ready', atPath('status', 'readyReplicas'), { type: 'integer' }),
  ageDateColumn,
];

/** CDI's own (`pkg/apis/core/v1beta1/types.go` of its API). */
export const dataVolumeColumns: readonly Column[] = [
  nameColumn,
  column('Phase', atPath('status', 'phase')),
  column('Progress', atPath('status', 'progress')),
  column('Restarts', atPath('status', 'restartCount'), { type: 'integer' }),
  ageDateColumn,
];

export const vmSnapshotColumns: readonly Column[] = [
  nameColumn,
  column('SourceKind', atPath('spec', 'source', 'kind')),
  column('SourceName', atPath('spec', 'source', 'name')),
  column('Phase', atPath('status', 'phase')),
  column('ReadyToUse', atPath('status', 'readyToUse'), { type: 'boolean' }),
  column('CreationTime', ageAt('status', 'creationTime'), { type: 'date' }),
  column('Error', atPath('status', 'error', 'message')),
];

export const vmSnapshotContentColumns: readonly Column[] = [
  nameColumn,
  column('ReadyToUse', atPath('status', 'readyToUse'), { type: 'boolean' }),
  column('CreationTime', ageAt('status', 'creationTime'), { type: 'date' }),
  column('Error', atPath('status', 'error', 'message')),
];

export const vmRestoreColumns: readonly Column[] = [
  nameColumn,
  column('TargetKind', atPath('spec', 'target', 'kind')),
  column('TargetName', atPath('spec', 'target', 'name')),
  column('Complete', atPath('status', 'complete'), { type: 'boolean' }),
  column('RestoreTime', ageAt('status', 'restoreTime'), { type: 'date' }),
];

export const vmCloneColumns: readonly Column[] = [
  nameColumn,
  column('Phase', atPath('status', 'phase')),
  column('SourceVirtualMachine', atPath('spec', 'source', 'name')),
  column('TargetVirtualMachine', atPath('spec', 'target', 'name')),
];

export const vmExportColumns: readonly Column[] = [
  nameColumn,
  column('SourceKind', atPath('spec', 'source', 'kind')),
  column('SourceName', atPath('spec', 'source', 'name')),
  column('Phase', atPath('status', 'phase')),
];

export const vmBackupColumns: readonly Column[] = [
  nameColumn,
  column('SourceKind', atPath('spec', 'source', 'kind')),
  column('SourceName', atPath('spec', 'source', 'name')),
  column('Type', atPath('status', 'type')),
  column('CheckpointName', atPath('status', 'checkpointName')),
];

export const vmBackupTrackerColumns: readonly Column[] = [
  nameColumn,
  column('SourceKind', atPath('spec', 'source', 'kind')),
  column('SourceName', atPath('spec', 'source', 'name')),
  column('LatestCheckpoint', atPath('status', 'latestCheckpoint', 'name')),
  column('CheckpointTime', ageAt('status', 'latestCheckpoint', 'creationTime'), { type: 'date' }),
];

export const plainCustomColumns: readonly Column[] = [nameColumn, ageDateColumn];
