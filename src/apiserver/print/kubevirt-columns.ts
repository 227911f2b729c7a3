import type { Column } from '../api-type.ts';
import { ageDateColumn, atPath, column, conditionStatus, nameColumn, wide } from './column.ts';

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

export const plainCustomColumns: readonly Column[] = [nameColumn, ageDateColumn];
