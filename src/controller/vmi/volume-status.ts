import type { PersistentVolumeClaim, PersistentVolumeClaimInfo, Pod, Volume, VolumeStatus } from '../../api/index.ts';
import { isBeingDeleted, keptState, localStorage } from '../../api/index.ts';
import {
  claimNameOf,
  currentAttachment,
  fillingOf,
  type HotplugFacts,
  holderOf,
  hotplugVolumes,
  isBlockUtility,
  readyClaims,
  volumesOf,
} from '../pod/index.ts';
import type { VmiFacts } from './observation.ts';

/** Upstream's share of a claim for its file system where no CDI says another (pkg/storage/types). */
const defaultOverhead = '0.055';

/**
 * One entry per volume, sorted by name; what the agent has written into an entry stays. Texts and reasons are upstream's
 * (updateVolumeStatus in pkg/virt-controller/watch/vmi/storage.go): tools wait for them.
 */
export function volumeStatus(facts: HotplugFacts): VolumeStatus[] {
  const { vmi } = facts;
  const old = new Map((vmi.status?.volumeStatus ?? []).map((status) => [status.name, status]));
  const current = currentAttachment(facts.attachments, readyClaims(facts));
  const plugged = new Set(facts.pod ? hotplugVolumes(vmi, facts.pod).map(({ name }) => name) : []);
  const present = volumesOf(vmi).map((volume) => {
    const status = withDump(
      withClaim(old.get(volume.name) ?? { name: volume.name, target: '' }, volume, facts),
      volume,
    );
    return plugged.has(volume.name) ? pluggedStatus(status, volume, current, facts) : status;
  });
  const names = new Set(present.map(({ name }) => name));
  const leaving = [...old.values()].filter(({ name }) => !names.has(name)).flatMap((one) => leavingStatus(one, facts));
  return [...present, ...leaving].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The claim that keeps its state is no volume of the VMI; upstream's tools look for it by this entry (UpdateVolumeStatus in pkg/storage/backend-storage). */
export function withKeptState(volumes: readonly VolumeStatus[], { vmi, keptState: state }: VmiFacts): VolumeStatus[] {
  if (!('claim' in state)) return [...volumes];
  const { metadata, spec } = state.claim;
  const name = keptState.volumeStatus;
  const old = vmi.status?.volumeStatus?.find((status) => status.name === name) ?? { name, target: '' };
  const info = { claimName: metadata.name, ...(spec.accessModes && { accessModes: spec.accessModes }) };
  return [...volumes, { ...old, persistentVolumeClaimInfo: info }].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** By it the agent knows where the guest's memory goes. */
function withDump(status: VolumeStatus, { memoryDump }: Volume): VolumeStatus {
  if (!memoryDump || status.memoryDumpVolume) return status;
  return { ...status, memoryDumpVolume: { claimName: memoryDump.claimName } };
}

/** The agent and the launcher may not read claims: all they need to know stands here. */
function withClaim(status: VolumeStatus, volume: Volume, { claims }: HotplugFacts): VolumeStatus {
  const claim = claims.get(claimNameOf(volume) ?? '');
  return claim ? { ...status, persistentVolumeClaimInfo: claimInfo(claim) } : status;
}

function claimInfo({ metadata, spec, status }: PersistentVolumeClaim): PersistentVolumeClaimInfo {
  const preallocated = Object.entries(metadata.annotations ?? {}).some(([key, value]) => {
    return value === 'true' && /\/storage\.(preallocation|thick-provisioned)/.test(key);
  });
  const isLocal = metadata.annotations?.[localStorage.provisionerAnnotation] === localStorage.driver;
  return {
    claimName: metadata.name,
    ...(spec.accessModes && { accessModes: spec.accessModes }),
    ...(spec.volumeMode && { volumeMode: spec.volumeMode }),
    ...(status?.capacity && { capacity: status.capacity }),
    ...(spec.resources?.requests && { requests: spec.resources.requests }),
    ...(preallocated && { preallocated }),
    filesystemOverhead: isLocal ? '0' : defaultOverhead,
  };
}

function pluggedStatus(
  status: VolumeStatus,
  volume: Volume,
  current: Pod | undefined,
  facts: HotplugFacts,
): VolumeStatus {
  const { phase } = status;
  if (!current) {
    const stays = phase === 'Ready' || (phase === 'MountedToPod' && isStillHeld(status.name, facts));
    return stays ? withPod(status, {}) : withPod(claimState(status, volume, facts), { uid: '' });
  }
  const { name, uid = '' } = current.metadata;
  const attached = withPod(status, { name, uid: isShown(current) ? uid : '' });
  switch (phase ?? '') {
    case '':
    case 'Bound':
    case 'Pending':
      return {
        ...attached,
        phase: 'AttachedToNode',
        reason: 'SuccessfulCreate',
        message: `Created hotplug attachment pod ${name}, for volume ${status.name}`,
      };
    case 'Detaching':
    case 'UnMountedFromPod':
      // It was taken out and put back before its old pod was gone: it begins anew.
      return claimState(attached, volume, facts);
    default:
      return attached;
  }
}

/** An older pod holds it until its successor is there: nothing has changed for the launcher. Upstream begins anew. */
function isStillHeld(volume: string, { attachments }: HotplugFacts): boolean {
  const holder = holderOf(volume, attachments);
  return holder?.status?.phase === 'Running' && !isBeingDeleted(holder);
}

function withPod(status: VolumeStatus, { name, uid }: { readonly name?: string; readonly uid?: string }): VolumeStatus {
  const { hotplugVolume } = status;
  return {
    ...status,
    hotplugVolume: {
      ...hotplugVolume,
      ...(name !== undefined && { attachPodName: name }),
      ...(uid !== undefined && { attachPodUID: uid }),
    },
  };
}

/** Its program runs, so that the agent finds the volumes. */
function isShown({ status }: Pod): boolean {
  const containers = status?.containerStatuses ?? [];
  return containers.length === 1 && containers[0]?.ready === true;
}

function claimState(status: VolumeStatus, volume: Volume, facts: HotplugFacts): VolumeStatus {
  const { vmi, claims } = facts;
  const name = claimNameOf(volume) ?? '';
  const claim = claims.get(name);
  if (!claim) return { ...status, phase: 'Pending', reason: 'FailedPvcNotFound', message: `PVC ${name} not found` };
  const reason = 'PVCNotReady';
  if (isBlockUtility(vmi, volume.name, claim)) {
    const message = `Utility volume PVC ${name} must be filesystem mode, not block mode`;
    return { ...status, phase: 'Pending', reason, message };
  }
  const filling = fillingOf(name, facts);
  const more = filling && filling.state !== 'filled' ? `; ${filling.detail}` : '';
  switch (claim.status?.phase ?? 'Pending') {
    case 'Pending':
      return { ...status, phase: 'Pending', reason, message: `PVC is in phase ClaimPending${more}` };
    case 'Bound':
      return { ...status, phase: 'Bound', reason, message: `PVC is in phase Bound${more}` };
    default:
      return { ...status, phase: 'Pending', reason, message: 'PVC is in phase Lost' };
  }
}

/**
 * A volume that the VMI no longer has keeps its entry until its pod is gone. The agent alone ends Ready and MountedToPod: it
 * has taken the disk from the guest then.
 */
function leavingStatus(status: VolumeStatus, { attachments }: HotplugFacts): VolumeStatus[] {
  const isAgents = status.phase === 'Ready' || status.phase === 'MountedToPod';
  const holder = holderOf(status.name, attachments);
  if (!status.hotplugVolume) return [];
  if (!holder) return isAgents ? [status] : [];
  const { name, uid = '' } = holder.metadata;
  const held = withPod(status, { name, uid });
  if (isAgents) return [held];
  const leaving: VolumeStatus = { ...held, phase: 'Detaching' };
  if (!isBeingDeleted(holder)) return [leaving];
  const message = `Deleted hotplug attachment pod ${name}, for volume ${status.name}`;
  return [{ ...leaving, reason: 'SuccessfulDelete', message }];
}
