import {
  finalizers,
  isReadyToUse,
  isTaken,
  type VirtualMachine,
  type VirtualMachineSnapshotContent,
} from '../../api/index.ts';
import { type Decided, decideBy, type ObjectEvent, ruleTable, type Step } from '../../reconcile/index.ts';
import { goneOrUnclearTable } from '../reconciling.ts';
import type { VolumeFacts } from '../snapshot-source/index.ts';
import type { PresentSnapshot, SnapshotObservation } from './observation.ts';

export interface SnapshotStepArgs {
  protect: object;
  release: object;
  lockSource: { readonly vm: VirtualMachine };
  unlockSource: { readonly vm: VirtualMachine };
  /** VMs that name a snapshot which is gone. */
  unlockVms: { readonly vms: readonly VirtualMachine[] };
  createContent: { readonly vm: VirtualMachine; readonly volumes: readonly VolumeFacts[] };
  deleteContent: { readonly content: VirtualMachineSnapshotContent };
}

export interface SnapshotPlan {
  readonly steps: readonly Step<SnapshotStepArgs>[];
  readonly events?: readonly ObjectEvent[];
  readonly requeueAfterMs?: number;
  /** The status is not touched. */
  readonly keepsStatus?: boolean;
}

export interface SnapshotDecision extends Decided, SnapshotPlan {
  readonly steps: readonly Step<SnapshotStepArgs>[];
}

type Facts = PresentSnapshot;

/** Until what is not announced by any change is looked at again; upstream's. */
const lookMs = 5_000;

const isDeleted = ({ snapshot }: Facts) => snapshot.metadata.deletionTimestamp !== undefined;
const isFailed = ({ snapshot }: Facts) => snapshot.status?.phase === 'Failed';
const isSucceeded = ({ snapshot }: Facts) => snapshot.status?.phase === 'Succeeded';
const isLate = ({ leftMs }: Facts) => leftMs !== undefined && leftMs < 0;
const isProtected = ({ snapshot }: Facts) => snapshot.metadata.finalizers?.includes(finalizers.vmSnapshot) === true;
/** A content that was never complete is of no use to anyone, whatever the policy. */
const contentGoes = ({ snapshot, content }: Facts) =>
  content !== undefined && (snapshot.spec.deletionPolicy !== 'Retain' || !isReadyToUse(content));

function unlock({ source }: Facts): SnapshotPlan {
  return { steps: source ? [{ step: 'unlockSource', vm: source.vm }] : [] };
}

/** Sooner than `lookMs` where the deadline is. */
function within({ leftMs }: Facts, ms?: number): Pick<SnapshotPlan, 'requeueAfterMs'> {
  const times = [...(ms === undefined ? [] : [ms]), ...(leftMs === undefined ? [] : [Math.max(0, leftMs) + 1])];
  return times.length > 0 ? { requeueAfterMs: Math.min(...times) } : {};
}

const deletion: readonly {
  name: string;
  why: string;
  when: (facts: Facts) => boolean;
  plan: (facts: Facts) => SnapshotPlan;
}[] = [
  {
    name: 'deleted-with-content',
    why: 'The snapshot is being deleted, and its content with it; the policy Retain keeps a content that is complete.',
    when: (facts) => isDeleted(facts) && contentGoes(facts) && !facts.content?.metadata.deletionTimestamp,
    plan: ({ content }) => ({ steps: content ? [{ step: 'deleteContent', content }] : [] }),
  },
  {
    name: 'deleted-content-awaited',
    why: 'The snapshot is being deleted, and its content is not gone yet.',
    when: (facts) => isDeleted(facts) && contentGoes(facts),
    plan: () => ({ steps: [], requeueAfterMs: lookMs }),
  },
  {
    name: 'deleted-source-locked',
    why: 'The snapshot is being deleted, and the VM may change again.',
    when: (facts) => isDeleted(facts) && facts.source?.isMarked === true,
    plan: unlock,
  },
  {
    name: 'deleted',
    why: 'The snapshot is being deleted, and nothing of it is left that nobody wants.',
    when: isDeleted,
    plan: (facts) => ({ steps: isProtected(facts) ? [{ step: 'release' }] : [], keepsStatus: true }),
  },
];

