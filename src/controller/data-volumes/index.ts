/**
 * Owns: what is known of the DataVolumes that fill claims, followed from the first such claim on.
 * Must not know: VMIs, VMs, what is done about it.
 */
export { type ClaimFilling, DataVolumes, type FillingState } from './data-volumes.ts';
