/**
 * Owns: a VirtualMachineSnapshotContent and its VolumeSnapshots: when the guest is frozen and thawed, when all of them have been taken.
 * Must not know: how the VM is locked, phases and deadlines of the snapshot beyond whether it is ending, restores.
 */
export { SnapshotContentController } from './controller.ts';
export { snapshotContentRules } from './decide.ts';
