import { findCondition, isReadyToUse, type VirtualMachineClone } from '../../api/index.ts';
import { type Decided, decideBy, longerPause, type ObjectEvent, ruleTable, type Step } from '../../reconcile/index.ts';
import { goneOrUnclearTable } from '../reconciling.ts';
import type { SaidConditions } from '../snapshot-source/index.ts';
import type { CloneObservation, PresentClone } from './observe.ts';

export interface CloneStepArgs {
  createSnapshot: object;
  createRestore: object;
  /** What was made for the clone on the way. */
  deleteHelpers: object;
  /** The clone of a VM that is no more. */
  deleteClone: object;
}

export type Phase = NonNullable<NonNullable<VirtualMachineClone['status']>['phase']>;

/** What is said of it, when the steps went well; names of null are taken away. */
export interface Said extends SaidConditions {
  readonly phase?: Phase;
  readonly snapshotName?: string | null;
  readonly restoreName?: string | null;
  readonly targetName?: string;
}

export interface ClonePlan {
  readonly steps: readonly Step<CloneStepArgs>[];
  readonly events?: readonly ObjectEvent[];
  readonly requeueAfterMs?: number;
  readonly says?: Said;
}

export interface CloneDecision extends Decided, ClonePlan {
  readonly steps: readonly Step<CloneStepArgs>[];
}

type Facts = PresentClone;

const lookMs = 5_000;
/** What it waits for wakes it: this is for a change that nobody tells of. */
const pendingPauses = { firstMs: lookMs, longestMs: 60_000 };
const phaseOf = ({ clone }: Facts): Phase => clone.status?.phase ?? '';
const under: SaidConditions = { progressing: ['True', 'Still processing'], ready: ['False', 'Still processing'] };
const ready: SaidConditions = { progressing: ['False', 'Ready'], ready: ['True', 'Ready'] };

function isNews({ clone }: Facts, why: string): boolean {
  return findCondition(clone.status?.conditions, 'Ready')?.reason !== why;
}

function pending(facts: Facts, rule: string, reason: string, message: string): ClonePlan {
  const events: ObjectEvent[] = isNews(facts, message) ? [{ type: 'Warning', reason, message }] : [];
  return {
    steps: [],
    events,
    says: { progressing: ['False', 'Pending'], ready: ['False', message] },
    requeueAfterMs: longerPause(facts, rule, pendingPauses),
  };
}

function failed(reason: string, message: string): ClonePlan {
  const says: Said = { phase: 'Failed', progressing: ['False', 'Failed'], ready: ['False', message] };
  return { steps: [], events: [{ type: 'Warning', reason, message }], says };
}

const normal = (reason: string, message: string): ObjectEvent => ({ type: 'Normal', reason, message });
const unsupported = ({ volumes }: Facts) =>
  volumes.filter(({ claimName, support }) => claimName !== undefined && support.kind !== 'snapshot');

const restoreFailure = ({ restore }: Facts) => findCondition(restore?.status?.conditions, 'Failure');
const isRestored = ({ restore, target }: Facts) => restore?.status?.complete === true && target !== undefined;

