/**
 * Owns: what owners of many objects share: which objects are theirs, names for new ones, many writes of one kind at once, their conditions.
 * Must not know: what owns, what is owned.
 */
export { inBatches, together } from './batches.ts';
export { Dependents } from './dependents.ts';
export { NewNames } from './new-names.ts';
export { controllerReference, releaseOperations } from './references.ts';
export { failureReason, pauseChange, replicaConditions } from './replica-conditions.ts';
