import {
  isBeingDeleted,
  isUtilityVolume,
  type PersistentVolumeClaim,
  type Pod,
  type VirtualMachineInstance,
  type Volume,
  type VolumeStatus,
} from '../../api/index.ts';
import { isRecord, listOf } from '../../base/index.ts';
import type { AttachedClaim } from './attachment-pods.ts';
import { podFacts } from './facts.ts';

/** A pod whose controller is the VMI's launcher pod. */
export interface AttachmentPod {
  readonly pod: Pod;
  /** KubeVirt made it; what another one says is not believed. */
  readonly isOwn: boolean;
}

export type Claims = ReadonlyMap<string, PersistentVolumeClaim>;

/** How far a DataVolume has filled a claim, in words for its user, too. */
export interface PluggedFilling {
  readonly claim: string;
  readonly state: string;
  readonly detail: string;
}

export interface HotplugFacts {
  readonly vmi: VirtualMachineInstance;
  readonly pod: Pod | undefined;
  readonly attachments: readonly AttachmentPod[];
  /** Those of the VMI that are there, by name. */
  readonly claims: Claims;
  /** Of the claims that DataVolumes fill; absent: only what the claims say of it counts. */
  readonly pluggedFillings?: readonly PluggedFilling[];
}

/** The agent has them in the launcher: their attachment must not end. */
const attachedPhases: readonly (string | undefined)[] = ['MountedToPod', 'Ready'];

/** The claim of a volume, as far as the volume can be plugged in (upstream: PVCNameFromVirtVolume in pkg/storage/types). */
export function claimNameOf({ persistentVolumeClaim, dataVolume, memoryDump }: Volume): string | undefined {
  const name: unknown = persistentVolumeClaim?.claimName ?? dataVolume?.name ?? memoryDump?.claimName;
  return typeof name === 'string' && name !== '' ? name : undefined;
}

/** Also of those below an ephemeral layer, which no guest gets while it runs. */
export function usedClaimOf(volume: Volume): string | undefined {
  return claimNameOf(volume) ?? (volume.ephemeral && claimNameOf({ name: volume.name, ...volume.ephemeral }));
}

/** Of a volume that the launcher pod brings along. */
export function claimAtStart(volume: Volume): string | undefined {
  const { persistentVolumeClaim, dataVolume, memoryDump } = volume;
  const isPlugged = persistentVolumeClaim?.hotpluggable || dataVolume?.hotpluggable || memoryDump !== undefined;
  return isPlugged ? undefined : usedClaimOf(volume);
}

/**
 * With those that the launcher itself writes to (`spec.utilityVolumes`), which come as plugged ones do. A bare API server takes anything for
 * a list, also when the guest runs already.
 */
export function volumesOf({ spec }: VirtualMachineInstance): readonly Volume[] {
  const volumes = listOf(spec?.volumes).filter((volume): volume is Volume => isNamed(volume));
  const names = new Set(volumes.map(({ name }) => name));
  return [...volumes, ...utilityVolumesOf(spec).filter(({ name }) => !names.has(name))];
}

const isNamed = (volume: unknown): volume is Readonly<Record<string, unknown>> & { readonly name: string } =>
  isRecord(volume) && typeof volume.name === 'string';

function utilityVolumesOf(spec: VirtualMachineInstance['spec']): Volume[] {
  return listOf(spec?.utilityVolumes).flatMap((volume) => {
    if (!isNamed(volume) || typeof volume.claimName !== 'string') return [];
    const { name, claimName } = volume;
    return [{ name, persistentVolumeClaim: { claimName, hotpluggable: true } }];
  });
}

/** The launcher writes files to it: a block device has no directory for them. */
export function isBlockUtility(
  vmi: VirtualMachineInstance,
  name: string,
  claim: PersistentVolumeClaim | undefined,
): boolean {
  return claim?.spec.volumeMode === 'Block' && isUtilityVolume(vmi, name);
}

/** Volumes that the launcher pod does not bring along. */
export function hotplugVolumes(vmi: VirtualMachineInstance, launcher: Pod): Volume[] {
  const inPod = new Set((launcher.spec.volumes ?? []).map(({ name }) => name));
  return volumesOf(vmi).filter((volume) => claimNameOf(volume) !== undefined && !inPod.has(volume.name));
}

/**
 * The claims that one attachment pod shall hold. A claim that waits for its first consumer is one of them, since the pod is what it waits
 * for. A volume that the guest has stays, also when its claim is not in the cache: its disk must not be pulled.
 */
export function readyClaims(facts: HotplugFacts): AttachedClaim[] {
  const { vmi, pod, claims } = facts;
  if (!pod) return [];
  return hotplugVolumes(vmi, pod).flatMap((volume) => {
    const claim = claimNameOf(volume) ?? '';
    const object = claims.get(claim);
    const status = volumeStatusOf(vmi, volume.name);
    const isMounted = attachedPhases.includes(status?.phase);
    if (!isMounted && (!isUsable(object, fillingOf(claim, facts)) || isBlockUtility(vmi, volume.name, object)))
      return [];
    const mode = object?.spec.volumeMode ?? status?.persistentVolumeClaimInfo?.volumeMode;
    const claimUid = object?.metadata.uid ?? '';
    return [{ volume: volume.name, claim, isBlock: mode === 'Block', isMounted, claimUid }];
  });
}

