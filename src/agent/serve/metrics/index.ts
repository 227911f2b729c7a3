/**
 * Owns: what the agent publishes of itself and its VMs on the metrics ports: names, the background sampler, the text,
 * health, profiles, VM statistics.
 * Must not know: the VMI loop's decisions, how TLS follows its files, who scrapes.
 */
export type { AgentFigures, NotReady } from './figures.ts';
export { Meters } from './meters.ts';
export { makeMetrics, sampledLaunchers } from './metrics-parts.ts';
export type { SampledLaunchers } from './ports.ts';
