/**
 * Owns: the claims on which TPMs and EFI variables of VMs are kept: which one a guest has, what a new one is like, when it can be used.
 * Must not know: rules, pods, VMs.
 */

export { createStateClaim } from './create.ts';
export {
  claimsByFormerVm,
  claimsByMigration,
  claimsByVm,
  keptStateIndexes,
  type StateClaims,
  stateClaimOf,
} from './find.ts';
export { type KeptState, observeKeptState } from './observe.ts';
export { formerStateMark, stateVolumeName } from './volume-name.ts';
