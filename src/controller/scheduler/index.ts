/**
 * Owns: binding launcher pods to nodes where no kube-scheduler runs.
 * Must not know: VMIs, VMs.
 */
export type { SchedulableNode } from './fit.ts';
export { StandaloneScheduler } from './scheduler.ts';
