/**
 * Owns: a VirtualMachine, its VMI and the DataVolumes of its templates: run strategies, start failures, the status that users read.
 * Must not know: launcher pods, nodes.
 */
export { VmController } from './controller.ts';
export { vmIndexes, vmsByDataVolume } from './data-volume-facts.ts';
export { vmRules } from './decide.ts';
export { StartSpecs } from './start-revision.ts';
