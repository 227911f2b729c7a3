import { type Key, keptState, keyOf, type PersistentVolumeClaim } from '../../api/index.ts';

/** Index of the informer of claims: key of the VM whose state is kept there. */
export const claimsByVm = 'state-of-vm';

/** Index of the informer of claims: key of the migration that the claim was made for. */
export const claimsByMigration = 'state-of-migration';

/** Index of the informer of claims: namespace and `formerStateMark` of the VM whose state was there before a restore. */
export const claimsByFormerVm = 'former-state-of-vm';

export const keptStateIndexes = {
  [claimsByFormerVm]: ({ metadata: { namespace, labels = {} } }: PersistentVolumeClaim) => {
    const volume = labels[keptState.obsoleteLabel];
    return volume === undefined || labels[keptState.label] !== undefined ? [] : [`${namespace}/${volume}`];
  },
  [claimsByMigration]: ({ metadata: { namespace, labels = {} } }: PersistentVolumeClaim) => {
    const migration = labels[keptState.migrationLabel];
    return migration === undefined ? [] : [`${namespace}/${migration}`];
  },
  [claimsByVm]: (claim: PersistentVolumeClaim) => {
    const vm = vmOf(claim);
    return vm === undefined ? [] : [`${claim.metadata.namespace}/${vm}`];
  },
};

/** Claims that have, or had, the state of a VM. */
export type StateClaims = (vm: Key) => readonly PersistentVolumeClaim[];

/** The claim that has the state of a VM now; what is being deleted is none. Of several the newest: a guest that has moved left the older one. */
export function stateClaimOf(
  vm: Parameters<typeof keyOf>[0],
  claims: Iterable<PersistentVolumeClaim>,
): PersistentVolumeClaim | undefined {
  const own = [...claims].filter((claim) => {
    const { namespace, deletionTimestamp } = claim.metadata;
    return !deletionTimestamp && `${namespace}/${vmOf(claim)}` === keyOf(vm);
  });
  const made = ({ metadata }: PersistentVolumeClaim) => metadata.creationTimestamp ?? '';
  const isLabelled = ({ metadata }: PersistentVolumeClaim) => metadata.labels?.[keptState.label] !== undefined;
  return own.sort((a, b) => Number(isLabelled(b)) - Number(isLabelled(a)) || made(b).localeCompare(made(a)))[0];
}

function vmOf({ metadata }: PersistentVolumeClaim): string | undefined {
  const { name, labels = {} } = metadata;
  const labelled = labels[keptState.label];
  const isMarked = [keptState.migrationLabel, keptState.obsoleteLabel].some((label) => labels[label] !== undefined);
  if (labelled !== undefined || isMarked) return labelled;
  const prefix = `${keptState.label}-`;
  return name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
}
