/**
 * Owns: agents that are not heard of any more: their nodes take no new guests, and VMIs whose pods went with them have failed.
 * Must not know: how agents send heartbeats, who starts a VM again.
 */
export { NodeController } from './controller.ts';
export { nodeRules } from './decide.ts';
