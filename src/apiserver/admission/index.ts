/**
 * Owns: the defaults that objects get and the checks they must pass, a file per kind; pure functions.
 * Must not know: who calls them, the store, HTTP, that there are other kinds.
 */
export { configMapAdmission, namespaceAdmission, secretAdmission, serviceAdmission } from './core-objects.ts';
export { dataSourceAdmission, dataVolumeAdmission } from './data-volume.ts';
export { instancetypeAdmission, preferenceAdmission } from './instancetype.ts';
export { validateMetadata } from './metadata.ts';
export { migrationAdmission } from './migration.ts';
export { migrationPolicyAdmission } from './migration-policy.ts';
export { podAdmission, podGraceSeconds } from './pods.ts';
export { poolAdmission } from './pool.ts';
export { replicaSetAdmission } from './replica-set.ts';
export {
  claimAdmission,
  snapshotAdmission,
  snapshotClassAdmission,
  snapshotContentAdmission,
  storageClassAdmission,
  volumeAdmission,
} from './storage.ts';
export { vmAdmission } from './vm.ts';
export { vmBackupAdmission, vmBackupTrackerAdmission } from './vm-backup.ts';
export { vmCloneAdmission } from './vm-clone.ts';
export { vmExportAdmission } from './vm-export.ts';
export { vmRestoreAdmission, vmSnapshotAdmission } from './vm-snapshot.ts';
export { vmiAdmission } from './vmi.ts';
