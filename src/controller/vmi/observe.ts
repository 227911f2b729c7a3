import {
  isFinal,
  type Key,
  keyOf,
  labelQuery,
  type PersistentVolumeClaim,
  type Pod,
  parseKey,
  resources,
  tscNeed,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { getIfThere, type Informer, type KubeClient } from '../../kube/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';
import type { ClaimFilling, DataVolumes } from '../data-volumes/index.ts';
import { claimsByVm, observeKeptState } from '../kept-state/index.ts';
import {
  type AttachmentPod,
  type AttachmentPods,
  type Claims,
  claimAtStart,
  type LauncherPods,
  podFacts,
  usedClaimOf,
  volumesOf,
} from '../pod/index.ts';
import { orUnclear } from '../reconciling.ts';
import { vmiProblem } from './check.ts';
import { isUnprocessed } from './decide.ts';
import type { OtherPods, VmiObservation } from './observation.ts';

/** Index of the pod informer: UID of the controlling VMI. */
export const podsByVmi = 'vmi';
/** Index of the pod informer: key of the VMI that the pod names as its controller. */
const podsByVmiName = 'vmi-name';

/** Index of the pod informer: UID of the launcher pod that an attachment pod belongs to. */
const podsByLauncher = 'launcher';

export const podIndexes = {
  [podsByLauncher]: (pod: Pod) => {
    const owner = pod.metadata.ownerReferences?.find(({ controller }) => controller);
    return owner?.kind === resources.pods.kind ? [owner.uid] : [];
  },
  [podsByVmi]: (pod: Pod) => vmiOwners(pod).map(({ uid }) => uid),
  [podsByVmiName]: (pod: Pod) => vmiOwners(pod).map(({ name }) => `${pod.metadata.namespace}/${name}`),
};

/** Index of the VMI informer: keys of the claims that its volumes are on. */
export const vmisByClaim = 'claim';
export const vmiIndexes = {
  [vmisByClaim]: (vmi: VirtualMachineInstance) =>
    volumesOf(vmi).flatMap((volume) => {
      const claim = usedClaimOf(volume);
      return claim === undefined ? [] : [`${vmi.metadata.namespace}/${claim}`];
    }),
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
  /** The same with what was written and the cache does not show yet. */
  readonly ownPods: Pick<ReadYourWrites<Pod>, 'pending' | 'get'>;
  readonly launchers: LauncherPods;
  /** With `keptStateIndexes`. */
  readonly claims: Pick<Informer<PersistentVolumeClaim>, 'get' | 'byIndex'>;
  readonly dataVolumes: Pick<DataVolumes, 'fillingOf'>;
  readonly attachmentPods: AttachmentPods;
  readonly config: () => ControllerConfig;
  /** What a new guest gets, in hertz; 0: no node tells one. */
  readonly tscFrequency: () => number;
  readonly clock: Clock;
}

/** Reads the caches; the API itself only where a cache that lags behind would make a decision wrong for good. */
export async function observeVmi(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<VmiObservation> {
  const known = { key, uid: deps.vmis.get(key)?.metadata.uid ?? '', now: deps.clock.now() };
  return orUnclear(known, () => observe(key, deps, signal), signal);
}

async function observe(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<VmiObservation> {
  const { vmis, vms, pods, launchers, config, clock } = deps;
  const vmi = vmis.get(key);
  const orphans = await orphansOf(key, vmi, deps, signal);
  const now = clock.now();
  if (!vmi) return { kind: 'absent', key, uid: '', now, orphans };
  const { uid = '' } = vmi.metadata;
  const { own, foreign } = launchers.sort(vmi, asWritten(pods.byIndex(podsByVmi, uid), deps));
  // A VM looks after the VMI of its own name only: one that names another VM would wait for it for ever.
  const owner = vmi.metadata.ownerReferences?.find(({ controller }) => controller);
  const lasting = own.filter((each) => !podFacts.isTemporary(each));
  const pod = podFacts.currentPod(placeless(vmi), lasting);
  const claims = claimsOf(vmi, deps);
  const plugged = attachmentsOf(vmi, pod, deps);
  const atStart = new Set(volumesOf(vmi).flatMap((volume) => claimAtStart(volume) ?? []));
  return {
    kind: 'present',
    key,
    uid,
    now,
    vmi,
    pods: own,
    foreignPods: foreign,
    newForeignPods: launchers.newForeign(vmi, foreign),
    temporaryPod: podFacts.currentPod(vmi, own.filter(podFacts.isTemporary)),
    pod,
    attachments: plugged.filter(({ pod: each }) => !podFacts.isTemporary(each)),
    triggers: plugged.filter(({ pod: each }) => podFacts.isTemporary(each)),
    claims,
    fillings: fillingsOf(atStart, claims, deps),
    pluggedFillings: fillingsOf(new Set([...claims.keys()].filter((name) => !atStart.has(name))), claims, deps),
    orphans,
    keptState: await observeKeptState(vmi, {
      client: deps.client,
      claims: deps.claims.byIndex(claimsByVm, key),
      signal,
    }),
    otherPods: pod ? 'none' : await otherPodsOf(vmi, own, deps, signal),
    problem: isUnprocessed(vmi) && !vmi.metadata.deletionTimestamp ? vmiProblem(vmi) : undefined,
    tscFrequency: awaitsTscFrequency(vmi, config()) ? deps.tscFrequency() : undefined,
    hasOwnerVm: owner !== undefined && vms.get(keyOf(vmi))?.metadata.uid === owner.uid,
    config: config(),
  };
}

/** A VMI that waits for a guest once more says where it was to run: the next pod for it may be anywhere. */
function placeless(vmi: VirtualMachineInstance): VirtualMachineInstance {
  if (vmi.status?.phase !== 'WaitingForSync') return vmi;
  const { nodeName: _node, ...status } = vmi.status;
  return { ...vmi, status };
}

/** What this process wrote into a pod is not written again because the cache is behind. */
function asWritten(cached: readonly Pod[], { ownPods }: ObserveDeps): Pod[] {
  return cached.map((pod) => {
    const written = ownPods.get(keyOf(pod));
    return written && written.metadata.uid === pod.metadata.uid ? written : pod;
  });
}

/** Only processors of this architecture have such a counter. */
function awaitsTscFrequency(vmi: VirtualMachineInstance, { architecture }: ControllerConfig): boolean {
  const { spec, status, metadata } = vmi;
  if (tscNeed(vmi) === undefined || status?.topologyHints || metadata.deletionTimestamp) return false;
  return isUnprocessed(vmi) && (spec.architecture || architecture) === 'amd64';
}

/** With those of which the cache has not shown the creation yet: no second one is made for the same claims. */
function attachmentsOf(vmi: VirtualMachineInstance, pod: Pod | undefined, deps: ObserveDeps): AttachmentPod[] {
  const { pods, ownPods, attachmentPods } = deps;
  const { uid } = pod?.metadata ?? {};
  if (uid === undefined) return [];
  const unseen = attachmentPods.madeKeys(vmi).flatMap((key) => {
    const made = ownPods.pending(key) === 'create' ? ownPods.get(key) : undefined;
    return made && podFacts.controllerUid(made) === uid ? [made] : [];
  });
  const shown = pods.byIndex(podsByLauncher, uid).filter(({ metadata }) => {
    return (
      metadata.namespace === vmi.metadata.namespace && !unseen.some((each) => each.metadata.name === metadata.name)
    );
  });
  return [...shown, ...unseen].map((each) => ({ pod: each, isOwn: attachmentPods.isOwn(vmi, each) }));
}

function claimsOf(vmi: VirtualMachineInstance, { claims }: ObserveDeps): Claims {
  const found = new Map<string, PersistentVolumeClaim>();
  for (const volume of volumesOf(vmi)) {
    const name = usedClaimOf(volume);
    const claim = name === undefined ? undefined : claims.get(`${vmi.metadata.namespace}/${name}`);
    if (name !== undefined && claim) found.set(name, claim);
  }
  return found;
}

function fillingsOf(names: ReadonlySet<string>, claims: Claims, { dataVolumes }: ObserveDeps): ClaimFilling[] {
  return [...names].flatMap((name) => {
    const claim = claims.get(name);
    return claim ? (dataVolumes.fillingOf(claim) ?? []) : [];
  });
}

/** No VMI gets a second pod, and none is failed, on the word of a cache that does not show yet what was made. */
async function otherPodsOf(
  vmi: VirtualMachineInstance,
  cached: readonly Pod[],
  { client, launchers, ownPods }: ObserveDeps,
  signal: AbortSignal,
): Promise<OtherPods> {
  const made = [launchers.podKey(vmi), launchers.temporaryPodKey(vmi)];
  if (made.some((key) => ownPods.pending(key) === 'create')) return 'unseen';
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
