/**
 * Owns: the node's heartbeat annotation and its `schedulable` label, the hysteresis between a problem and that label, the reason
 * beside it.
 * Must not know: VMIs, what a problem is about, how a node is patched.
 */
export { hasCpuManager } from './cpu-manager.ts';
export { Heartbeat, type NodePatch, type NodeReport } from './heartbeat.ts';
export { allProblems, type Finding, PolledProblems } from './problems.ts';
