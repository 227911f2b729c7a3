/**
 * Owns: gathering what one pass over a VMI may know, as plain data; checking the shape of VMIs.
 * Must not know: what is decided or done with it.
 */

export { isGuestAgentConnected, readLauncherFacts } from './launcher-facts.ts';
export type { KeyMemory, MigrationMemory, Observation, ProxiesView, StatusFacts, WriteRefusal } from './observation.ts';
export { observeVmi, targetOf } from './observe.ts';
export { SyncPayloadCache } from './sync-payload.ts';
export { describeProblems, readableVmi } from './vmi-shape.ts';
