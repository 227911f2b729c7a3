/**
 * Owns: instance types and preferences as data: which one a VM refers to, what they say, how a VM's template says it, revisions.
 * Must not know: I/O of any kind, controllers, API servers.
 */
export { appliedTemplate, type MachineDefaults } from './apply.ts';
export { appliedDataVolumes } from './data-volumes.ts';
export { InstancetypeError } from './errors.ts';
export { followedRef, matcherFields, matcherOf, nameAnnotation, referredType } from './matchers.ts';
export { makeRevision, readSpec, revisedName, revisedSpec } from './revisions.ts';
export type {
  InstancetypeSpec,
  MatcherField,
  PreferenceSpec,
  StatusRef,
} from './types.ts';
