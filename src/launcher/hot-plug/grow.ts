import { stat, statfs } from 'node:fs/promises';
import type { VirtualMachineInstance, VolumeStatus } from '../../api/index.ts';
import { errorMessage, type Logger } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import type { LiveDisk } from '../domain/index.ts';
import type { Hypervisor } from '../ports.ts';
import { type BlockSizes, growableDisks, grownBlockSize, grownFileSize } from './growth.ts';

export interface GrowDeps {
  readonly hypervisor: Pick<Hypervisor, 'blockInfo' | 'blockResize'>;
  readonly log: Logger;
}

/**
 * Tells the guest that claims have grown. The size is always given: libvirt knows the flag for "all of the device" since 10.0
 * only. A disk that cannot grow is no reason to fail a sync: the guest goes on with the size it has.
 */
export async function growDisks(
  domain: DomainRef,
  vmi: VirtualMachineInstance,
  live: readonly LiveDisk[],
  { hypervisor, log }: GrowDeps,
): Promise<void> {
  for (const { disk, status } of growableDisks(vmi, live)) {
    try {
      const sizeBytes = await newSize(disk, status, await hypervisor.blockInfo(domain, disk.target));
      if (sizeBytes === undefined) continue;
      await hypervisor.blockResize(domain, disk.target, sizeBytes);
      log.info({ volume: disk.name, target: disk.target, sizeBytes: String(sizeBytes) }, 'disk grown');
    } catch (error) {
      log.warn({ volume: disk.name, err: errorMessage(error) }, 'disk cannot be grown');
    }
  }
}

async function newSize(disk: LiveDisk, status: VolumeStatus, sizes: BlockSizes): Promise<bigint | undefined> {
  if (disk.isBlock) return grownBlockSize(sizes);
  const [{ blocks }, { bavail, bsize }] = [await stat(disk.source), await statfs(disk.source)];
  return grownFileSize(status, sizes, { allocatedBytes: blocks * 512, freeBytes: bavail * bsize });
}
