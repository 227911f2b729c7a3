/**
 * Owns: what virt-controller publishes of itself and of the objects in its caches, by upstream's names (pkg/monitoring/metrics/virt-controller).
 * Must not know: how it is served, what controllers decide.
 */
export { ControllerMeters, type QueueName } from './meters.ts';
export { addObjectMetrics } from './object-metrics.ts';
export { addSnapshotMetrics } from './snapshot-metrics.ts';
export { addStatusMetrics } from './status-metrics.ts';
