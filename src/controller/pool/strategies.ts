import {
  findCondition,
  isBeingDeleted,
  labelMatcher,
  type PoolSelectionPolicy,
  readLabelSelector,
  type StatePreservation,
  selects,
  type VirtualMachine,
  type VirtualMachinePool,
  wantedReplicas,
} from '../../api/index.ts';
import { isRecord, memberAt, parseGoDurationMs } from '../../base/index.ts';
import { indexOf } from './make-vm.ts';

type PoolSpec = VirtualMachinePool['spec'];

const has = (strategy: unknown, name: string) => {
  const found = memberAt(strategy, name);
  return found !== undefined && found !== null;
};

const strategyNames = ['unmanaged', 'opportunistic', 'proactive'] as const;
export type Strategy = (typeof strategyNames)[number];

/** Which one is asked for; proactive unless given. */
export function strategyOf(strategy: unknown): Strategy {
  return strategyNames.find((name) => has(strategy, name)) ?? 'proactive';
}

/** What is kept of VMs that go. */
export function preservationOf({ scaleInStrategy }: PoolSpec): StatePreservation {
  const { proactive, opportunistic } = scaleInStrategy ?? {};
  return proactive?.statePreservation ?? opportunistic?.statePreservation ?? 'Disabled';
}

/** In words, what cannot be done as it is asked for; undefined: all can. */
export function strategyProblem(spec: PoolSpec): string | undefined {
  for (const field of ['scaleInStrategy', 'updateStrategy'] as const) {
    const given = strategyNames.filter((name) => has(spec[field], name));
    if (given.length > 1) return `spec.${field}: only one of ${given.join(', ')} can be asked for`;
  }
  if (maxUnavailableOf(spec) === undefined) return 'spec.maxUnavailable: it must be a number from 1 on, or 1% to 100%';
  for (const [field, policy] of [
    ['scaleInStrategy', spec.scaleInStrategy?.proactive?.selectionPolicy],
    ['updateStrategy', spec.updateStrategy?.proactive?.selectionPolicy],
  ] as const) {
    const problem = policyProblem(policy);
    if (problem) return `spec.${field}.proactive.selectionPolicy.${problem}`;
  }
  return undefined;
}

function policyProblem(policy: PoolSelectionPolicy | undefined): string | undefined {
  const { sortPolicy, selectors } = policy ?? {};
  if (sortPolicy !== undefined && !Object.hasOwn(orders, sortPolicy)) {
    return `sortPolicy: it must be one of ${Object.keys(orders).join(', ')}`;
  }
  const { labelSelector } = selectors ?? {};
  if (labelSelector && !readLabelSelector(labelSelector)) return 'selectors.labelSelector: it is no label selector';
  return undefined;
}

/** How many VMs may be unavailable at once; undefined: what is written is no number. */
export function maxUnavailableOf(spec: PoolSpec): number | undefined {
  const given = spec.maxUnavailable ?? '100%';
  if (typeof given === 'number') return Number.isInteger(given) && given > 0 ? given : undefined;
  const [, digits] = /^(\d{1,3})%$/.exec(given) ?? [];
  const share = Number(digits);
  if (digits === undefined || share < 1 || share > 100) return undefined;
  return Math.max(1, Math.floor((wantedReplicas({ spec }) * share) / 100));
}

const created = ({ metadata }: VirtualMachine) => Date.parse(metadata.creationTimestamp ?? '') || 0;
const index = ({ metadata }: VirtualMachine) => indexOf(metadata.name) ?? 0;

const orders: Readonly<
  Record<NonNullable<PoolSelectionPolicy['sortPolicy']>, (one: VirtualMachine, other: VirtualMachine) => number>
> = {
  AscendingOrder: (one, other) => index(one) - index(other),
  DescendingOrder: (one, other) => index(other) - index(one),
  Newest: (one, other) => created(other) - created(one),
  Oldest: (one, other) => created(one) - created(other),
  Random: () => 0,
};

/** Those that a policy means, in its order; of equals any. */
export function chosenBy(
  policy: PoolSelectionPolicy | undefined,
  vms: readonly VirtualMachine[],
  random: () => number,
): VirtualMachine[] {
  const { sortPolicy = 'Random', selectors } = policy ?? {};
  const shuffled = vms
    .map((vm) => ({ vm, at: random() }))
    .sort((one, other) => one.at - other.at)
    .map(({ vm }) => vm);
  return shuffled.filter((vm) => isMeant(selectors, vm)).sort(orders[sortPolicy] ?? orders.Random);
}

function isMeant(selectors: PoolSelectionPolicy['selectors'], { spec }: VirtualMachine): boolean {
  const { labelSelector, nodeSelectorRequirementMatcher: nodes } = selectors ?? {};
  const selector = labelSelector && readLabelSelector(labelSelector);
  if (selector && !selects(selector, spec.template?.metadata?.labels ?? {})) return false;
  const nodeSelector = memberAt(spec, 'template', 'spec', 'nodeSelector');
  return !nodes || labelMatcher(nodes)(isRecord(nodeSelector) ? (nodeSelector as Record<string, string>) : {});
}

const failingStatuses: ReadonlySet<string | undefined> = new Set([
  'CrashLoopBackOff',
  'ErrorUnschedulable',
  'DataVolumeError',
  'ErrorPvcNotFound',
  'ErrImagePull',
  'ImagePullBackOff',
]);

export interface Failing {
  /** To be replaced now. */
  readonly due: readonly VirtualMachine[];
  /** Until the next one may be due. */
  readonly nextMs: number | undefined;
}

/** VMs that autohealing replaces: too many failed starts, or not able to start for too long. */
export function failingVms({ autohealing }: PoolSpec, vms: readonly VirtualMachine[], now: Date): Failing {
  if (!autohealing) return { due: [], nextMs: undefined };
  const threshold = autohealing.startUpFailureThreshold ?? 3;
  const longestMs = parseGoDurationMs(autohealing.minFailingToStartDuration ?? '') ?? 300_000;
  const waits = vms
    .filter((vm) => !isBeingDeleted(vm))
    .map((vm) => {
      const { startFailure, printableStatus, conditions } = vm.status ?? {};
      if ((startFailure?.consecutiveFailCount ?? 0) >= threshold) return { vm, ms: 0 };
      const ready = findCondition(conditions, 'Ready');
      const since = Date.parse(ready?.lastTransitionTime ?? '');
      if (!failingStatuses.has(printableStatus) || ready?.status !== 'False' || Number.isNaN(since)) return { vm };
      return { vm, ms: Math.max(0, since + longestMs - now.getTime()) };
    });
  const later = waits.flatMap(({ ms }) => (ms !== undefined && ms > 0 ? [ms] : []));
  return {
    due: waits.filter(({ ms }) => ms === 0).map(({ vm }) => vm),
    nextMs: later.length > 0 ? Math.min(...later) : undefined,
  };
}
