import { isBeingDeleted, observedApiVersion, type VirtualMachineInstance } from '../../api/index.ts';
import { type Decided, decideBy, ruleTable, type Step } from '../../reconcile/index.ts';
import { goneOrUnclearTable } from '../reconciling.ts';
import { isReady, type PresentSet, type SetObservation } from './observe.ts';

export interface SetStepArgs {
  noteVersions: object;
  releaseVmis: { readonly vmis: readonly VirtualMachineInstance[] };
  adoptVmis: { readonly vmis: readonly VirtualMachineInstance[] };
  createVmis: { readonly count: number };
  deleteVmis: { readonly vmis: readonly VirtualMachineInstance[] };
}

export type SetStep = Step<SetStepArgs>;

interface Plan {
  readonly steps: readonly SetStep[];
  /** Reported to the user as condition `ReplicaFailure`. */
  readonly problem?: string;
  readonly requeueAfterMs?: number;
  /** The status is not touched. */
  readonly keepsStatus?: boolean;
}

export interface SetDecision extends Decided, Plan {
  readonly steps: readonly SetStep[];
  readonly problem?: string;
}

const noted = Object.entries(observedApiVersion);

/** VMIs made, or deleted, in one reconcile, as upstream. */
const burst = 250;

const presentTable = ruleTable<PresentSet, Plan>(
  [
    {
      name: 'deleted',
      why: 'The set is deleted: its VMIs go with it, or stay without it, as its deletion says.',
      when: ({ set }) => isBeingDeleted(set),
      plan: () => ({ steps: [], keepsStatus: true }),
    },
    {
      name: 'versions-unnoted',
      why: 'With which version of the API the set is known is written down, as upstream does.',
      when: ({ set: { metadata } }) => !noted.every(([key, value]) => metadata.annotations?.[key] === value),
      plan: () => ({ steps: [{ step: 'noteVersions' }], keepsStatus: true, requeueAfterMs: 0 }),
    },
    {
      name: 'unusable',
      why: 'Selector and template do not go together, so nothing is made or deleted; the condition says what is wrong.',
      when: ({ problem }) => problem !== undefined,
      plan: ({ problem = '' }) => ({ steps: [], problem }),
    },
    {
      name: 'strayed',
      why: 'VMIs of the set have other labels than it selects: it lets them go, and they live on.',
      when: ({ strayed }) => strayed.length > 0,
      plan: ({ strayed }) => ({ steps: [{ step: 'releaseVmis', vmis: strayed.slice(0, burst) }], requeueAfterMs: 0 }),
    },
    {
      name: 'orphans',
      why: 'VMIs that nothing controls have the labels that the set selects: it takes them in.',
      when: ({ adoptable }) => adoptable.length > 0,
      plan: ({ adoptable }) => ({ steps: [{ step: 'adoptVmis', vmis: adoptable.slice(0, burst) }], requeueAfterMs: 0 }),
    },
    {
      name: 'paused',
      why: 'The set is paused: VMIs may be made and deleted by hand.',
      when: ({ set }) => set.spec.paused === true,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'too-few',
      why: 'There are fewer VMIs than wanted, so more are made; ones that have ended are deleted.',
      when: ({ active, wanted }) => active.length < wanted,
      plan: ({ active, wanted, ended }) => ({
        steps: [{ step: 'createVmis', count: Math.min(wanted - active.length, burst) }, ...deletionOf(ended)],
      }),
    },
    {
      name: 'too-many',
      why: 'There are more VMIs than wanted: those that have come the least far are deleted first, and ones that have ended.',
      when: ({ active, wanted }) => active.length > wanted,
      plan: ({ active, wanted, ended }) => ({
        steps: deletionOf([...inDeletionOrder(active).slice(0, active.length - wanted), ...ended]),
      }),
    },
    {
      name: 'ended',
      why: 'VMIs have ended, and others are there in their place: the ended ones are deleted.',
      when: ({ ended }) => ended.length > 0,
      plan: ({ ended }) => ({ steps: deletionOf(ended) }),
    },
  ],
  {
    name: 'as-wanted',
    why: 'There are as many VMIs as wanted.',
    plan: () => ({ steps: [] }),
  },
);

const otherTable = goneOrUnclearTable<Exclude<SetObservation, PresentSet>, Plan>({
  object: 'set',
  asked: 'whether VMIs that seem to be missing or too many are so',
  plan: (nothing) => ({ ...nothing, keepsStatus: true }),
});

export const replicaSetRules = [...presentTable.rules, ...otherTable.rules];

export function decideSet(observation: SetObservation): SetDecision {
  return observation.kind === 'present' ? decideBy(presentTable, observation) : decideBy(otherTable, observation);
}

function deletionOf(vmis: readonly VirtualMachineInstance[]): SetStep[] {
  return vmis.length > 0 ? [{ step: 'deleteVmis', vmis: vmis.slice(0, burst) }] : [];
}

/** Of equals the newest goes first. */
export function inDeletionOrder(vmis: readonly VirtualMachineInstance[]): VirtualMachineInstance[] {
  const created = ({ metadata }: VirtualMachineInstance) => metadata.creationTimestamp ?? '';
  return vmis.toSorted((one, other) => {
    const byProgress = progress(one) - progress(other);
    if (byProgress !== 0) return byProgress;
    if (created(one) !== created(other)) return created(one) > created(other) ? -1 : 1;
    return one.metadata.name < other.metadata.name ? -1 : 1;
  });
}

/** How much is lost with it. */
function progress(vmi: VirtualMachineInstance): number {
  const { phase, nodeName, evacuationNodeName, migrationState } = vmi.status ?? {};
  if (!nodeName) return 0;
  if (phase !== 'Running') return 1;
  if (!isReady(vmi)) return 2;
  const isMoving = migrationState?.startTimestamp !== undefined && migrationState.endTimestamp === undefined;
  return evacuationNodeName || isMoving ? 3 : 4;
}
