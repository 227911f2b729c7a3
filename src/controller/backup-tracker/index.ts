/**
 * Owns: a VirtualMachineBackupTracker: whether the launcher of its VM knows the latest checkpoint, and that it is told of it after a start of the guest.
 * Must not know: how a backup is made, how a launcher keeps checkpoints.
 */
export { BackupTrackerController } from './controller.ts';
export { backupTrackerRules } from './decide.ts';
export { isAwaited, patchTracker } from './tracker.ts';
