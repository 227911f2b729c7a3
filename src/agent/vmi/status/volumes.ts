import {
  type Domain,
  diskTargetsOf,
  isVolumeOf,
  type VirtualMachineInstance,
  type VolumeStatus,
} from '../../../api/index.ts';
import type { StatusFacts } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';
import { projectMemoryDump } from './memory-dump.ts';

export interface VolumesProjection {
  readonly volumes: VolumeStatus[];
  /** Of volumes whose phase changed. */
  readonly events: VmiEvent[];
  /** Something is under way that no event may report: look again. */
  readonly unfinished: boolean;
  /** The launcher goes by phases: it is given the VMI again as soon as this is written. */
  readonly isWaitedFor: boolean;
}

/**
 * `status.volumeStatus` (pkg/virt-handler/vm.go): targets of the domain's disks, phases of hot-plugged volumes and memory
 * dumps, sizes of ISO images; sorted by name. All else in it is other people's and stays. Without a domain, before a start, no disk
 * has a target.
 */
export function projectVolumes(
  vmi: VirtualMachineInstance,
  domain: Domain | undefined,
  facts: StatusFacts,
  now: Date,
): VolumesProjection {
  const before = vmi.status?.volumeStatus ?? [];
  const targets = domain ? diskTargetsOf(domain) : new Map<string, string>();
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
  const isWaitedFor = volumes.some(
    ({ hotplugVolume, phase }, index) =>
      hotplugVolume && phase !== before[index]?.phase && (phase === 'MountedToPod' || phase === 'MemoryDumpInProgress'),
  );
  const sorted = volumes.sort((left, right) => (left.name < right.name ? -1 : Number(left.name > right.name)));
  return { volumes: sorted, events, unfinished, isWaitedFor };
}

const mountable: readonly unknown[] = ['Bound', 'Pending', 'AttachedToNode'];
const unmountable: readonly unknown[] = ['Ready', 'MountedToPod', 'AttachedToNode'];

/** Where it is not known whether a volume is mounted in the launcher, only the domain's word counts. */
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
  const isWanted = isVolumeOf(vmi, name);
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

function phaseEvent(before: VolumeStatus | undefined, after: VolumeStatus): VmiEvent[] {
  if (before?.phase === after.phase || !after.reason) return [];
  return [{ type: 'Normal', reason: after.reason, message: after.message ?? '' }];
}
