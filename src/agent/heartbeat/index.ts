/**
 * Owns: the node's heartbeat annotation and its `schedulable` label.
 * Must not know: VMIs, how a node is patched.
 */
export { Heartbeat, type NodePatch } from './heartbeat.ts';