const presentTable = ruleTable<Facts, ClonePlan>(
  [
    {
      name: 'deleted',
      why: 'The clone is being deleted, and what was made for it goes with it; the VM stays.',
      when: ({ clone }) => clone.metadata.deletionTimestamp !== undefined,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'failed',
      why: 'The clone has failed: delete it, and make another one.',
      when: (facts) => phaseOf(facts) === 'Failed',
      plan: () => ({ steps: [] }),
    },
    {
      name: 'target-gone',
      why: 'The VM that was made is no more, so nobody needs the clone.',
      when: (facts) => phaseOf(facts) === 'Succeeded' && facts.target === undefined,
      plan: () => ({ steps: [{ step: 'deleteClone' }] }),
    },
    {
      name: 'claims-not-bound',
      why: 'The VM is there; its claims are still being filled, for which the snapshot is needed.',
      when: (facts) => phaseOf(facts) === 'Succeeded' && facts.restore !== undefined && !facts.isBound,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'helpers-left',
      why: 'The VM is there and its claims are filled: what was made on the way is taken away.',
      when: (facts) =>
        phaseOf(facts) === 'Succeeded' && Boolean(facts.clone.status?.restoreName ?? facts.clone.status?.snapshotName),
      plan: ({ clone, names }) => ({
        steps: [{ step: 'deleteHelpers' }],
        events: [normal('PVCBound', `all PVC for clone ${clone.metadata.name} are bound`)],
        says: { ...ready, phase: 'Succeeded', snapshotName: null, restoreName: null, targetName: names.target },
      }),
    },
    {
      name: 'succeeded',
      why: 'The VM was made.',
      when: (facts) => phaseOf(facts) === 'Succeeded',
      plan: () => ({ steps: [] }),
    },
    {
      name: 'refused',
      why: 'The clone asks for something that cannot be made.',
      when: ({ problem }) => problem !== undefined,
      plan: ({ problem = '' }) => failed('VirtualMachineCloneFailed', problem),
    },
    {
      name: 'state-refused',
      why: 'The source keeps the state of a TPM or of EFI variables: that is of one machine, and no other one can have it.',
      when: ({ keepsState }) => keepsState,
      plan: ({ clone: { metadata, spec } }) => {
        const message = `Clone of source with backendstorage is not supported: ${spec.source.kind} ${metadata.namespace}/${spec.source.name} keeps the state of a TPM or of EFI variables; make a VM of its disks that begins with a new one`;
        return failed('SourceVMWithBackendStorageInvalid', message);
      },
    },
    {
      name: 'restored',
      why: 'The VM has been made of the snapshot.',
      when: isRestored,
      plan: ({ clone, names }) => ({
        steps: [],
        events: [
          normal('RestoreReady', `restore ${names.restore} for clone ${clone.metadata.name} is ready to use`),
          normal('TargetVMCreated', `created target VM ${names.target} for clone ${clone.metadata.name}`),
        ],
        says: { ...ready, phase: 'Succeeded', restoreName: names.restore, targetName: names.target },
        requeueAfterMs: 0,
      }),
    },
    {
      name: 'restore-failed',
      why: 'The VM could not be made of the snapshot.',
      when: (facts) => restoreFailure(facts) !== undefined,
      plan: (facts) =>
        failed('VirtualMachineCloneFailed', `restore ${facts.names.restore} failed: ${restoreFailure(facts)?.reason}`),
    },
    {
      name: 'restore-under-way',
      why: 'The VM is being made of the snapshot.',
      when: ({ restore }) => restore !== undefined,
      plan: ({ names }) => ({ steps: [], says: { ...under, phase: 'RestoreInProgress', restoreName: names.restore } }),
    },
    {
      name: 'source-missing',
      why: 'What is to be cloned does not exist; it may come.',
      when: ({ source, snapshot }) => source === undefined && snapshot === undefined,
      plan: (facts) => {
        const { kind, name } = facts.clone.spec.source;
        const message = `Source doesnt exist: ${kind} ${facts.clone.metadata.namespace}/${name}`;
        return pending(facts, 'source-missing', 'SourceDoesNotExist', message);
      },
    },
    {
      name: 'volumes-unsupported',
      why: 'No snapshot of a volume of the VM can be taken now, and a clone without a disk is none.',
      when: (facts) => facts.snapshot === undefined && unsupported(facts).length > 0,
      plan: (facts) => {
        const message = unsupported(facts)
          .map(
            ({ name, support }) =>
              `Virtual Machine volume ${name} does not support snapshots: ${'why' in support ? support.why : ''}`,
          )
          .join('; ');
        return pending(facts, 'volumes-unsupported', 'VMVolumeSnapshotsInvalid', message);
      },
    },
    {
      name: 'snapshot-missing',
      why: 'A snapshot is taken of the VM.',
      when: ({ snapshot }) => snapshot === undefined,
      plan: ({ names }) => ({
        steps: [{ step: 'createSnapshot' }],
        says: { ...under, phase: 'SnapshotInProgress', snapshotName: names.snapshot },
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'snapshot-failed',
      why: 'The snapshot could not be taken.',
      when: ({ snapshot }) => snapshot?.status?.phase === 'Failed',
      plan: ({ snapshot, names }) => {
        const why = snapshot?.status?.error?.message ?? findCondition(snapshot?.status?.conditions, 'Failure')?.reason;
        return failed('VirtualMachineCloneFailed', `snapshot ${names.snapshot} failed: ${why ?? 'nobody says why'}`);
      },
    },
    {
      name: 'snapshot-not-ready',
      why: 'The snapshot is being taken.',
      when: ({ snapshot, content }) => !snapshot || !isReadyToUse(snapshot) || content === undefined,
      plan: ({ names }) => ({
        steps: [],
        says: { ...under, phase: 'SnapshotInProgress', snapshotName: names.snapshot },
      }),
    },
    {
      name: 'volumes-left-out',
      why: 'The snapshot has not all disks of the VM, and a clone without a disk is none.',
      when: ({ leftOut }) => leftOut.length > 0,
      plan: ({ leftOut, names }) =>
        failed(
          'SnapshotContentInvalid',
          `volumes ${leftOut.join(', ')} are not backed up in snapshot ${names.snapshot}`,
        ),
    },
    {
      name: 'target-exists',
      why: 'There is a VM of the name that the clone shall have: it is not overwritten.',
      when: ({ target }) => target !== undefined,
      plan: (facts) =>
        pending(
          facts,
          'target-exists',
          'VirtualMachineCloneTargetExists',
          `VM ${facts.names.target} exists: delete it, or make a clone of another name`,
        ),
    },
  ],
  {
    name: 'restore-missing',
    why: 'The snapshot is there: the VM is made of it.',
    plan: ({ names, isOfVm }) => ({
      steps: [{ step: 'createRestore' }],
      says: {
        ...under,
        phase: 'RestoreInProgress',
        restoreName: names.restore,
        ...(isOfVm && { snapshotName: names.snapshot }),
      },
      requeueAfterMs: lookMs,
    }),
  },
);

const otherTable = goneOrUnclearTable<Exclude<CloneObservation, Facts>, ClonePlan>({
  object: 'clone',
  asked: 'what can be cloned',
  plan: (nothing) => nothing,
});

export const cloneRules = [...presentTable.rules, ...otherTable.rules];

/** Pure and total. */
export function decideClone(observation: CloneObservation): CloneDecision {
  return observation.kind === 'present' ? decideBy(presentTable, observation) : decideBy(otherTable, observation);
}
