/**
 * Owns: the embedded Kubernetes API of the standalone node: HTTPS, tokens, resources on disk, list and watch, patches,
 *   tables, discovery, garbage collection. A small, honest subset: what is not here is refused with a Status that says so.
 * Must not know: agent, launcher, controller, pods' processes; it meets a pod's log only through the port `PodLogs`.
 */
export { type Certificates, ensureCertificates } from './certificates.ts';
export { type KubeconfigOptions, writeKubeconfig } from './kubeconfig.ts';
export type { ApiServerDeps, ApiServerOptions, ApiToken, TlsFiles } from './options.ts';
export { directoryPodLogs, type PodLogQuery, type PodLogs } from './pod-logs.ts';
export { ApiServer } from './server.ts';
export { StoreError, type StoreErrorCode } from './store/errors.ts';
