import { isBeingDeleted, type VirtualMachine, type VirtualMachineInstance } from '../../api/index.ts';
import { type Decided, decideBy, ruleTable, type Step } from '../../reconcile/index.ts';
import { goneOrUnclearTable } from '../reconciling.ts';
import { hasFinalizer, type PoolObservation, type PresentPool } from './observe.ts';
import { preservationOf, strategyOf } from './strategies.ts';
import type { Updates } from './updates.ts';

type Vms = readonly VirtualMachine[];

export interface PoolStepArgs {
  addPoolFinalizer: object;
  removePoolFinalizer: object;
  /** Takes the pool's finalizer off; `disownFrom`: the reference to the pool of this UID, too. */
  releaseVms: { readonly vms: Vms; readonly disownFrom?: string | undefined };
  /** Claims and DataVolumes of the VMs stay without them. */
  keepStorage: { readonly vms: Vms };
  keepRevision: object;
  createVms: { readonly count: number };
  deleteVms: { readonly vms: Vms; readonly why: 'surplus' | 'failing' | 'other disks' };
  updateVms: { readonly vms: Vms };
  restartVmis: { readonly vmis: readonly VirtualMachineInstance[] };
  relabelVmis: { readonly vmis: Updates['relabel'] };
  pruneRevisions: object;
}

export type PoolStep = Step<PoolStepArgs>;

interface Plan {
  readonly steps: readonly PoolStep[];
  /** Reported to the user as condition `ReplicaFailure`, with this reason or else InvalidSpec. */
  readonly problem?: string;
  readonly problemReason?: string;
  readonly requeueAfterMs?: number;
  /** The status is not touched. */
  readonly keepsStatus?: boolean;
}

export interface PoolDecision extends Decided, Plan {
  readonly steps: readonly PoolStep[];
  readonly problem?: string;
}

/** VMs made, deleted or changed in one reconcile, as upstream. */
const burst = 250;

