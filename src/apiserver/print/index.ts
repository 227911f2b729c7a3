/**
 * Owns: tables, as `kubectl get` shows them: columns of each kind, ages, the metadata alone.
 * Must not know: the store, HTTP, how an object came to be as it is.
 */
export {
  configMapColumns,
  controllerRevisionColumns,
  crdColumns,
  endpointSliceColumns,
  endpointsColumns,
  eventColumns,
  leaseColumns,
  namespaceColumns,
  nodeColumns,
  secretColumns,
  serviceAccountColumns,
  serviceColumns,
} from './core-columns.ts';
export {
  dataVolumeColumns,
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
} from './kubevirt-columns.ts';
export { podColumns } from './pod-columns.ts';
export {
  claimColumns,
  snapshotClassColumns,
  snapshotColumns,
  snapshotContentColumns,
  storageClassColumns,
  volumeColumns,
} from './storage-columns.ts';
export { type IncludeObject, partialMetadata, toTable } from './table.ts';
