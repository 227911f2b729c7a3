/**
 * Owns: "explain": the decisions that the VMI loop keeps, the state of this agent, and both as JSON on a Unix socket of the node.
 * Must not know: how a decision is made, carried out or kept; it never asks a launcher or the API server.
 */
export { type LoopDelay, measureLoopDelay } from './loop-delay.ts';
export { ExplainServer } from './server.ts';
export { ExplainService } from './service.ts';
export { type InformerState, readState } from './state.ts';