const presentTable = ruleTable<PresentPool, Plan>(
  [
    {
      name: 'deleted',
      why: 'The pool is deleted: it holds its VMs back no longer, and they go with it, or stay without it, as its deletion says.',
      when: ({ pool }) => isBeingDeleted(pool),
      // In this order: without the pool nobody would take its finalizer off a VM.
      plan: ({ pool, vms, detached }) => ({
        steps: [
          ...releaseOf([...vms, ...detached].filter(hasFinalizer)),
          ...(hasFinalizer(pool) ? [{ step: 'removePoolFinalizer' } as const] : []),
        ],
        keepsStatus: true,
      }),
    },
    {
      name: 'leaving',
      why: 'VMs of the pool are being deleted: what is to be kept of them is, and then they may go.',
      when: ({ leaving }) => leaving.length > 0,
      plan: ({ pool, leaving }) => ({
        steps: [
          ...(preservationOf(pool.spec) === 'Disabled' ? [] : [{ step: 'keepStorage', vms: leaving } as const]),
          ...releaseOf(leaving),
        ],
        requeueAfterMs: 0,
      }),
    },
    {
      name: 'detached',
      why: 'VMs were taken out of the pool by their owner reference, or are of one before it: it holds them back no longer.',
      when: ({ detached }) => detached.length > 0,
      plan: ({ detached }) => ({ steps: releaseOf(detached), requeueAfterMs: 0 }),
    },
    {
      name: 'unusable',
      why: 'What the pool asks for does not go together, so nothing is made, changed or deleted; the condition says what is wrong.',
      when: ({ problem }) => problem !== undefined,
      plan: ({ problem = '' }) => ({ steps: [], problem }),
    },
    {
      name: 'without-finalizer',
      why: 'The pool must not vanish before its VMs are free to go, so it gets a finalizer first.',
      when: ({ pool }) => !hasFinalizer(pool),
      plan: () => ({ steps: [{ step: 'addPoolFinalizer' }], keepsStatus: true, requeueAfterMs: 0 }),
    },
    {
      name: 'strayed',
      why: 'VMs of the pool have other labels than it selects: it lets them go, and they live on.',
      when: ({ strayed }) => strayed.length > 0,
      plan: ({ strayed, uid }) => ({
        steps: [{ step: 'releaseVms', vms: strayed, disownFrom: uid }],
        requeueAfterMs: 0,
      }),
    },
    {
      name: 'paused',
      why: 'The pool is paused: VMs may be made, changed and deleted by hand.',
      when: ({ pool }) => pool.spec.paused === true,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'failing',
      why: 'VMs do not come to run, too often or for too long: they are deleted, and others are made in their place.',
      when: ({ failing }) => failing.due.length > 0,
      plan: ({ failing }) => ({ steps: [{ step: 'deleteVms', vms: failing.due.slice(0, burst), why: 'failing' }] }),
    },
    {
      name: 'too-few',
      why: 'There are fewer VMs than wanted, so more are made, with the lowest numbers that are free.',
      when: ({ vms, wanted }) => vms.length < wanted,
      plan: ({ vms, wanted }) => ({
        steps: [{ step: 'keepRevision' }, { step: 'createVms', count: Math.min(wanted - vms.length, burst) }],
      }),
    },
    {
      name: 'memory-not-kept',
      why: 'There are more VMs than wanted, and memory of those that go is to be kept, which this controller cannot do: none is deleted.',
      when: ({ pool, surplus }) => surplus.length > 0 && preservationOf(pool.spec) === 'Online',
      plan: () => ({
        steps: [],
        problemReason: 'NotSupported',
        problem:
          'statePreservation: Online: the memory of a VM that goes cannot be kept; with Offline its disks are, and it goes',
      }),
    },
    {
      name: 'too-many',
      why: 'There are more VMs than wanted: as many are deleted, in the order of the pool’s policy.',
      when: ({ surplus }) => surplus.length > 0,
      plan: ({ surplus }) => ({ steps: [{ step: 'deleteVms', vms: surplus.slice(0, burst), why: 'surplus' }] }),
    },
    {
      name: 'outdated',
      why: 'The template has changed: VMs get what it says now. Running guests go on by what they were started from.',
      when: ({ updates }) => updates.outdated.length > 0,
      plan: ({ updates }) => ({
        steps: [{ step: 'keepRevision' }, { step: 'updateVms', vms: updates.outdated.slice(0, burst) }],
      }),
    },
    {
      name: 'guests-outdated',
      why: 'Guests run by an earlier template: they are started anew, no more at a time than may be unavailable.',
      when: ({ updates: { restart, recreate, relabel } }) => restart.length + recreate.length + relabel.length > 0,
      plan: ({ updates: { restart, recreate, relabel } }) => ({
        steps: [
          ...(relabel.length > 0 ? [{ step: 'relabelVmis', vmis: relabel } as const] : []),
          ...(restart.length > 0 ? [{ step: 'restartVmis', vmis: restart } as const] : []),
          ...(recreate.length > 0 ? [{ step: 'deleteVms', vms: recreate, why: 'other disks' } as const] : []),
        ],
      }),
    },
    {
      name: 'update-waits',
      why: 'More guests run by an earlier template: they wait until those that were started anew are available.',
      when: ({ updates }) => updates.waiting > 0,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'surplus-kept',
      why: 'There are more VMs than wanted, and the pool deletes none itself: it waits until others do.',
      when: ({ pool, vms, wanted }) => vms.length > wanted && strategyOf(pool.spec.scaleInStrategy) !== 'proactive',
      plan: () => ({ steps: [] }),
    },
    {
      name: 'old-revisions',
      why: 'All VMs are as wanted: templates that none of them was made from are not needed any more.',
      when: ({ mayPrune }) => mayPrune,
      plan: () => ({ steps: [{ step: 'pruneRevisions' }], requeueAfterMs: 0 }),
    },
  ],
  {
    name: 'as-wanted',
    why: 'There are as many VMs as wanted, all made from the present template.',
    plan: ({ failing: { nextMs } }) => ({ steps: [], ...(nextMs !== undefined && { requeueAfterMs: nextMs }) }),
  },
);

const otherTable = goneOrUnclearTable<Exclude<PoolObservation, PresentPool>, Plan>(
  {
    object: 'pool',
    asked: 'what the VMs of the pool were made from, or which there are',
    plan: (nothing) => ({ ...nothing, keepsStatus: true }),
  },
  [
    {
      name: 'outlived',
      why: 'VMs that are being deleted are held back by a pool that is no more: they may go.',
      when: (seen) => seen.kind === 'absent' && seen.former.length > 0,
      plan: (seen) => ({ steps: seen.kind === 'absent' ? releaseOf(seen.former) : [], requeueAfterMs: 0 }),
    },
  ],
);

export const poolRules = [...presentTable.rules, ...otherTable.rules];

export function decidePool(observation: PoolObservation): PoolDecision {
  return observation.kind === 'present' ? decideBy(presentTable, observation) : decideBy(otherTable, observation);
}

function releaseOf(vms: Vms): PoolStep[] {
  return vms.length > 0 ? [{ step: 'releaseVms', vms }] : [];
}
