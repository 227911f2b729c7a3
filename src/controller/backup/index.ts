/**
 * Owns: a VirtualMachineBackup: the claim that it is written to in the VM's launcher, its start and end in the guest, the checkpoint of its tracker.
 * Must not know: how a launcher copies disks; how a claim is plugged in.
 */
export { BackupController } from './controller.ts';
export { backupRules } from './decide.ts';
export { backedUpVms, backupTrackers } from './observe.ts';
