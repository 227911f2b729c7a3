import {
  annotations,
  finalizers,
  isRestoreOver,
  type PersistentVolumeClaim,
  type VolumeRestore,
} from '../../api/index.ts';
import { listOf, memberAt, sameJson } from '../../base/index.ts';
import { decideBy, type ObjectEvent, ruleTable } from '../../reconcile/index.ts';
import { stateVolumeName } from '../kept-state/index.ts';
import { goneTable } from '../reconciling.ts';
import type { RestoreObservation, SourceFacts, VolumeFacts } from './observation.ts';
import { type Facts, failing, lookMs, type RestoreDecision, type RestorePlan, type Said, troubled } from './plan.ts';
import { targetRules } from './target-rules.ts';

const pvcs: Said = { progressing: ['True', 'Creating new PVCs'], ready: ['False', 'Waiting for new PVCs'] };
const spec: Said = { progressing: ['True', 'Updating target spec'], ready: ['False', 'Waiting for target update'] };

const isDeleted = ({ restore }: Facts) => restore.metadata.deletionTimestamp !== undefined;
const isProtected = ({ restore }: Facts) => restore.metadata.finalizers?.includes(finalizers.vmRestore) === true;
const isInPlace = ({ restore }: Facts) => restore.spec.volumeRestorePolicy === 'InPlace';
const found = ({ source }: Facts): SourceFacts | undefined => ('problem' in source ? undefined : source);
const volumesOf = (facts: Facts) => found(facts)?.volumes ?? [];
const unlocking = ({ target, isLocked }: Facts) =>
  target && isLocked ? ([{ step: 'unlockTarget', vm: target }] as const) : [];

const lettingGo = ({ held }: Facts) => (held.length > 0 ? ([{ step: 'letGo', contents: held }] as const) : []);

const foreignOf = (facts: Facts) => volumesOf(facts).filter(({ claim, isOurs }) => claim !== undefined && !isOurs);
/** Those that are no room for a volume: in place it is only what nobody else has. */
const takenOf = (facts: Facts) => foreignOf(facts).filter(({ others }) => !isInPlace(facts) || others !== undefined);
const missingOf = (facts: Facts) => volumesOf(facts).filter(({ claim }) => claim === undefined);
const unboundOf = (facts: Facts) =>
  volumesOf(facts).filter(({ claim, bindsLater }) => {
    const phase = claim?.status?.phase;
    return phase !== 'Bound' && !(bindsLater && (phase === undefined || phase === 'Pending'));
  });
const unmarkedOf = (facts: Facts) =>
  volumesOf(facts).filter(({ claim, dataVolumeName, filledBy }) => {
    if (dataVolumeName === undefined || filledBy === dataVolumeName) return false;
    return claim?.metadata.annotations?.[annotations.populatedFor] !== dataVolumeName;
  });
const noteDataVolumes = (volumes: readonly VolumeFacts[]): VolumeRestore[] =>
  volumes.map(({ restore, dataVolumeName }) => ({
    ...restore,
    ...(dataVolumeName !== undefined && { dataVolumeName }),
  }));
const dataVolumesOf = (facts: Facts) => found(facts)?.dataVolumes ?? [];

/** They wait for their new owner. */
function unownedOf(facts: Facts): PersistentVolumeClaim[] {
  const { restore, target, isRestored } = facts;
  if (!target || !isRestored || restore.spec.volumeOwnershipPolicy === 'None') return [];
  const { name } = restore.metadata;
  return volumesOf(facts).flatMap(({ claim }) => {
    const isAwaited = claim?.metadata.annotations?.[annotations.restoredOwnedByVm] === name;
    return claim && isAwaited && (claim.metadata.ownerReferences ?? []).length === 0 ? [claim] : [];
  });
}

/** Beside the VM's own change: what its firmware keeps belongs to the disks of the same time. */
function switching(facts: Facts): RestorePlan['steps'] {
  const { claim, isMarked, former } = found(facts)?.state ?? { claim: undefined, isMarked: true, former: [] };
  return claim && (!isMarked || former.length > 0) ? [{ step: 'switchState', claim, former }] : [];
}

