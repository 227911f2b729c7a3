import type { Domain, VirtualMachineInstance, VolumeStatus } from '../../../api/index.ts';
import { listOf, memberAt } from '../../../base/index.ts';
import type { StatusFacts } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';
import { projectMemoryDump } from './memory-dump.ts';

export interface VolumesProjection {
  readonly volumes: VolumeStatus[];
  /** Of volumes whose phase changed. */
  readonly events: VmiEvent[];
  /** Something is under way that no event may report: look again. */
  readonly unfinished: boolean;
  /** What this agent cannot do for a volume, in words for the user. */
  readonly problem?: string;
}

/**
 * `status.volumeStatus` (pkg/virt-handler/vm.go): targets of the domain's disks, phases of hot-plugged volumes and memory
 * dumps, sizes of ISO images; sorted by name. All else in it is other people's and stays.
 */
export function projectVolumes(
  vmi: VirtualMachineInstance,
  domain: Domain,
  facts: StatusFacts,
  now: Date,
): VolumesProjection {
  const before = vmi.status?.volumeStatus ?? [];
  const targets = targetsOf(domain);
  const isRunning = vmi.status?.phase === 'Running';
  const volumes = before.map((volume) => {
    const target = targets.get(volume.name) ?? '';
    const size = isRunning ? facts.isoSizes[volume.name] : undefined;
    const known: VolumeStatus = { ...volume, target, ...(size !== undefined && { size }) };
    return projectMemoryDump(projectHotplug(known, vmi, facts), vmi, domain, facts, now);
  });
  const events = volumes.flatMap((volume, index) => phaseEvent(before[index], volume));
  const unfinished = volumes.some(
    ({ hotplugVolume, target, phase }) => (hotplugVolume && target === '') || phase === 'MemoryDumpInProgress',
  );
  const problem = refusedHotplug(volumes, vmi, facts);
  const sorted = volumes.sort((left, right) => (left.name < right.name ? -1 : Number(left.name > right.name)));
  return { volumes: sorted, events, unfinished, ...(problem !== undefined && { problem }) };
}

function targetsOf(domain: Domain): Map<string, string> {
  const targets = new Map<string, string>();
  for (const { Alias: alias, Source: source, Target: target } of domain.Spec?.Devices?.Disks ?? []) {
    // A disk without alias has no volume; upstream's process dies on it. An empty CD-ROM has no source.
    if (alias?.Name && (source?.File || source?.Dev)) targets.set(alias.Name, target?.Device ?? '');
  }
  return targets;
}

const mountable: readonly unknown[] = ['Bound', 'Pending', 'AttachedToNode'];
const unmountable: readonly unknown[] = ['Ready', 'MountedToPod', 'AttachedToNode'];

/** Whether a volume is mounted in the launcher is unknown to a build that mounts none: then only the domain's word counts. */
function projectHotplug(
  volume: VolumeStatus,
  vmi: VirtualMachineInstance,
  { mountedVolumes }: StatusFacts,
): VolumeStatus {
  const { name, phase, target } = volume;
  if (!volume.hotplugVolume) return volume;
  if (target !== '')
    return become(volume, 'Ready', 'VolumeReady', `Successfully attach hotplugged volume ${name} to VM`);
  if (!mountedVolumes) return volume;
  const isMounted = mountedVolumes.includes(name);
  const isWanted = isInSpec(name, vmi);
  if (isMounted && isWanted && mountable.includes(phase)) {
    const message = `Volume ${name} has been mounted in virt-launcher pod`;
    return become(volume, 'MountedToPod', 'VolumeMountedToPod', message);
  }
  if (!isMounted && !isWanted && unmountable.includes(phase)) {
    const message = `Volume ${name} has been unmounted from virt-launcher pod`;
    return become(volume, 'UnMountedFromPod', 'VolumeUnMountedFromPod', message);
  }
  return volume;
}

/** In the phase already: reason and message stay what they were, and no event is due. */
function become(volume: VolumeStatus, phase: string, reason: string, message: string): VolumeStatus {
  return volume.phase === phase ? volume : { ...volume, phase, reason, message };
}

function isInSpec(name: string, { spec }: VirtualMachineInstance): boolean {
  return [...(spec?.volumes ?? []), ...listOf(spec?.utilityVolumes)].some(
    (volume) => memberAt(volume, 'name') === name,
  );
}

/** A mount that never comes is reported to those who wait for it. */
function refusedHotplug(
  volumes: readonly VolumeStatus[],
  vmi: VirtualMachineInstance,
  { mountedVolumes }: StatusFacts,
): string | undefined {
  if (mountedVolumes) return undefined;
  const waiting = volumes.find(
    ({ name, hotplugVolume, target, phase }) =>
      hotplugVolume && target === '' && phase === 'AttachedToNode' && isInSpec(name, vmi),
  );
  if (!waiting) return undefined;
  return (
    `volume ${waiting.name} is attached to this node, and this node agent does not mount hot-plugged volumes into a ` +
    'running guest: remove it, or add it to the VirtualMachine and start that again'
  );
}

function phaseEvent(before: VolumeStatus | undefined, after: VolumeStatus): VmiEvent[] {
  if (before?.phase === after.phase || !after.reason) return [];
  return [{ type: 'Normal', reason: after.reason, message: after.message ?? '' }];
}
