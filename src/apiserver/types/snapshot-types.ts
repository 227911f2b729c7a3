import { snapshotAdmission, snapshotClassAdmission, snapshotContentAdmission } from '../admission/index.ts';
import type { ApiType } from '../api-type.ts';
import { snapshotClassColumns, snapshotColumns, snapshotContentColumns } from '../print/index.ts';
import { custom } from './kubevirt-types.ts';

const group = { group: 'snapshot.storage.k8s.io', version: 'v1', categories: [] };

/** Custom resources of the external snapshotter, which the node's storage acts on. */
export const snapshotTypes: readonly ApiType[] = [
  custom({
    ...group,
    resource: 'volumesnapshots',
    kind: 'VolumeSnapshot',
    shortNames: ['vs'],
    columns: snapshotColumns,
    admission: snapshotAdmission,
  }),
  custom({
    ...group,
    resource: 'volumesnapshotcontents',
    kind: 'VolumeSnapshotContent',
    namespaced: false,
    shortNames: ['vsc', 'vscs'],
    columns: snapshotContentColumns,
    admission: snapshotContentAdmission,
  }),
  custom({
    ...group,
    resource: 'volumesnapshotclasses',
    kind: 'VolumeSnapshotClass',
    namespaced: false,
    shortNames: ['vsclass', 'vsclasses'],
    statusSubresource: false,
    columns: snapshotClassColumns,
    admission: snapshotClassAdmission,
  }),
];
