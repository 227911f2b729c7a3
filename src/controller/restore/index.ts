/**
 * Owns: a VirtualMachineRestore: claims that begin with VolumeSnapshots, the VM that comes back to what it was, what of it is taken away then.
 * Must not know: how a snapshot is taken, how a VM runs.
 */
export { RestoreController } from './controller.ts';
export { restoreRules } from './decide.ts';
