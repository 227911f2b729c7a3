import type { VirtualMachineInstance } from '../../api/index.ts';
import type { DiskPlan } from './disk-devices.ts';
import { invalid, unsupported } from './errors.ts';

export interface IoThreadPlan {
  readonly count: number;
  /** Disk name → thread id, from 1. */
  readonly byDisk: ReadonlyMap<string, number>;
}

/**
 * I/O threads: `shared` one for all, `auto` up to two per CPU, given round robin; disks with a dedicated
 * thread come after those. Only virtio disks can have one.
 */
export function planIoThreads(vmi: VirtualMachineInstance, plans: readonly DiskPlan[], cpuCount: number): IoThreadPlan {
  const policy = vmi.spec.domain.ioThreadsPolicy;
  const dedicated = plans.filter(({ entry }) => entry.disk.dedicatedIOThread);
  const wrong = dedicated.find(({ bus }) => bus !== 'virtio');
  if (wrong) {
    throw invalid(
      `spec.domain.devices.disks[${wrong.entry.disk.name}].dedicatedIOThread`,
      `needs bus virtio, not ${wrong.bus}`,
    );
  }
  if (!policy && dedicated.length === 0) return { count: 0, byDisk: new Map() };
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
  return { count: pool + dedicated.length, byDisk };
}

function threadLimit(vmi: VirtualMachineInstance, policy: string, cpuCount: number): number {
  const { dedicatedCpuPlacement, isolateEmulatorThread } = vmi.spec.domain.cpu ?? {};
  if (policy === 'shared') return 1;
  // They would all run on the one CPU of the emulator.
  if (policy === 'auto') return dedicatedCpuPlacement && isolateEmulatorThread ? 1 : 2 * cpuCount;
  if (policy === 'supplementalPool') {
    throw unsupported('spec.domain.ioThreadsPolicy supplementalPool', 'use "auto" or "shared"');
  }
  throw invalid('spec.domain.ioThreadsPolicy', `${policy} is none of shared, auto`);
}
