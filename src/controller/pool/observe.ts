import {
  controllerOf,
  finalizers,
  isBeingDeleted,
  type Key,
  keyOf,
  type LabelSelector,
  labelSelectorText,
  readLabelSelector,
  resources,
  selects,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachinePool,
  wantedReplicas,
} from '../../api/index.ts';
import { type Clock, isRecord, memberAt } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import type { Observed, ReadYourWrites } from '../../reconcile/index.ts';
import type { Dependents } from '../owned/index.ts';
import { orUnclear } from '../reconciling.ts';
import type { Revisions, Template } from './revisions.ts';
import { chosenBy, type Failing, failingVms, strategyOf, strategyProblem } from './strategies.ts';
import { revisionOf, type Updates, updatesOf } from './updates.ts';

type Vm = VirtualMachine;

/** A pool and its VMs; plain data. */
export interface PresentPool extends Observed {
  readonly kind: 'present';
  readonly pool: VirtualMachinePool;
  /** Why nothing can be done for it. */
  readonly problem: string | undefined;
  readonly wanted: number;
  /** All that it controls, also those that are being deleted. */
  readonly vms: readonly Vm[];
  /** Are not selected any more. */
  readonly strayed: readonly Vm[];
  /** Others took them from the pool, whose finalizer they still have; or they are of an earlier pool of this name, and being deleted. */
  readonly detached: readonly Vm[];
  /** Are being deleted, and have the pool's finalizer. */
  readonly leaving: readonly Vm[];
  /** To be deleted, since there are too many; in the order of the policy. */
  readonly surplus: readonly Vm[];
  readonly failing: Failing;
  readonly updates: Updates;
  /** Templates that VMs were made from, by the names of their revisions. */
  readonly revisions: ReadonlyMap<string, Template>;
  /** Names of revisions that VMs and VMIs name. */
  readonly inUse: ReadonlySet<string>;
  /** Revisions that nothing uses may be left. */
  readonly mayPrune: boolean;
}

export interface AbsentPool extends Observed {
  readonly kind: 'absent';
  /** Are being deleted, and have the finalizer of a pool of this name. */
  readonly former: readonly Vm[];
}

/** The API server did not answer what a decision depends on. */
export interface UnclearPool extends Observed {
  readonly kind: 'unclear';
  readonly pool: VirtualMachinePool;
  readonly reason: string;
}

export type PoolObservation = PresentPool | AbsentPool | UnclearPool;

export interface ObserveDeps {
  readonly client: Pick<KubeClient, 'list'>;
  readonly pools: ReadYourWrites<VirtualMachinePool>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'get'>;
  readonly members: Pick<Dependents<Vm>, 'of' | 'ofName' | 'orphans'>;
  readonly revisions: Pick<Revisions, 'of'>;
  /** The revisions in use at the last look for others. */
  readonly prunedFor: (pool: VirtualMachinePool) => string | undefined;
  readonly clock: Clock;
  readonly random: () => number;
}

