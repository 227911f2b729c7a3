/**
 * Owns: the embedded Kubernetes API of the standalone node: HTTPS, tokens, resources on disk, list and watch, patches,
 *   tables, discovery, garbage collection. A small, honest subset: what is not here is refused with a Status that says so.
 * Must not know: agent, launcher, controller, pods' processes; it meets them through the ports `PodLogs` and `PodExec`.
 */
export type { AccessRule, ApiToken, UserAccount } from './access.ts';
export { ensureCertificates } from './certificates.ts';
export { kubeconfigText, writeKubeconfig } from './kubeconfig.ts';
export { lostWritesReason } from './lost-writes.ts';
export type { ApiServerDeps, ApiServerOptions } from './options.ts';
export type { ExecWish, PodExec } from './pod-exec.ts';
export { directoryPodLogs, type PodLogQuery } from './pod-logs.ts';
export { podReachOf } from './rest/index.ts';
export { ApiServer } from './server.ts';
export type { Usage, UsageSample, UsageSource } from './usage.ts';
export type {
  AgentReply,
  GuestPort,
  GuestReach,
  PodStreams,
  PowerAction,
  PowerOutcome,
  VmSubresources,
  VmTarget,
} from './vm-subresources.ts';
