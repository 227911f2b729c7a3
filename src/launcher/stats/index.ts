/**
 * Owns: statistics of the domain in upstream's form, sampled when they are asked for.
 * Must not know: who asks, Prometheus.
 */
export { StatsCollector } from './collector.ts';
export type { DomainStats } from './domain-stats.ts';
