import { keepsState, tracksChanges } from '../../api/index.ts';
import { isPending, ownState } from './facts.ts';
import { does, type Facts, type MigrationRule } from './plan.ts';

/** The guest runs on its target: what it keeps there is newer from now on. */
export function hasArrived(facts: Facts): boolean {
  const { completed, failed, targetNodeDomainReadyTimestamp } = ownState(facts) ?? {};
  return failed !== true && (completed === true || Boolean(targetNodeDomainReadyTimestamp));
}

/**
 * TPM and EFI variables travel in the guest's own stream, to a claim of the target's: only then what is left of the source is whole when the
 * migration fails, whatever the access mode. Upstream shares a claim that many nodes may write.
 */
export const stateClaimForTarget: MigrationRule = {
  name: 'state-claim-for-target',
  why: 'The TPM or the EFI variables of the guest are kept: the claim that shall have them on the target is made before its pod.',
  when: (facts) =>
    isPending(facts) &&
    facts.target.kind === 'none' &&
    (keepsState(facts.vmi?.spec.domain) || tracksChanges(facts.vmi ?? {})) &&
    facts.keptState.target === undefined,
  plan: () => does([{ step: 'createStateClaim' }]),
};

/** Before anything that ends the migration: a guest that has arrived and ended since must find its newest state at the next start. */
export const stateArrived: MigrationRule = {
  name: 'state-arrived',
  why: 'The guest runs on its target: the claim there keeps its TPM and EFI variables from now on, and that of the source is deleted.',
  when: (facts) => facts.keptState.target !== undefined && hasArrived(facts),
  plan: ({ keptState: { target, sources } }) => does(target ? [{ step: 'handStateOver', claim: target, sources }] : []),
};

/** `isHeld`: the target's agent still uses it. */
export const stateClaimLeft = (isHeld: (facts: Facts) => boolean): MigrationRule => ({
  name: 'state-claim-left',
  why: 'The migration has failed: the claim that was to have the TPM and the EFI variables on the target is deleted.',
  when: (facts) => facts.keptState.target !== undefined && !isHeld(facts),
  plan: ({ keptState: { target } }) => does(target ? [{ step: 'deleteStateClaim', claim: target }] : []),
});
