/**
 * Owns: sharing of equal memory pages (KSM) on this node: when it is on, how fast it scans, the label that says so.
 * Must not know: VMIs, launchers, how a node is watched or patched (its deps).
 */
export { type KsmPatch, KsmService } from './ksm.ts';
export { KsmFiles } from './ksm-files.ts';
