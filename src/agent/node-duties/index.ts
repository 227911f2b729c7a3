/**
 * Owns: small duties towards this node: the launchers' seccomp profile, sharing of memory pages (KSM), the look at the kubelet's
 * CPU manager; log verbosity and request rate as configured.
 * Must not know: VMIs, launchers, how a node is watched or patched (their deps).
 */
export { hasCpuManager } from './cpu-manager.ts';
export { KsmDuty, type KsmPatch } from './ksm.ts';
export { KsmFiles } from './ksm-files.ts';
export { LiveSettings } from './live-settings.ts';
export { SeccompProfile } from './seccomp-profile.ts';
