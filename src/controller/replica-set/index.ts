/**
 * Owns: a VirtualMachineInstanceReplicaSet and its VMIs: how many there are, which of them go, which are taken in and let go.
 * Must not know: launcher pods, nodes, VirtualMachines.
 */
export { ReplicaSetController } from './controller.ts';
export { replicaSetRules } from './decide.ts';
