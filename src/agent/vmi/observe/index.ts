/**
 * Owns: gathering what one reconcile of a VMI may know, as plain data; what is remembered between two; checking the shape of VMIs.
 * Must not know: what is decided or done with it.
 */

export { isGuestAgentConnected, readLauncherFacts } from './launcher-facts.ts';
export {
  forgetStay,
  isOfMigration,
  type KeyMemory,
  memoryFields,
  newMemory,
  type PrepareTries,
  prepareTries,
  type Remember,
  type SourceMemory,
  sourceMemory,
  startTriesOf,
  syncedOf,
  type TargetStage,
  type Tries,
  type WriteRefusal,
  withMore,
  withStartTries,
} from './memory.ts';
export type { Observation, ProxiesView, StatusFacts } from './observation.ts';
export { observeVmi, targetOf } from './observe.ts';
export { withHostFacts } from './sync-options.ts';
export { changesAwaitedLinks, SyncPayloadCache } from './sync-payload.ts';
export { describeProblems, readableVmi } from './vmi-shape.ts';
