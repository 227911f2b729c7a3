/**
 * Owns: the effective configuration: which KubeVirt object counts, its fields with their defaults, feature gates, the last
 * good one when a newer one cannot be used, also over restarts in a file, telling of real differences.
 * Must not know: what the configuration is used for, how objects are watched.
 */
export type { KubeVirt } from './active-kubevirt.ts';
export { readClusterConfig } from './effective-config.ts';
export { KeptFile } from './kept-file.ts';
export { KubeVirtSettings } from './kubevirt-settings.ts';
