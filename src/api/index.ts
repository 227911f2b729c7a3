/**
 * Owns: KubeVirt, Kubernetes and Domain types, keys, labels and their selectors, quantities and pure predicates on them.
 * Must not know: I/O of any kind, libraries, who uses it.
 */
export * from './backup.ts';
export * from './changed-blocks.ts';
export { claimImagePath } from './claim-image.ts';
export * from './conditions.ts';
export * from './data-volume.ts';
export * from './decentralised-migration.ts';
export * from './device-words.ts';
export * from './domain.ts';
export { readDomainStats, statOf } from './domain-stats.ts';
export * from './domain-view.ts';
export * from './explain.ts';
export * from './export.ts';
export type { GuestFigures } from './guest-figures.ts';
export * from './guest-ports.ts';
export type { HostFacts, NumaCell } from './host-facts.ts';
export * from './hot-plug.ts';
export { fillHyperv, hypervNeeds } from './hyperv.ts';
export * from './kept-state.ts';
export * from './keys.ts';
export * from './kubernetes.ts';
export * from './label-query.ts';
export * from './label-selector.ts';
export * from './labels.ts';
export * from './launcher.ts';
export { memoryProblem } from './live-memory.ts';
export { fillRoom, type LiveUpdateSettings } from './live-room.ts';
export { deviceVariable, deviceVariables } from './machine-devices.ts';
export { memoryOverheadBytes, vfioDevices } from './memory-overhead.ts';
export * from './migration.ts';
export { type MigrationProgress, publishedProgress } from './migration-progress.ts';
export * from './pod.ts';
export * from './pod-links.ts';
export type * from './pool.ts';
export * from './quantity.ts';
export * from './replica-set.ts';
export type * from './service.ts';
export * from './snapshot.ts';
export * from './storage.ts';
export { tscFrequencyOf, tscNeed } from './tsc.ts';
export * from './vhostmd.ts';
export * from './virtiofs.ts';
export * from './vmi.ts';
