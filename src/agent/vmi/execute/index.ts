/**
 * Owns: doing the steps of a plan, one idempotent function each; the VMI as launchers want it (claims as host disks).
 * Must not know: why a step was chosen, how the status is written.
 */
export { runPlan } from './executors.ts';
export { replaceClaimsByHostDisks } from './host-disks.ts';