/** A restore may be given up after the state was switched, and before the VM was written. What of it is so the API server knows best. */
function switchingBack({ target, isRestored, restore }: Facts): RestorePlan['steps'] {
  const volume = target && stateVolumeName(target.metadata.name);
  const hasState = listOf(restore.status?.restores).some((each) => memberAt(each, 'volumeName') === volume);
  return target && hasState && !isRestored && !isRestoreOver(restore) ? [{ step: 'putStateBack', vm: target }] : [];
}

/** Nobody deletes what cannot be given back. */
function keptEvents(facts: Facts): ObjectEvent[] {
  const names = found(facts)?.unkept ?? [];
  if (names.length === 0) return [];
  const message = `DataVolumes ${names.join(', ')} stay, though the VM names them no more: the snapshot has nothing of them`;
  return [{ type: 'Warning', reason: 'RestoreDataVolumesKept', message }];
}

const presentTable = ruleTable<Facts, RestorePlan>(
  [
    {
      name: 'deleted',
      why: 'The restore is being deleted: the VM may start again, with the TPM and the EFI variables of its disks, and what was restored stays.',
      when: isDeleted,
      plan: (facts) => ({
        steps: [
          ...switchingBack(facts),
          ...lettingGo(facts),
          ...unlocking(facts),
          ...(isProtected(facts) ? ([{ step: 'release' }] as const) : []),
        ],
      }),
    },
    {
      name: 'over-target-locked',
      why: 'The restore is over: the VM may start again.',
      when: (facts) => isRestoreOver(facts.restore) && facts.isLocked,
      plan: (facts) => ({ steps: unlocking(facts) }),
    },
    {
      name: 'over',
      why: 'The restore is over.',
      when: ({ restore }) => isRestoreOver(restore),
      plan: () => ({ steps: [] }),
    },
    {
      name: 'target-refused',
      why: 'What the restore names as its target is no VM, so it fails.',
      when: ({ problem }) => problem !== undefined,
      plan: (facts) => failing(facts, facts.problem ?? ''),
    },
    {
      name: 'unprotected',
      why: 'The restore must not vanish before it is over, so it gets a finalizer first.',
      when: (facts) => !isProtected(facts) || facts.restore.status === undefined,
      plan: (facts) => {
        const why = 'Initializing VirtualMachineRestore';
        return {
          steps: isProtected(facts) ? [] : [{ step: 'protect' }],
          says: { progressing: ['True', why], ready: ['False', why] },
          requeueAfterMs: 0,
        };
      },
    },
    ...targetRules,
    {
      name: 'source-not-usable',
      why: 'The snapshot cannot be restored now.',
      when: ({ source }) => 'problem' in source,
      plan: (facts) =>
        troubled(facts, 'problem' in facts.source ? facts.source.problem : '', { requeueAfterMs: lookMs * 6 }),
    },
    {
      name: 'target-differs',
      why: 'The target exists and is another VM than the snapshot is of: it is not overwritten.',
      when: (facts) => {
        const { target, isRestored } = facts;
        const uid = found(facts)?.vmUid;
        return target !== undefined && !isRestored && uid !== undefined && uid !== target.metadata.uid;
      },
      plan: (facts) =>
        troubled(facts, 'restore source and restore target are different but restore target already exists'),
    },
    {
      name: 'target-busy',
      why: 'Something else is under way with the VM.',
      when: ({ busy }) => busy !== undefined,
      plan: (facts) => troubled(facts, facts.busy ?? '', { requeueAfterMs: lookMs }),
    },
    {
      name: 'claims-of-others',
      why: 'There are claims of the names that the volumes shall have, which the restore has not made: nothing is overwritten.',
      when: (facts) => takenOf(facts).length > 0,
      plan: (facts) => {
        const each = takenOf(facts).map(
          ({ restore, others }) =>
            `PVC ${restore.persistentVolumeClaim} exists and ${(isInPlace(facts) && others) || 'is not of this restore'}`,
        );
        const why = `${each.join('; ')}: delete it, or make another restore with other names (volumeRestorePolicy, volumeRestoreOverrides)`;
        return troubled(facts, why, { requeueAfterMs: lookMs });
      },
    },
    {
      name: 'target-unlocked',
      why: 'The VM must not start before it is whole again.',
      when: ({ target, isLocked, isRestored }) => target !== undefined && !isLocked && !isRestored,
      plan: ({ target }) => ({ steps: target ? [{ step: 'lockTarget', vm: target }] : [], requeueAfterMs: 0 }),
    },
    {
      name: 'volumes-not-listed',
      why: 'What the volumes will be named is written down before any is made.',
      when: (facts) => {
        const { length } = volumesOf(facts);
        return length > 0 && (facts.restore.status?.restores ?? []).length !== length;
      },
      plan: (facts) => ({
        steps: [],
        says: { ...pvcs, restores: volumesOf(facts).map(({ restore }) => restore) },
        requeueAfterMs: 0,
      }),
    },
    {
      name: 'fillers-not-noted',
      why: 'Claims that will be replaced belong to DataVolumes: that is written down first.',
      when: (facts) =>
        foreignOf(facts).some(
          ({ filledBy, restore }) => filledBy !== undefined && restore.dataVolumeName === undefined,
        ),
      plan: (facts) => {
        const restores = volumesOf(facts).map(({ restore, filledBy }) => ({
          ...restore,
          ...(filledBy !== undefined && restore.dataVolumeName === undefined && { dataVolumeName: filledBy }),
        }));
        return { steps: [], says: { ...pvcs, restores }, requeueAfterMs: 0 };
      },
    },
    {
      name: 'claims-in-place',
      why: 'The claims are to be restored in their places: what is there now is deleted, once no guest has it.',
      when: (facts) => foreignOf(facts).length > 0,
      plan: (facts) => ({
        steps: [{ step: 'replaceClaims', volumes: foreignOf(facts) }],
        says: pvcs,
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'volume-snapshots-missing',
      why: 'A VolumeSnapshot that a claim shall begin with is gone.',
      when: (facts) => missingOf(facts).some(({ volumeSnapshot }) => volumeSnapshot === undefined),
      plan: (facts) => {
        const names = missingOf(facts).flatMap(({ volumeSnapshot, restore }) =>
          volumeSnapshot ? [] : [restore.volumeSnapshotName],
        );
        return troubled(facts, `missing volumeSnapshot ${names.join(', ')}`, { requeueAfterMs: lookMs });
      },
    },
    {
      name: 'claims-missing',
      why: 'Claims that begin with the VolumeSnapshots are made.',
      when: (facts) => missingOf(facts).length > 0,
      plan: (facts) => ({
        steps: [{ step: 'createClaims', volumes: missingOf(facts) }],
        says: pvcs,
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'claims-not-bound',
      why: 'The claims are being filled.',
      when: (facts) => unboundOf(facts).length > 0,
      plan: (facts) => {
        const lost = unboundOf(facts).find(({ claim }) => claim?.status?.phase === 'Lost')?.claim;
        if (lost) return troubled(facts, `PVC ${lost.metadata.namespace}/${lost.metadata.name} in status "Lost"`);
        return { steps: [], says: pvcs };
      },
    },
    {
      name: 'claims-of-templates',
      why: 'The VM has templates of DataVolumes: the claims shall belong to those, and nothing fills them again.',
      when: (facts) => !facts.isRestored && unmarkedOf(facts).length > 0,
      plan: (facts) => ({
        steps: [{ step: 'markPopulated', volumes: unmarkedOf(facts) }],
        says: spec,
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'templates-not-noted',
      why: 'Which DataVolumes the claims belong to is written down.',
      when: (facts) => !sameJson(facts.restore.status?.restores ?? [], noteDataVolumes(volumesOf(facts))),
      plan: (facts) => ({
        steps: [],
        says: { ...spec, restores: noteDataVolumes(volumesOf(facts)) },
        requeueAfterMs: 0,
      }),
    },
    {
      name: 'data-volumes-unread',
      why: 'It is not known yet which DataVolumes there are.',
      when: (facts) => dataVolumesOf(facts).some(({ isUnread }) => isUnread),
      plan: () => ({ steps: [], says: spec, requeueAfterMs: lookMs }),
    },
    {
      name: 'data-volumes-missing',
      why: 'The DataVolumes of the claims are made.',
      when: (facts) => !facts.isRestored && dataVolumesOf(facts).some(({ object }) => object === undefined),
      plan: (facts) => {
        const wanted = dataVolumesOf(facts).filter(({ object }) => object === undefined);
        return { steps: [{ step: 'createDataVolumes', wanted }], says: spec, requeueAfterMs: lookMs };
      },
    },
    {
      name: 'data-volumes-not-filled',
      why: 'The DataVolumes are taking their claims over.',
      when: (facts) => !facts.isRestored && dataVolumesOf(facts).some(({ isFilled }) => !isFilled),
      plan: () => ({ steps: [], says: spec }),
    },
    {
      name: 'obsolete-not-noted',
      why: 'Which DataVolumes nothing will name any more is written down before the VM is changed.',
      when: (facts) =>
        !facts.isRestored && !sameJson(facts.restore.status?.deletedDataVolumes ?? [], found(facts)?.obsolete ?? []),
      plan: (facts) => ({
        steps: [],
        says: { ...spec, deletedDataVolumes: found(facts)?.obsolete ?? [] },
        requeueAfterMs: 0,
      }),
    },
    {
      name: 'target-not-restored',
      why: 'The claims are there: the VM becomes what it was.',
      when: (facts) => !facts.isRestored && found(facts)?.wanted !== undefined,
      plan: (facts) => {
        const wanted = found(facts)?.wanted;
        const steps = wanted ? ([{ step: 'writeTarget', wanted }] as const) : [];
        return {
          steps: [...switching(facts), ...steps],
          says: spec,
          events: keptEvents(facts),
          requeueAfterMs: lookMs,
        };
      },
    },
    {
      name: 'claims-without-owner',
      why: 'The claims belonged to the VM that the snapshot is of, and become those of the new one.',
      when: (facts) => unownedOf(facts).length > 0,
      plan: (facts) => {
        const { target } = facts;
        const claims = unownedOf(facts);
        return { steps: target ? [{ step: 'ownClaims', vm: target, claims }] : [], requeueAfterMs: lookMs };
      },
    },
    {
      name: 'obsolete-data-volumes',
      why: 'The VM is on other disks now: those that it had are deleted.',
      when: ({ leftover }) => leftover.length > 0,
      plan: ({ target, leftover }) => ({
        steps: target ? [{ step: 'deleteDataVolumes', vm: target, dataVolumes: leftover }] : [],
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'former-state',
      why: 'The VM has the TPM and the EFI variables of the snapshot: the claims with those that it had are deleted.',
      when: ({ formerState }) => formerState.length > 0,
      plan: ({ target, formerState }) => ({
        steps: target ? [{ step: 'deleteFormerState', vm: target, claims: formerState }] : [],
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'without-owner',
      why: 'The VM was made of the snapshot: the restore goes with it, as one of a VM that was there before.',
      when: ({ restore, target }) => target !== undefined && !restore.metadata.ownerReferences?.length,
      plan: () => ({ steps: [{ step: 'protect' }], requeueAfterMs: lookMs }),
    },
  ],
  {
    name: 'restored',
    why: 'The VM is what it was when the snapshot was taken.',
    plan: (facts) => ({
      steps: [
        ...(facts.target ? ([{ step: 'ownRevisions', vm: facts.target }] as const) : []),
        ...lettingGo(facts),
        ...unlocking(facts),
      ],
      says: { progressing: ['False', 'Operation complete'], ready: ['True', 'Operation complete'], isComplete: true },
    }),
  },
);

const absentTable = goneTable<Exclude<RestoreObservation, Facts>, RestorePlan>(
  { object: 'restore', plan: (nothing) => nothing },
  [
    {
      name: 'gone-target-locked',
      why: 'There is no restore of this name, and a VM is locked for it.',
      when: ({ marked }) => marked.length > 0,
      plan: ({ marked }) => ({ steps: [{ step: 'unlockVms', vms: marked }] }),
    },
  ],
);

export const restoreRules = [...presentTable.rules, ...absentTable.rules];

/** Pure and total. */
export function decideRestore(observation: RestoreObservation): RestoreDecision {
  return observation.kind === 'present' ? decideBy(presentTable, observation) : decideBy(absentTable, observation);
}