const presentTable = ruleTable<Facts, SnapshotPlan>(
  [
    ...deletion,
    {
      name: 'failed-with-content',
      why: 'The snapshot has failed, so what was begun for it is taken away.',
      when: (facts) => isFailed(facts) && contentGoes(facts) && !facts.content?.metadata.deletionTimestamp,
      plan: ({ content }) => ({ steps: content ? [{ step: 'deleteContent', content }] : [] }),
    },
    {
      name: 'failed-content-awaited',
      why: 'The snapshot has failed, and its content is not gone yet.',
      when: (facts) => isFailed(facts) && contentGoes(facts),
      plan: () => ({ steps: [], requeueAfterMs: lookMs }),
    },
    {
      name: 'over-source-locked',
      why: 'The snapshot is over, so the VM may change again.',
      when: (facts) => (isFailed(facts) || isSucceeded(facts)) && facts.source?.isMarked === true,
      plan: unlock,
    },
    {
      name: 'failed',
      why: 'The snapshot has failed: it is deleted by whoever made it, and another one may be made.',
      when: isFailed,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'succeeded',
      why: 'The snapshot was taken.',
      when: isSucceeded,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'taken',
      why: 'All VolumeSnapshots have been taken.',
      when: ({ content }) => content !== undefined && isTaken(content),
      plan: () => ({ steps: [] }),
    },
    {
      name: 'source-refused',
      why: 'What the snapshot names as its source is no VM, so it fails.',
      when: ({ problem }) => problem !== undefined,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'deadline-passed',
      why: 'The snapshot was not taken in the time that it has, so it fails.',
      when: isLate,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'unprotected',
      why: 'The snapshot must not vanish before what is made for it, so it gets a finalizer first.',
      when: (facts) => !isProtected(facts) || facts.snapshot.status?.phase === undefined,
      plan: (facts) => ({ steps: isProtected(facts) ? [] : [{ step: 'protect' }], requeueAfterMs: 0 }),
    },
    {
      name: 'source-missing',
      why: 'The VM that the snapshot is of does not exist; it may come.',
      when: ({ source }) => source === undefined,
      plan: (facts) => ({ steps: [], ...within(facts) }),
    },
    {
      name: 'source-not-lockable',
      why: 'The snapshot cannot be taken now: a claim of the VM is not ready or not known yet, or something else is under way.',
      when: ({ source }) => source?.problem !== undefined,
      plan: (facts) => ({ steps: [], ...within(facts, lookMs) }),
    },
    {
      name: 'source-unlocked',
      why: 'The VM must not change while its snapshot is taken, so it is locked.',
      when: ({ source }) => source?.isLocked === false,
      plan: ({ source }) => ({ steps: source ? [{ step: 'lockSource', vm: source.vm }] : [], requeueAfterMs: 0 }),
    },
    {
      name: 'content-missing',
      why: 'The VM is locked: what it is like now, and which VolumeSnapshots there shall be, is written down.',
      when: ({ content }) => content === undefined,
      plan: (facts) => {
        const { source } = facts;
        if (!source) return { steps: [] };
        const { vm, volumes } = source;
        return { steps: [{ step: 'createContent', vm, volumes }], events: leftOut(volumes), ...within(facts) };
      },
    },
  ],
  {
    name: 'being-taken',
    why: 'The VolumeSnapshots are being taken.',
    plan: (facts) => ({ steps: [], ...within(facts) }),
  },
);

/** What a user would miss after a restore. */
function leftOut(volumes: readonly VolumeFacts[]): ObjectEvent[] {
  const missing = volumes.flatMap(({ claimName, support }) =>
    claimName !== undefined && support.kind === 'none' ? [support.why] : [],
  );
  if (missing.length === 0) return [];
  const message = `Volumes are left out of the snapshot: ${missing.join('; ')}`;
  return [{ type: 'Warning', reason: 'VirtualMachineSnapshotPartial', message }];
}

const otherTable = goneOrUnclearTable<Exclude<SnapshotObservation, Facts>, SnapshotPlan>(
  {
    object: 'snapshot',
    asked: 'what can be taken snapshots of',
    plan: (nothing) => ({ ...nothing, keepsStatus: true }),
  },
  [
    {
      name: 'gone-source-locked',
      why: 'There is no snapshot of this name, and a VM is locked for it.',
      when: (seen) => seen.kind === 'absent' && seen.marked.length > 0,
      plan: (seen) => ({
        steps: seen.kind === 'absent' ? [{ step: 'unlockVms', vms: seen.marked }] : [],
        keepsStatus: true,
      }),
    },
  ],
);

export const snapshotRules = [...presentTable.rules, ...otherTable.rules];

/** Pure and total. */
export function decideSnapshot(observation: SnapshotObservation): SnapshotDecision {
  return observation.kind === 'present' ? decideBy(presentTable, observation) : decideBy(otherTable, observation);
}
