import {
  instancetypeAdmission,
  migrationAdmission,
  migrationPolicyAdmission,
  poolAdmission,
  preferenceAdmission,
  replicaSetAdmission,
  vmAdmission,
  vmBackupAdmission,
  vmBackupTrackerAdmission,
  vmCloneAdmission,
  vmExportAdmission,
  vmiAdmission,
  vmRestoreAdmission,
  vmSnapshotAdmission,
} from '../admission/index.ts';
import type { ApiType, Subresource } from '../api-type.ts';
import {
  kubevirtColumns,
  migrationColumns,
  plainCustomColumns,
  replicaColumns,
  vmBackupColumns,
  vmBackupTrackerColumns,
  vmCloneColumns,
  vmColumns,
  vmExportColumns,
  vmiColumns,
  vmRestoreColumns,
  vmSnapshotColumns,
  vmSnapshotContentColumns,
} from '../print/index.ts';

type Given = Partial<ApiType> & Pick<ApiType, 'resource' | 'kind'>;

export function custom(given: Given): ApiType {
  return {
    group: 'kubevirt.io',
    version: 'v1',
    namespaced: true,
    singular: given.kind.toLowerCase(),
    shortNames: [],
    categories: ['all'],
    custom: true,
    statusSubresource: true,
    statusOnCreate: 'dropped',
    subresources: [],
    readOnly: false,
    unconditionalUpdate: false,
    fields: [],
    nameRule: 'subdomain',
    gracePeriodSeconds: undefined,
    strategic: undefined,
    columns: plainCustomColumns,
    admission: {},
    ...given,
  };
}

/** Both have no status. */
function instancetype(given: Given): ApiType {
  return custom({ group: 'instancetype.kubevirt.io', version: 'v1beta1', statusSubresource: false, ...given });
}

function vmSnapshot(given: Given): ApiType {
  return custom({ group: 'snapshot.kubevirt.io', version: 'v1beta1', ...given });
}

function vmBackup(given: Given): ApiType {
  return custom({ group: 'backup.kubevirt.io', version: 'v1alpha1', ...given });
}

const scale: Subresource = {
  name: 'scale',
  group: 'autoscaling',
  version: 'v1',
  kind: 'Scale',
  verbs: ['get', 'patch', 'update'],
};

/** Custom resources of KubeVirt (`pkg/virt-operator/resource/generate/components/crds.go`) that something here acts on, or that the agent reads. */
export const kubevirtTypes: readonly ApiType[] = [
  custom({
    resource: 'virtualmachineinstances',
    kind: 'VirtualMachineInstance',
    shortNames: ['vmi', 'vmis'],
    // Upstream's definition has none: any writer of the object writes its status.
    statusSubresource: false,
    statusOnCreate: 'kept',
    columns: vmiColumns,
    admission: vmiAdmission,
  }),
  custom({
    resource: 'virtualmachines',
    kind: 'VirtualMachine',
    shortNames: ['vm', 'vms'],
    columns: vmColumns,
    admission: vmAdmission,
  }),
  custom({
    resource: 'virtualmachineinstancemigrations',
    kind: 'VirtualMachineInstanceMigration',
    shortNames: ['vmim', 'vmims'],
    columns: migrationColumns,
    admission: migrationAdmission,
  }),
  custom({
    resource: 'virtualmachineinstancereplicasets',
    kind: 'VirtualMachineInstanceReplicaSet',
    shortNames: ['vmirs', 'vmirss'],
    subresources: [scale],
    columns: replicaColumns,
    admission: replicaSetAdmission,
  }),
  custom({
    group: 'pool.kubevirt.io',
    version: 'v1beta1',
    resource: 'virtualmachinepools',
    kind: 'VirtualMachinePool',
    shortNames: ['vmpool', 'vmpools'],
    subresources: [scale],
    columns: replicaColumns,
    admission: poolAdmission,
  }),
  custom({ resource: 'kubevirts', kind: 'KubeVirt', shortNames: ['kv', 'kvs'], columns: kubevirtColumns }),
  instancetype({
    resource: 'virtualmachineinstancetypes',
    kind: 'VirtualMachineInstancetype',
    shortNames: ['vminstancetype', 'vminstancetypes', 'vmf', 'vmfs'],
    admission: instancetypeAdmission,
  }),
  instancetype({
    resource: 'virtualmachineclusterinstancetypes',
    kind: 'VirtualMachineClusterInstancetype',
    namespaced: false,
    shortNames: ['vmclusterinstancetype', 'vmclusterinstancetypes', 'vmcf', 'vmcfs'],
    categories: [],
    admission: instancetypeAdmission,
  }),
  instancetype({
    resource: 'virtualmachinepreferences',
    kind: 'VirtualMachinePreference',
    shortNames: ['vmpref', 'vmprefs', 'vmp', 'vmps'],
    admission: preferenceAdmission,
  }),
  instancetype({
    resource: 'virtualmachineclusterpreferences',
    kind: 'VirtualMachineClusterPreference',
    namespaced: false,
    shortNames: ['vmcp', 'vmcps'],
    categories: [],
    admission: preferenceAdmission,
  }),
  custom({
    group: 'migrations.kubevirt.io',
    version: 'v1alpha1',
    resource: 'migrationpolicies',
    kind: 'MigrationPolicy',
    namespaced: false,
    admission: migrationPolicyAdmission,
  }),
  vmSnapshot({
    resource: 'virtualmachinesnapshots',
    kind: 'VirtualMachineSnapshot',
    shortNames: ['vmsnapshot', 'vmsnapshots'],
    columns: vmSnapshotColumns,
    admission: vmSnapshotAdmission,
  }),
  vmSnapshot({
    resource: 'virtualmachinesnapshotcontents',
    kind: 'VirtualMachineSnapshotContent',
    shortNames: ['vmsnapshotcontent', 'vmsnapshotcontents'],
    columns: vmSnapshotContentColumns,
  }),
  vmSnapshot({
    resource: 'virtualmachinerestores',
    kind: 'VirtualMachineRestore',
    shortNames: ['vmrestore', 'vmrestores'],
    columns: vmRestoreColumns,
    admission: vmRestoreAdmission,
  }),
  custom({
    group: 'clone.kubevirt.io',
    version: 'v1beta1',
    resource: 'virtualmachineclones',
    kind: 'VirtualMachineClone',
    shortNames: ['vmclone', 'vmclones'],
    columns: vmCloneColumns,
    admission: vmCloneAdmission,
  }),
  custom({
    group: 'export.kubevirt.io',
    resource: 'virtualmachineexports',
    kind: 'VirtualMachineExport',
    shortNames: ['vmexport', 'vmexports'],
    columns: vmExportColumns,
    admission: vmExportAdmission,
  }),
  vmBackup({
    resource: 'virtualmachinebackups',
    kind: 'VirtualMachineBackup',
    shortNames: ['vmbackup', 'vmbackups'],
    columns: vmBackupColumns,
    admission: vmBackupAdmission,
  }),
  vmBackup({
    resource: 'virtualmachinebackuptrackers',
    kind: 'VirtualMachineBackupTracker',
    shortNames: ['vmbackuptracker', 'vmbackuptrackers'],
    columns: vmBackupTrackerColumns,
    admission: vmBackupTrackerAdmission,
  }),
];