export async function observePool(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<PoolObservation> {
  const pool = deps.pools.get(key);
  const now = deps.clock.now();
  if (!pool) return { kind: 'absent', key, uid: '', now, former: formerVms(key, '', deps) };
  const base = { key, uid: pool.metadata.uid ?? '', now, pool };
  const read = async (): Promise<PoolObservation> => ({
    kind: 'present',
    ...base,
    ...(await factsOf(pool, now, deps, signal)),
  });
  return orUnclear(base, read, signal);
}

async function factsOf(pool: VirtualMachinePool, now: Date, deps: ObserveDeps, signal: AbortSignal) {
  const { vmis, members, random, prunedFor } = deps;
  const problem = problemOf(pool);
  const selector = selectorOf(pool);
  const vms = members.of(pool);
  const isSelected = ({ metadata }: Vm) => selector === undefined || selects(selector, metadata.labels ?? {});
  const vmiOf = (vm: Vm) => {
    const vmi = vmis.get(keyOf(vm));
    return vmi && controllerOf(vmi)?.uid === vm.metadata.uid ? vmi : undefined;
  };
  const named = vms.flatMap((vm) => [revisionOf(vm), revisionAt(vmiOf(vm))]);
  const inUse = new Set(named.filter((name) => name !== undefined));
  const isAtWork = problem === undefined && !isBeingDeleted(pool);
  const revisions: ReadonlyMap<string, Template> = isAtWork ? await deps.revisions.of(pool, inUse, signal) : new Map();
  const wanted = wantedReplicas(pool);
  return {
    problem,
    wanted,
    vms,
    strayed: vms.filter((vm) => !isSelected(vm)),
    detached: [
      ...members
        .orphans(pool.metadata.namespace)
        .filter((vm) => hasFinalizer(vm) && isSelected(vm) && vm.metadata.name.startsWith(`${pool.metadata.name}-`)),
      ...formerVms(keyOf(pool), pool.metadata.uid, deps),
    ],
    leaving: vms.filter((vm) => isBeingDeleted(vm) && hasFinalizer(vm)),
    surplus: isAtWork ? await surplusOf(pool, vms, deps, signal) : [],
    failing: isAtWork ? failingVms(pool.spec, vms, now) : { due: [], nextMs: undefined },
    updates: isAtWork ? updatesOf({ pool, vms, vmiOf, revisions, random }) : noUpdates,
    revisions,
    inUse,
    mayPrune: prunedFor(pool) !== signatureOf(inUse),
  };
}

function formerVms(key: Key, uid: string | undefined, { members }: Pick<ObserveDeps, 'members'>): Vm[] {
  return members.ofName(key).filter((vm) => controllerOf(vm)?.uid !== uid && isBeingDeleted(vm) && hasFinalizer(vm));
}

const noUpdates: Updates = { outdated: [], restart: [], recreate: [], relabel: [], waiting: 0 };

export const hasFinalizer = ({ metadata }: Vm | VirtualMachinePool) =>
  metadata.finalizers?.includes(finalizers.pool) === true;

export const signatureOf = (inUse: ReadonlySet<string>) => [...inUse].sort().join(' ');

const revisionAt = (vmi: VirtualMachineInstance | undefined) => vmi && revisionOf(vmi);

/** The API server itself is asked before VMs are chosen for deletion: those that a slow cache still shows may be gone. */
async function surplusOf(
  pool: VirtualMachinePool,
  cached: readonly Vm[],
  { client, random }: ObserveDeps,
  signal: AbortSignal,
): Promise<readonly Vm[]> {
  const wanted = wantedReplicas(pool);
  const isProactive = strategyOf(pool.spec.scaleInStrategy) === 'proactive';
  if (cached.length <= wanted || !isProactive || pool.spec.paused === true) return [];
  const { namespace, uid } = pool.metadata;
  const labelSelector = labelSelectorText(pool.spec.selector);
  const { items } = await client.list<Vm>(resources.virtualMachines, { namespace, labelSelector, signal });
  const staying = items.filter((vm) => controllerOf(vm)?.uid === uid && !isBeingDeleted(vm));
  const policy = pool.spec.scaleInStrategy?.proactive?.selectionPolicy;
  return chosenBy(policy, staying, random).slice(0, Math.max(0, staying.length - wanted));
}

/** An empty one would select all VMs of the namespace. */
export function selectorOf({ spec }: VirtualMachinePool): LabelSelector | undefined {
  const selector = readLabelSelector(memberAt(spec, 'selector'));
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  return Object.keys(matchLabels).length + matchExpressions.length > 0 ? selector : undefined;
}

function problemOf(pool: VirtualMachinePool): string | undefined {
  const { spec } = pool;
  if (!isRecord(memberAt(spec, 'virtualMachineTemplate', 'spec', 'template', 'spec')))
    return 'spec.virtualMachineTemplate: there is no template of a VMI in it, so no VM can be made';
  const selector = selectorOf(pool);
  if (!selector)
    return 'spec.selector: it selects nothing or everything; name labels of spec.virtualMachineTemplate.metadata.labels';
  if (!selects(selector, spec.virtualMachineTemplate.metadata?.labels ?? {}))
    return 'spec.selector: it does not select VMs with spec.virtualMachineTemplate.metadata.labels';
  return strategyProblem(spec);
}
