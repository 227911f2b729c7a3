import {
  isBeingDeleted,
  type Key,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VolumeSnapshotStatus,
} from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { getIfThere, type KubeClient } from '../../kube/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';
import { type Lookup, type Referred, referredBy, startedFrom } from '../instancetypes/index.ts';
import { orUnclear } from '../reconciling.ts';
import { type DataVolumeDeps, disksState, templateFacts } from './data-volume-facts.ts';
import { liveChanges } from './live-changes.ts';
import type { PresentVm, VmObservation } from './observation.ts';
import { needsRestart } from './start-changes.ts';
import type { StartSpecs } from './start-revision.ts';

/** What the cluster says that a VM's controller goes by. */
export type VmConfig = Pick<
  ControllerConfig,
  | 'declarativeHotplug'
  | 'rolloutStrategy'
  | 'cpuAllocationRatio'
  | 'architecture'
  | 'defaultInterfaceBinding'
  | 'noDecentralisedMigration'
  | 'referencePolicy'
  | 'synced'
  | 'changeTracking'
>;

export interface ObserveDeps extends DataVolumeDeps {
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly clock: Clock;
  readonly config: () => VmConfig;
  readonly startSpecs: Pick<StartSpecs, 'of'>;
  readonly instancetypes: Pick<Lookup, 'find'>;
  /** Undefined: it is not known yet. */
  readonly volumeStatuses: {
    of(vm: VirtualMachine, signal: AbortSignal): Promise<readonly VolumeSnapshotStatus[] | undefined>;
  };
}

/** A VM and its VMI have the same key. */
export async function observeVm(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<VmObservation> {
  const { vms, clock } = deps;
  const now = clock.now();
  const vm = vms.get(key);
  if (!vm) return { kind: 'absent', key, uid: '', now };
  const base = { key, uid: vm.metadata.uid ?? '', now };
  return orUnclear(base, () => observe(vm, base, deps, signal), signal);
}

async function observe(
  vm: VirtualMachine,
  base: Pick<PresentVm, 'key' | 'uid' | 'now'>,
  deps: ObserveDeps,
  signal: AbortSignal,
): Promise<PresentVm> {
  const { key } = base;
  const { vmis } = deps;
  const { own, adoptable } = claim(vm, vmis.get(key));
  const pending = vmis.pending(key);
  // The overlay shows a VMI that was just created; what is stored about the VM waits for the cache, as upstream's does.
  const vmi = pending === 'create' ? undefined : (own ?? (await unseenVmi(vm, adoptable, deps, signal)));
  const expected = { creationExpected: pending === 'create', deletionExpected: pending === 'delete' };
  const config = deps.config();
  const { declarativeHotplug: plugsVolumes, rolloutStrategy: strategy, cpuAllocationRatio, referencePolicy } = config;
  const none: Referred = { kind: 'none' };
  const referred = isBeingDeleted(vm) ? none : await referredBy(vm, deps.instancetypes, config, signal);
  const dataVolumes = isBeingDeleted(vm) ? [] : await templateFacts(vm, deps, signal);
  const disks = disksState(vm, deps.dataVolumes);
  const volumeStatuses = isBeingDeleted(vm) ? undefined : await deps.volumeStatuses.of(vm, signal);
  const whole = wholeVm(vm, referred);
  const startSpec = whole && (await wholeStartSpec(vm, vmi, deps, signal));
  const isChanged = vmi && startSpec && needsRestart(startSpec, whole, vmi, strategy);
  const changes = whole ? liveChanges(whole, vmi, { strategy, cpuAllocationRatio }, isChanged) : [];
  return {
    kind: 'present',
    ...base,
    vm,
    vmi,
    adoptable,
    plugsVolumes,
    noReceiving: config.noDecentralisedMigration,
    referred,
    referencePolicy,
    synced: config.synced,
    changeTracking: config.changeTracking,
    dataVolumes,
    disks,
    volumeStatuses,
    changes,
    isChanged,
    ...expected,
  };
}

/** Undefined: what its instance type and preference say is not known, or cannot be. */
function wholeVm(vm: VirtualMachine, referred: Referred): VirtualMachine | undefined {
  if (referred.kind === 'none') return vm;
  return referred.kind === 'found' ? referred.whole : undefined;
}

/** With what the instance type and the preference said then. */
async function wholeStartSpec(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  { startSpecs, instancetypes, config }: ObserveDeps,
  signal: AbortSignal,
): Promise<VirtualMachine['spec'] | undefined> {
  const spec = await startSpecs.of(vm, vmi, signal);
  return spec && startedFrom(vm, spec, instancetypes, config(), signal);
}

interface Claim {
  readonly own?: VirtualMachineInstance;
  readonly adoptable?: VirtualMachineInstance;
}

/** Ours by owner reference; without any owner it is taken over by its name; another's is not seen. */
function claim(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): Claim {
  if (!vmi) return {};
  const owner = vmi.metadata.ownerReferences?.find(({ controller }) => controller);
  if (owner) return owner.uid === vm.metadata.uid ? { own: vmi } : {};
  return isBeingDeleted(vm) || isBeingDeleted(vmi) ? {} : { adoptable: vmi };
}

/** A VM that is deleted takes its VMI along: the API is asked, because a VMI just made may not be in the cache. */
async function unseenVmi(
  vm: VirtualMachine,
  adoptable: VirtualMachineInstance | undefined,
  { client }: ObserveDeps,
  signal: AbortSignal,
): Promise<VirtualMachineInstance | undefined> {
  if (!isBeingDeleted(vm) || adoptable || isOrphaning(vm)) return undefined;
  return liveVmi(vm, client, signal);
}

/** Deleted with `--cascade=orphan`: the VMI stays. */
export function isOrphaning(vm: VirtualMachine): boolean {
  return vm.metadata.finalizers?.includes('orphan') === true;
}

/** Asked from the API, and only if it belongs to this VM. */
export async function liveVmi(
  vm: VirtualMachine,
  client: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<VirtualMachineInstance | undefined> {
  const type = resources.virtualMachineInstances;
  const vmi = await getIfThere<VirtualMachineInstance>(client, type, vm.metadata, { signal });
  const isOurs = vmi?.metadata.ownerReferences?.some(({ uid, controller }) => controller && uid === vm.metadata.uid);
  return isOurs ? vmi : undefined;
}
