/**
 * Owns: a VirtualMachinePool and its VMs: how many there are, which of them go, what stays of them, how a new template reaches them and their guests.
 * Must not know: launcher pods, nodes, how a VM runs.
 */
export { PoolController } from './controller.ts';
export { poolRules } from './decide.ts';
