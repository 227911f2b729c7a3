/**
 * Owns: what the agent tells of itself and its VMs on the metrics ports (spec 31): names, the background sampler, the text,
 * health, profiles, VM statistics.
 * Must not know: the VMI loop's decisions, how TLS follows its files, who scrapes.
 */
export type { AgentFigures, NotReady } from './figures.ts';
export { Meters } from './meters.ts';
export { makeMetrics } from './metrics-parts.ts';
