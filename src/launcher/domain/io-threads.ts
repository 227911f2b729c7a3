import type { Disk, VirtualMachineInstance } from '../../api/index.ts';
import { invalid, unsupported } from './errors.ts';
import type { XmlContent } from './xml.ts';

/** What of a disk says which threads it has. */
interface ThreadedDisk {
  readonly bus: string;
  readonly entry: { readonly disk: Pick<Disk, 'name' | 'dedicatedIOThread'> };
}

export interface IoThreadPlan {
  readonly count: number;
  /** All virtio disks share all threads, each its queues among them; with dedicated CPUs each thread has a CPU. */
  readonly isPool: boolean;
  /** Disk name → thread id, from 1; none in a pool. */
  readonly byDisk: ReadonlyMap<string, number>;
}

export const noIoThreads: IoThreadPlan = { count: 0, isPool: false, byDisk: new Map() };

const poolPolicy = 'supplementalPool';

/**
 * I/O threads: `shared` one for all, `auto` up to two per CPU, given round robin; disks with a dedicated
 * thread come after those; `supplementalPool` as many as it says, for all disks. Only virtio disks can have one.
 */
export function planIoThreads(
  vmi: VirtualMachineInstance,
  plans: readonly ThreadedDisk[],
  cpuCount: number,
): IoThreadPlan {
  const policy = vmi.spec.domain.ioThreadsPolicy;
  const dedicated = plans.filter(({ entry }) => entry.disk.dedicatedIOThread);
  const wrong = dedicated.find(({ bus }) => bus !== 'virtio');
  if (wrong) {
    throw invalid(
      `spec.domain.devices.disks[${wrong.entry.disk.name}].dedicatedIOThread`,
      `needs bus virtio, not ${wrong.bus}`,
    );
  }
  const ofPolicy = ioThreadPool(vmi);
  if (ofPolicy) return ofPolicy;
  if (!policy && dedicated.length === 0) return noIoThreads;
  const shared = plans.filter(({ bus, entry }) => bus === 'virtio' && !entry.disk.dedicatedIOThread);
  const limit = threadLimit(vmi, policy || 'shared', cpuCount);
  const pool = Math.min(limit, shared.length);
  const byDisk = new Map<string, number>();
  shared.forEach(({ entry }, index) => {
    byDisk.set(entry.disk.name, (index % pool) + 1);
  });
  dedicated.forEach(({ entry }, index) => {
    byDisk.set(entry.disk.name, pool + index + 1);
  });
  return { count: pool + dedicated.length, isPool: false, byDisk };
}

/** Undefined with another policy, where the number of threads depends on the disks. */
export function ioThreadPool({ spec }: VirtualMachineInstance): IoThreadPlan | undefined {
  if (spec.domain.ioThreadsPolicy !== poolPolicy) return undefined;
  const count = spec.domain.ioThreads?.supplementalPoolThreadCount ?? 0;
  if (Number.isInteger(count) && count > 0) return { ...noIoThreads, count, isPool: true };
  throw invalid('spec.domain.ioThreads.supplementalPoolThreadCount', `${count} is no number of threads: set 1 or more`);
}

function threadLimit(vmi: VirtualMachineInstance, policy: string, cpuCount: number): number {
  const { dedicatedCpuPlacement, isolateEmulatorThread } = vmi.spec.domain.cpu ?? {};
  if (policy === 'shared') return 1;
  // They would all run on the one CPU of the emulator.
  if (policy === 'auto') return dedicatedCpuPlacement && isolateEmulatorThread ? 1 : 2 * cpuCount;
  throw invalid('spec.domain.ioThreadsPolicy', `${policy} is none of shared, auto, ${poolPolicy}`);
}

/** Of the driver of a disk. */
export function ioThreadElements({ count, isPool, byDisk }: IoThreadPlan, { bus, entry }: ThreadedDisk): XmlContent {
  if (!isPool) return { '@iothread': byDisk.get(entry.disk.name) };
  if (bus !== 'virtio' || count === 0) return {};
  return { iothreads: { iothread: Array.from({ length: count }, (_, index) => ({ '@id': index + 1 })) } };
}

const poolVersion = 10_000_000;

/** An older libvirt takes no notice of which threads a disk shares: they would be there, and serve nothing. `version`: libvirt's, as it counts. */
export function refusePoolOfOld(vmi: VirtualMachineInstance, version: number | undefined): void {
  if (vmi.spec.domain.ioThreadsPolicy !== poolPolicy || version === undefined || version >= poolVersion) return;
  const is = `${Math.floor(version / 1_000_000)}.${Math.floor(version / 1000) % 1000}`;
  throw unsupported(
    `spec.domain.ioThreadsPolicy ${poolPolicy}`,
    `disks share a pool of threads since libvirt 10, and the launcher has ${is}: use "auto" or "shared"`,
  );
}
