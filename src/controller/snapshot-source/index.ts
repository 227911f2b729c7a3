/**
 * Owns: what snapshots and restores of VMs share: which claims a VM's volumes are on and whether VolumeSnapshots of them can be made, how a VM is
 * marked while something is under way with it, how its guest is frozen, deadlines, and how statuses are stored.
 * Must not know: snapshots' phases, what is decided about any of it.
 */
export { claimOfSnapshot } from './claim-of-snapshot.ts';
export { SnapshotClasses } from './classes.ts';
export { type SaidConditions, withSaid } from './conditions.ts';
export { cutName, labelValue } from './cut-names.ts';
export { failureDeadlineMs, isEnding, isSnapshotOver, msUntilDeadline } from './deadline.ts';
export { canFreeze, freeze, freezeLimit, type GuestFacts, guestOf, noGuest, orderGuest, thaw, vmiOf } from './guest.ts';
export { holdOf, lostHolds } from './restore-holds.ts';
export { copyRevision } from './revision-copies.ts';
export { revisionNames } from './revision-names.ts';
export { setFinalizer, storeStatus } from './status-write.ts';
export { isLockedBy, markOf, setMark, setSourceFinalizer } from './vm-marks.ts';
export { VolumeSnapshotStatuses, vmsByClaim, volumeIndexes } from './volume-statuses.ts';
export {
  keepsState,
  leftOutOf,
  stateBackupOf,
  type VolumeDeps,
  type VolumeFacts,
  volumeFacts,
  volumesOf,
  volumesOfContent,
  volumesOfVm,
} from './volumes.ts';
