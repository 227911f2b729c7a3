/**
 * Owns: a VirtualMachineSnapshot: the lock of its VM, its content as it is made, its deadline, what its user reads of it.
 * Must not know: VolumeSnapshots, how a guest is frozen, restores.
 */
export { awaitedVms, SnapshotController } from './controller.ts';
export { snapshotRules } from './decide.ts';
