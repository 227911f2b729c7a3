/**
 * Owns: the seccomp profile of launcher pods, as the kubelet reads it.
 * Must not know: VMIs, launchers, the Kubernetes API.
 */
export { SeccompProfile } from './seccomp-profile.ts';
