/**
 * Owns: a VirtualMachineClone: the snapshot and the restore that make it, what is another one's own in the new VM.
 * Must not know: how a snapshot is taken or restored.
 */
export { CloneController } from './controller.ts';
export { cloneRules } from './decide.ts';
