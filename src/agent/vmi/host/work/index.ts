/**
 * Owns: the contract of hooks that do work on the node for a VMI, running them (order, deadlines, what is reported of each), and the
 * checkpoint per UID that survives the agent.
 * Must not know: which hooks there are and what they do; why a step was chosen; launchers' calls.
 */
export type * from './contract.ts';
export { HostWork } from './host-work.ts';
export { OrphanedHostWork } from './orphaned-host-work.ts';
