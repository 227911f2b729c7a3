import type { VirtualMachineInstance } from '../../api/index.ts';
import { cpuShape } from './cpu.ts';
import { type DiskPlan, type DiskSettings, diskElement, diskSettings, planEntries } from './disk-devices.ts';
import { invalid } from './errors.ts';
import { type IoThreadPlan, noIoThreads, planIoThreads } from './io-threads.ts';
import type { LiveDomain } from './live-disks.ts';
import { allDiskEntries, isHotplugged, isReady, statusOf } from './volumes.ts';
import { renderXml } from './xml.ts';

/** A disk that the VMI asks for while its domain runs. */
export interface WantedDisk {
  readonly name: string;
  readonly kind: DiskPlan['kind'];
  readonly bus: DiskPlan['bus'];
  /**
   * `empty`: a CD-ROM drive without volume; `permanent`: it is there since the start; `coming`: the agent has not mounted the
   * volume yet; `mounted`: its file may be opened.
   */
  readonly volume: 'empty' | 'permanent' | 'coming' | 'mounted';
  readonly plan: DiskPlan;
}

export function wantedDisks(vmi: VirtualMachineInstance, live: LiveDomain): WantedDisk[] {
  const inUse = new Map(live.disks.map(({ name, target }) => [name, target]));
  return planEntries(vmi, allDiskEntries(vmi), inUse).map((plan) => {
    const { name } = plan.entry.disk;
    return { name, kind: plan.kind, bus: plan.bus, volume: volumeState(vmi, plan), plan };
  });
}

function volumeState(vmi: VirtualMachineInstance, { entry }: DiskPlan): WantedDisk['volume'] {
  const { volume } = entry;
  if (!volume) return 'empty';
  if (!isHotplugged(volume, statusOf(vmi, volume.name))) return 'permanent';
  return isReady(vmi, entry) ? 'mounted' : 'coming';
}

/** What libvirt gets to plug one disk in. Throws `ConvertError`. */
export function pluggedDiskXml(
  vmi: VirtualMachineInstance,
  { plan }: WantedDisk,
  all: readonly WantedDisk[],
  given: { readonly context: DiskSettings['context']; readonly ioThreadCount: number },
): string {
  if (plan.kind === 'lun' && plan.entry.volume && !given.context.disks.get(plan.entry.volume.name)?.isBlock) {
    throw invalid(
      `spec.domain.devices.disks[${plan.entry.disk.name}].lun`,
      'needs a claim with volumeMode Block: use one, or make it a disk',
    );
  }
  const threads = ioThreads(vmi, plan, all, given.ioThreadCount);
  return renderXml('disk', diskElement(plan, diskSettings(vmi, given.context, threads)));
}

/** QEMU's threads are those of its start: a disk that comes later shares one of them, or the pool. */
function ioThreads(
  vmi: VirtualMachineInstance,
  plan: DiskPlan,
  all: readonly WantedDisk[],
  count: number,
): IoThreadPlan {
  const planned = planIoThreads(
    vmi,
    all.map((wanted) => wanted.plan),
    cpuShape(vmi).count,
  );
  if (planned.isPool) return { ...planned, count: Math.min(planned.count, count) };
  const { disk } = plan.entry;
  const id = planned.byDisk.get(disk.name);
  if (id === undefined) return noIoThreads;
  if (id > count && disk.dedicatedIOThread) {
    throw invalid(
      `spec.domain.devices.disks[${disk.name}].dedicatedIOThread`,
      'the guest was started without a thread for it: remove it, or restart the guest',
    );
  }
  return count === 0 ? noIoThreads : { ...planned, byDisk: new Map([[disk.name, ((id - 1) % count) + 1]]) };
}
