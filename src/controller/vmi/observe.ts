import {
  isFinal,
  type Key,
  keyOf,
  labelQuery,
  type Pod,
  parseKey,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { type Clock, errorMessage } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { getIfThere, type Informer, isKubeError, type KubeClient } from '../../kube/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';
import { type LauncherPods, podFacts } from '../pod/index.ts';
import { vmiProblem } from './check.ts';
import { isUnprocessed } from './decide.ts';
import type { OtherPods, VmiObservation } from './observation.ts';

/** Index of the pod informer: UID of the controlling VMI. */
const podsByVmi = 'vmi';
/** Index of the pod informer: key of the VMI that the pod names as its controller. */
const podsByVmiName = 'vmi-name';

export const podIndexes = {
  [podsByVmi]: (pod: Pod) => vmiOwners(pod).map(({ uid }) => uid),
  [podsByVmiName]: (pod: Pod) => vmiOwners(pod).map(({ name }) => `${pod.metadata.namespace}/${name}`),
};

function vmiOwners(pod: Pod): { uid: string; name: string }[] {
  const kind = resources.virtualMachineInstances.kind;
  return (pod.metadata.ownerReferences ?? []).filter((owner) => owner.controller && owner.kind === kind);
}

export interface ObserveDeps {
  readonly client: Pick<KubeClient, 'get' | 'list'>;
  readonly vmis: { get(key: Key): VirtualMachineInstance | undefined };
  readonly vms: { get(key: Key): VirtualMachine | undefined };
  /** Launcher pods, with `podIndexes`. */
  readonly pods: Pick<Informer<Pod>, 'byIndex'>;
  /** The same with the creations that the cache does not show yet. */
  readonly ownPods: Pick<ReadYourWrites<Pod>, 'pending'>;
  readonly launchers: LauncherPods;
  readonly config: () => ControllerConfig;
  readonly clock: Clock;
}

/** Reads the caches; the API itself only where a cache that lags behind would make a decision wrong for good. */
export async function observeVmi(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<VmiObservation> {
  try {
    return await observe(key, deps, signal);
  } catch (error) {
    if (signal.aborted || !isKubeError(error)) throw error;
    const uid = deps.vmis.get(key)?.metadata.uid ?? '';
    return { kind: 'unclear', key, uid, now: deps.clock.now(), reason: errorMessage(error) };
  }
}

async function observe(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<VmiObservation> {
  const { vmis, vms, pods, launchers, config, clock } = deps;
  const vmi = vmis.get(key);
  const orphans = await orphansOf(key, vmi, deps, signal);
  const now = clock.now();
  if (!vmi) return { kind: 'absent', key, uid: '', now, orphans };
  const { uid = '' } = vmi.metadata;
  const { own, foreign } = launchers.sort(vmi, pods.byIndex(podsByVmi, uid));
  // A VM looks after the VMI of its own name only: one that names another VM would wait for it for ever.
  const owner = vmi.metadata.ownerReferences?.find(({ controller }) => controller);
  const lasting = own.filter((each) => !podFacts.isTemporary(each));
  const pod = podFacts.currentPod(vmi, lasting);
  return {
    kind: 'present',
    key,
    uid,
    now,
    vmi,
    pods: own,
    foreignPods: foreign,
    newForeignPods: launchers.newForeign(vmi, foreign),
    pod,
    orphans,
    otherPods: pod ? 'none' : await otherPodsOf(vmi, own, deps, signal),
    problem: isUnprocessed(vmi) && !vmi.metadata.deletionTimestamp ? vmiProblem(vmi) : undefined,
    hasOwnerVm: owner !== undefined && vms.get(keyOf(vmi))?.metadata.uid === owner.uid,
    config: config(),
  };
}

/** No VMI gets a second pod, and none is failed, on the word of a cache that does not show yet what was made. */
async function otherPodsOf(
  vmi: VirtualMachineInstance,
  cached: readonly Pod[],
  { client, launchers, ownPods }: ObserveDeps,
  signal: AbortSignal,
): Promise<OtherPods> {
  if (ownPods.pending(launchers.podKey(vmi)) === 'create') return 'unseen';
  if (isUnprocessed(vmi) || isFinal(vmi)) return 'none';
  const { namespace, uid = '' } = vmi.metadata;
  const { items } = await client.list<Pod>(resources.pods, {
    namespace,
    labelSelector: labelQuery({ key: 'kubevirt.io/created-by', operator: 'In', values: [uid] }),
    signal,
  });
  const node = vmi.status?.nodeName;
  const found = launchers.sort(vmi, items).own.filter(({ spec }) => !node || spec.nodeName === node);
  if (found.length === 0) return 'none';
  const shown = new Set(cached.map(({ metadata }) => metadata.uid));
  return found.every(({ metadata }) => shown.has(metadata.uid)) ? 'cached' : 'unseen';
}

/** Pods whose VMI is no more. The API is asked, not the cache. */
async function orphansOf(
  key: Key,
  vmi: VirtualMachineInstance | undefined,
  { client, pods }: ObserveDeps,
  signal: AbortSignal,
): Promise<readonly Pod[]> {
  const ref = parseKey(key);
  const claimed = pods.byIndex(podsByVmiName, key).filter((pod) => {
    return podFacts.controllerUid(pod) !== vmi?.metadata.uid && !pod.metadata.deletionTimestamp;
  });
  if (claimed.length === 0 || !ref) return [];
  const live = await getIfThere<VirtualMachineInstance>(client, resources.virtualMachineInstances, ref, { signal });
  return claimed.filter((pod) => podFacts.controllerUid(pod) !== live?.metadata.uid);
}