export function fillingOf(claim: string, { pluggedFillings = [] }: HotplugFacts): PluggedFilling | undefined {
  return pluggedFillings.find((filling) => filling.claim === claim);
}

/** Claims that are filled when a pod that uses them has a node; the guest gets them after that. */
export function claimsAwaitingConsumer(facts: HotplugFacts): string[] {
  if (!facts.pod) return [];
  const claims = hotplugVolumes(facts.vmi, facts.pod).map((volume) => claimNameOf(volume) ?? '');
  return [...new Set(claims)].filter((claim) => fillingOf(claim, facts)?.state === 'awaits-consumer');
}

/** A pod that is there for its claims' sake alone. */
export function claimsHeldBy(pod: Pod): string[] {
  return [...heldClaims(pod).values()];
}

const populationPhase = 'cdi.kubevirt.io/storage.pod.phase';

/** A DataVolume fills its claim first (containerized-data-importer). */
function isUsable(claim: PersistentVolumeClaim | undefined, filling: PluggedFilling | undefined): boolean {
  if (!claim || isBeingDeleted(claim) || claim.status?.phase === 'Lost') return false;
  // One that waits for its population is bound with the pod that uses it.
  if (filling) return filling.state === 'filled';
  const isFilled = claim.metadata.ownerReferences?.some(({ kind, controller }) => controller && kind === 'DataVolume');
  const population = claim.metadata.annotations?.[populationPhase];
  if (!isFilled) return true;
  return claim.status?.phase === 'Bound' && (population === undefined || population === 'Succeeded');
}

/** The pod that holds exactly these claims, the newest of several; undefined: there is none that will do. */
export function currentAttachment(
  attachments: readonly AttachmentPod[],
  wanted: readonly AttachedClaim[],
): Pod | undefined {
  if (wanted.length === 0) return undefined;
  const fitting = attachments.filter(({ pod, isOwn }) => {
    return isOwn && !isBeingDeleted(pod) && !podFacts.isFinal(pod) && holds(pod, wanted);
  });
  return newestFirst(fitting)[0]?.pod;
}

function holds(pod: Pod, wanted: readonly AttachedClaim[]): boolean {
  const held = heldClaims(pod);
  return held.size === wanted.length && wanted.every(({ volume, claim }) => held.get(volume) === claim);
}

function heldClaims({ spec }: Pod): Map<string, string> {
  return new Map(
    (spec.volumes ?? []).flatMap(({ name, persistentVolumeClaim }) =>
      persistentVolumeClaim ? [[name, persistentVolumeClaim.claimName] as const] : [],
    ),
  );
}

/** An own pod on its way holds claims; a second one beside it would have to wait for it. */
export function hasPendingAttachment(attachments: readonly AttachmentPod[]): boolean {
  return attachments.some(({ pod, isOwn }) => {
    return isOwn && !['Running', 'Succeeded', 'Failed'].includes(pod.status?.phase ?? 'Pending');
  });
}

/**
 * Pods that are no longer needed (upstream: cleanupAttachmentPods in pkg/virt-controller/watch/vmi/volume-hotplug.go). The newest running one
 * stays until its successor runs, and each stays as long as the agent has not let go of a volume of it.
 */
export function supersededAttachments(
  { vmi, attachments }: HotplugFacts,
  current: Pod | undefined,
  wanted: readonly AttachedClaim[],
): Pod[] {
  const needsFallback = wanted.length > 0 && current?.status?.phase !== 'Running';
  const old = newestFirst(attachments.filter(({ pod }) => pod.metadata.uid !== current?.metadata.uid));
  const fallback = needsFallback ? old.find((each) => canFallBack(each, wanted)) : undefined;
  return old
    .filter((each) => each !== fallback && !isBeingDeleted(each.pod) && !isHeldByAgent(vmi, each.pod, wanted))
    .map(({ pod }) => pod);
}

function canFallBack({ pod }: AttachmentPod, wanted: readonly AttachedClaim[]): boolean {
  const held = heldClaims(pod);
  return pod.status?.phase === 'Running' && !isBeingDeleted(pod) && wanted.some(({ volume }) => held.has(volume));
}

/** A volume that was taken out of the VMI and is in the guest still. */
function isHeldByAgent(vmi: VirtualMachineInstance, pod: Pod, wanted: readonly AttachedClaim[]): boolean {
  const kept = new Set(wanted.map(({ volume }) => volume));
  return [...heldClaims(pod).keys()].some((name) => {
    const status = volumeStatusOf(vmi, name);
    return !kept.has(name) && status?.hotplugVolume && attachedPhases.includes(status.phase);
  });
}

/** The attachment pod that holds a volume which the VMI no longer has. */
export function holderOf(volume: string, attachments: readonly AttachmentPod[]): Pod | undefined {
  return newestFirst(attachments).find(({ pod, isOwn }) => isOwn && heldClaims(pod).has(volume))?.pod;
}

function newestFirst(attachments: readonly AttachmentPod[]): AttachmentPod[] {
  const created = ({ pod }: AttachmentPod) => Date.parse(pod.metadata.creationTimestamp ?? '') || 0;
  return [...attachments].sort((a, b) => created(b) - created(a));
}

function volumeStatusOf(vmi: VirtualMachineInstance, name: string): VolumeStatus | undefined {
  return vmi.status?.volumeStatus?.find((status) => status.name === name);
}
