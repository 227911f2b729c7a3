/**
 * Owns: a VMI from its creation to the hand-over to the node's agent, and its end.
 * Must not know: VirtualMachines, but that one owns the VMI.
 */
export { VmiController } from './controller.ts';
export { vmiRules } from './decide.ts';
export { NewVmis } from './new-vmis.ts';
export { podIndexes, podsByVmi, vmiIndexes, vmisByClaim } from './observe.ts';
