import { isRecord, listOf, memberAt } from '../base/index.ts';
import type { Domain } from './domain.ts';
import type { Interface, VirtualMachineInstance, VmiInterfaceStatus, VolumeStatus } from './vmi.ts';

/** A volume that comes to a running launcher through an attachment pod, as the VMI's status has it. */
export interface HotPlugVolume {
  readonly name: string;
  /** Empty: there is none yet. */
  readonly attachPodUid: string;
  readonly phase: unknown;
  /** The VMI asks for it. */
  readonly isWanted: boolean;
  /** The domain has its disk. */
  readonly isAttached: boolean;
}

/** Every field may have any type: nobody checks the status. */
export function hotPlugVolumesOf(vmi: VirtualMachineInstance): HotPlugVolume[] {
  return (vmi.status?.volumeStatus ?? []).flatMap(({ name, phase, target, hotplugVolume }) => {
    if (!hotplugVolume) return [];
    const attachPodUid = memberAt(hotplugVolume, 'attachPodUID');
    return {
      name,
      attachPodUid: typeof attachPodUid === 'string' ? attachPodUid : '',
      phase,
      isWanted: isVolumeOf(vmi, name),
      isAttached: typeof target === 'string' && target !== '',
    };
  });
}

/** Among its volumes, or among those for its own use (`spec.utilityVolumes`). */
export function isVolumeOf({ spec }: VirtualMachineInstance, name: string): boolean {
  return [...(spec?.volumes ?? []), ...listOf(spec?.utilityVolumes)].some(
    (volume) => memberAt(volume, 'name') === name,
  );
}

/** What it is in the launcher: a device node, an image file, or a directory that the launcher writes files to. */
export type HotPlugKind = 'block' | 'file' | 'directory';

/** As upstream decides it in pkg/virt-handler/hotplug-disk/mount.go. */
export function hotPlugKindOf(vmi: VirtualMachineInstance, name: string, nodeName: string): HotPlugKind {
  if (isBlock(vmi, name, nodeName)) return 'block';
  return isUtilityVolume(vmi, name) || isMemoryDump(vmi, name) ? 'directory' : 'file';
}

export function isUtilityVolume({ spec }: VirtualMachineInstance, name: string): boolean {
  return listOf(spec?.utilityVolumes).some((volume) => memberAt(volume, 'name') === name);
}

function isMemoryDump({ spec, status }: VirtualMachineInstance, name: string): boolean {
  if (spec?.volumes?.some((volume) => volume.name === name && volume.memoryDump)) return true;
  return statusOf(status?.volumeStatus, name)?.memoryDumpVolume !== undefined;
}

/** A volume that changes its claim with a migration has the mode of the claim that it has on this node. */
function isBlock({ status }: VirtualMachineInstance, name: string, nodeName: string): boolean {
  const isTarget = status?.migrationState?.targetNode === nodeName;
  const moved = listOf(status?.migratedVolumes).find((each) => memberAt(each, 'volumeName') === name);
  const claim = memberAt(moved, isTarget ? 'destinationPVCInfo' : 'sourcePVCInfo');
  if (isRecord(claim)) return claim.volumeMode === 'Block';
  return statusOf(status?.volumeStatus, name)?.persistentVolumeClaimInfo?.volumeMode === 'Block';
}

function statusOf(volumes: readonly VolumeStatus[] | undefined, name: string): VolumeStatus | undefined {
  return volumes?.find((volume) => volume.name === name);
}

/** Disks of a domain by the names of their volumes, with their targets; an empty drive has none of its volume's. */
export function diskTargetsOf(domain: Domain): Map<string, string> {
  const targets = new Map<string, string>();
  for (const { Alias: alias, Source: source, Target: target } of domain.Spec?.Devices?.Disks ?? []) {
    // A disk without alias has no volume; upstream's process dies on it.
    if (alias?.Name && (source?.File || source?.Dev)) targets.set(alias.Name, target?.Device ?? '');
  }
  return targets;
}

/** With it begin the names of passed-through network devices in a domain. */
export const sriovAliasPrefix = 'sriov-';

/** Interfaces that are a device of the machine. */
export function sriovInterfaces({ spec }: VirtualMachineInstance): Interface[] {
  return (spec?.domain?.devices?.interfaces ?? []).filter(({ sriov, state }) => sriov && state !== 'absent');
}

/** Names of those whose device the domain has. */
export function sriovInterfacesOf(domain: Domain): Set<string> {
  const aliases = (domain.Spec?.Devices?.HostDevices ?? []).map(({ Alias: alias }) => alias?.Name ?? '');
  const ours = aliases.filter((name) => name.startsWith(sriovAliasPrefix));
  return new Set(ours.map((name) => name.slice(sriovAliasPrefix.length)));
}

/** Those whose device the pod has: by the word of Multus, which knows nothing of claims. */
export function sriovInterfacesInPod(vmi: VirtualMachineInstance): Interface[] {
  const reported = (vmi.status?.interfaces ?? []).filter(isReportedByMultus);
  const claimed = (vmi.spec?.networks ?? []).filter(({ resourceClaim }) => resourceClaim);
  const inPod = new Set([...reported, ...claimed].map(({ name }) => name));
  return sriovInterfaces(vmi).filter(({ name }) => inPod.has(name));
}

/** Multus has given the pod what the interface is made of: virt-controller's word in the status. */
export function isReportedByMultus({ infoSource }: VmiInterfaceStatus): boolean {
  return infoSource?.split(', ').includes('multus-status') ?? false;
}
