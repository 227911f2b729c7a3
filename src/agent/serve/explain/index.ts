/**
 * Owns: "why": the kept decisions of each VMI, the state of this agent, and both as JSON on a Unix socket of the node.
 * Must not know: how a decision is made or carried out; it never asks a launcher or the API server.
 */
export { DecisionLog } from './decision-log.ts';
export { logDecision } from './log-decision.ts';
export { clip, type DecisionRecord, faultRecord, nothingSeen, recordOf, seenOf } from './record.ts';
export { ExplainServer } from './server.ts';
export { ExplainService } from './service.ts';
export { type InformerState, type LoopDelay, measureLoopDelay, readState } from './state.ts';
