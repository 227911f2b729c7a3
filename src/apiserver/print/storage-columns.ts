import type { Column } from '../api-type.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import { ageAt, ageColumn, ageDateColumn, atPath, column, nameColumn, wide } from './column.ts';

const shortModes: Readonly<Record<string, string>> = {
  ReadWriteOnce: 'RWO',
  ReadOnlyMany: 'ROX',
  ReadWriteMany: 'RWX',
  ReadWriteOncePod: 'RWOP',
};

function modesAt(object: ApiObject, ...path: readonly string[]): string {
  const modes = at(object, ...path);
  if (!Array.isArray(modes)) return '';
  return modes
    .filter((mode) => typeof mode === 'string')
    .map((mode) => shortModes[mode] ?? mode)
    .join(',');
}

function phaseOf(object: ApiObject): string {
  return object.metadata.deletionTimestamp ? 'Terminating' : (stringAt(object, 'status', 'phase') ?? '');
}

const isBound = (claim: ApiObject) => Boolean(stringAt(claim, 'spec', 'volumeName'));
const volumeMode = wide('VolumeMode', (object) => stringAt(object, 'spec', 'volumeMode') ?? '<unset>');

export const claimColumns: readonly Column[] = [
  nameColumn,
  column('Status', phaseOf),
  column('Volume', atPath('spec', 'volumeName')),
  column('Capacity', (claim, now) => (isBound(claim) ? atPath('status', 'capacity', 'storage')(claim, now) : '')),
  column('Access Modes', (claim) => (isBound(claim) ? modesAt(claim, 'status', 'accessModes') : '')),
  column('StorageClass', atPath('spec', 'storageClassName')),
  ageColumn,
  volumeMode,
];

export const volumeColumns: readonly Column[] = [
  nameColumn,
  column('Capacity', atPath('spec', 'capacity', 'storage')),
  column('Access Modes', (volume) => modesAt(volume, 'spec', 'accessModes')),
  column('Reclaim Policy', atPath('spec', 'persistentVolumeReclaimPolicy')),
  column('Status', phaseOf),
  column('Claim', (volume) => {
    const name = stringAt(volume, 'spec', 'claimRef', 'name');
    return name ? `${stringAt(volume, 'spec', 'claimRef', 'namespace') ?? ''}/${name}` : '';
  }),
  column('StorageClass', atPath('spec', 'storageClassName')),
  column('Reason', atPath('status', 'reason')),
  ageColumn,
  volumeMode,
];

const defaultClass = 'storageclass.kubernetes.io/is-default-class';

export const storageClassColumns: readonly Column[] = [
  {
    ...nameColumn,
    cell: ({ metadata }) =>
      metadata.annotations?.[defaultClass] === 'true' ? `${metadata.name} (default)` : metadata.name,
  },
  column('Provisioner', atPath('provisioner')),
  column('ReclaimPolicy', (object) => stringAt(object, 'reclaimPolicy') ?? 'Delete'),
  column('VolumeBindingMode', (object) => stringAt(object, 'volumeBindingMode') ?? '<unset>'),
  column('AllowVolumeExpansion', (object) => String(at(object, 'allowVolumeExpansion') === true)),
  ageColumn,
];

/** Those of the external snapshotter's CRDs (client/config/crd of kubernetes-csi/external-snapshotter). */
export const snapshotColumns: readonly Column[] = [
  nameColumn,
  column('ReadyToUse', atPath('status', 'readyToUse'), { type: 'boolean' }),
  column('SourcePVC', atPath('spec', 'source', 'persistentVolumeClaimName')),
  column('SourceSnapshotContent', atPath('spec', 'source', 'volumeSnapshotContentName')),
  column('RestoreSize', atPath('status', 'restoreSize')),
  column('SnapshotClass', atPath('spec', 'volumeSnapshotClassName')),
  column('SnapshotContent', atPath('status', 'boundVolumeSnapshotContentName')),
  column('CreationTime', ageAt('status', 'creationTime'), { type: 'date' }),
  ageDateColumn,
];

export const snapshotContentColumns: readonly Column[] = [
  nameColumn,
  column('ReadyToUse', atPath('status', 'readyToUse'), { type: 'boolean' }),
  column('RestoreSize', atPath('status', 'restoreSize'), { type: 'integer' }),
  column('DeletionPolicy', atPath('spec', 'deletionPolicy')),
  column('Driver', atPath('spec', 'driver')),
  column('VolumeSnapshotClass', atPath('spec', 'volumeSnapshotClassName')),
  column('VolumeSnapshot', atPath('spec', 'volumeSnapshotRef', 'name')),
  column('VolumeSnapshotNamespace', atPath('spec', 'volumeSnapshotRef', 'namespace')),
  ageDateColumn,
];

export const snapshotClassColumns: readonly Column[] = [
  nameColumn,
  column('Driver', atPath('driver')),
  column('DeletionPolicy', atPath('deletionPolicy')),
  ageDateColumn,
];
