/**
 * Owns: a VirtualMachine and its VMI: run strategies, start failures, the status that users read.
 * Must not know: launcher pods, nodes.
 */
export { VmController } from './controller.ts';
export { vmRules } from './decide.ts';
