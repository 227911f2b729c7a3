/**
 * Owns: the KubeVirt object as configuration: which object counts, feature gates, fields with their defaults in one typed section
 * per reader, what makes it unusable, the last good one when a newer one cannot be used, also over restarts in a file.
 * Must not know: what the configuration is used for, how objects are watched.
 */
export { activeKubeVirt, type KubeVirt } from './active-kubevirt.ts';
export {
  type AgentConfig,
  agentConfigReader,
  type ClusterConfig,
  type ClusterFlags,
  type SmBios,
} from './agent-config.ts';
export {
  type ControllerConfig,
  type ControllerConfigBase,
  controllerConfigReader,
  type ReferencePolicy,
} from './controller-config.ts';
export { type Gates, gateNames, readGates } from './feature-gates.ts';
export { KeptFile } from './kept-file.ts';
export { type ConfigOrigin, KubeVirtSettings } from './kubevirt-settings.ts';
export { readLiveUpdate } from './live-update.ts';
export { type MigrationLimits, withPolicy } from './migration-limits.ts';
export {
  defaultMigrationSettings,
  type MigrationConfig,
  type MigrationSettings,
  readMigrationSettings,
  type StallDetectorSettings,
} from './migration-settings.ts';
export { type NodeConfig, readTdxAttestation } from './node-config.ts';
export type { RateLimitSettings } from './rate-limit.ts';
export type { StatusConfig } from './status-config.ts';
