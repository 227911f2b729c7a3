import {
  controllerOf,
  findCondition,
  isBeingDeleted,
  isFinal,
  type Key,
  type LabelSelector,
  labelSelectorText,
  readLabelSelector,
  resources,
  selects,
  type VirtualMachineInstance,
  type VirtualMachineInstanceReplicaSet,
  wantedReplicas,
} from '../../api/index.ts';
import { type Clock, isRecord, memberAt } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import type { Observed, ReadYourWrites } from '../../reconcile/index.ts';
import type { Dependents } from '../owned/index.ts';
import { orUnclear } from '../reconciling.ts';

/** The VMIs of a set; plain data. */
export interface Members {
  /** Count as replicas. */
  readonly active: readonly VirtualMachineInstance[];
  /** Have ended, or their launcher is going: they are replaced, and deleted. */
  readonly ended: readonly VirtualMachineInstance[];
  /** Are not selected any more. */
  readonly strayed: readonly VirtualMachineInstance[];
  /** Are selected, and nothing controls them. */
  readonly adoptable: readonly VirtualMachineInstance[];
}

export interface PresentSet extends Observed, Members {
  readonly kind: 'present';
  readonly set: VirtualMachineInstanceReplicaSet;
  /** Why nothing can be done for it. */
  readonly problem: string | undefined;
  readonly wanted: number;
}

export interface AbsentSet extends Observed {
  readonly kind: 'absent';
}

/** The API server did not answer what a decision depends on. */
export interface UnclearSet extends Observed {
  readonly kind: 'unclear';
  readonly set: VirtualMachineInstanceReplicaSet;
  readonly reason: string;
}

export type SetObservation = PresentSet | AbsentSet | UnclearSet;

export interface ObserveDeps {
  readonly client: Pick<KubeClient, 'list'>;
  readonly sets: ReadYourWrites<VirtualMachineInstanceReplicaSet>;
  readonly members: Pick<Dependents<VirtualMachineInstance>, 'of' | 'orphans'>;
  readonly clock: Clock;
}

/**
 * From caches, with what this process wrote. Where they say that VMIs are to be made or deleted, the API server itself is asked first: a cache
 * that has lost its watch would otherwise count as missing what is only not shown.
 */
export async function observeSet(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<SetObservation> {
  const { client, sets, members, clock } = deps;
  const now = clock.now();
  const set = sets.get(key);
  if (!set) return { kind: 'absent', key, uid: '', now };
  const { namespace } = set.metadata;
  const base = { key, uid: set.metadata.uid ?? '', now, set };
  const problem = problemOf(set);
  const wanted = wantedReplicas(set);
  const cached = membersOf(set, [...members.of(set), ...members.orphans(namespace)]);
  if (problem !== undefined || !isToChange(set, cached))
    return { kind: 'present', ...base, problem, wanted, ...cached };
  const read = async (): Promise<SetObservation> => {
    const labelSelector = labelSelectorText(set.spec.selector);
    const type = resources.virtualMachineInstances;
    const { items } = await client.list<VirtualMachineInstance>(type, { namespace, labelSelector, signal });
    return { kind: 'present', ...base, problem, wanted, ...membersOf(set, items), strayed: cached.strayed };
  };
  return orUnclear(base, read, signal);
}

function isToChange(set: VirtualMachineInstanceReplicaSet, { active, ended }: Members): boolean {
  if (isBeingDeleted(set) || set.spec.paused === true) return false;
  return active.length !== wantedReplicas(set) || ended.length > 0;
}

/** `vmis`: of its namespace. */
export function membersOf(set: VirtualMachineInstanceReplicaSet, vmis: readonly VirtualMachineInstance[]): Members {
  const selector = selectorOf(set);
  if (!selector) return { active: [], ended: [], strayed: [], adoptable: [] };
  const controllerUid = (vmi: VirtualMachineInstance) => controllerOf(vmi)?.uid;
  const isSelected = ({ metadata }: VirtualMachineInstance) => selects(selector, metadata.labels ?? {});
  const own = vmis.filter((vmi) => controllerUid(vmi) === set.metadata.uid);
  const staying = own.filter((vmi) => !isBeingDeleted(vmi) && isSelected(vmi));
  const orphans = vmis.filter((vmi) => controllerUid(vmi) === undefined && !isBeingDeleted(vmi));
  return {
    active: staying.filter((vmi) => !isFinal(vmi) && !isLosingItsPod(vmi)),
    ended: staying.filter((vmi) => isFinal(vmi) || isLosingItsPod(vmi)),
    strayed: own.filter((vmi) => !isSelected(vmi)),
    adoptable: orphans.filter(isSelected),
  };
}

export const isReady = ({ status }: VirtualMachineInstance) =>
  findCondition(status?.conditions, 'Ready')?.status === 'True';

function isLosingItsPod({ status }: VirtualMachineInstance): boolean {
  const ready = findCondition(status?.conditions, 'Ready');
  return ready?.status === 'False' && ready.reason === 'PodTerminating';
}

/** An empty one would take in all VMIs of the namespace. */
export function selectorOf({ spec }: VirtualMachineInstanceReplicaSet): LabelSelector | undefined {
  const selector = readLabelSelector(memberAt(spec, 'selector'));
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  return Object.keys(matchLabels).length + matchExpressions.length > 0 ? selector : undefined;
}

function problemOf(set: VirtualMachineInstanceReplicaSet): string | undefined {
  const { spec } = set;
  if (!isRecord(memberAt(spec, 'template', 'spec'))) return 'spec.template: there is none, so no VMI can be made';
  const selector = selectorOf(set);
  if (!selector) return 'spec.selector: it selects nothing or everything; name labels of spec.template.metadata.labels';
  if (selects(selector, spec.template.metadata?.labels ?? {})) return undefined;
  return 'spec.selector: it does not select VMIs with spec.template.metadata.labels, so new ones would not be counted';
}
