/**
 * Owns: the instance types and preferences that VMs refer to: how they are found, kept as revisions, taken from volumes, written into VMs.
 * Must not know: VMIs, run strategies, when any of it is done.
 */
export { expandVm } from './expand.ts';
export { inferReferences } from './infer.ts';
export { keepReferences } from './keep.ts';
export { Lookup, storedRevisionName } from './lookup.ts';
export { type Referred, type Refusal, referredBy, startedFrom, type UnkeptReference } from './referred.ts';
