import { stat, statfs } from 'node:fs/promises';
import type { VirtualMachineInstance, VolumeStatus } from '../../api/index.ts';
import { errorMessage, type Logger } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import { isTrackingRecord, type LiveDisk } from '../domain/index.ts';
import type { Hypervisor } from '../ports.ts';
import { type BlockSizes, growableDisks, grownBlockSize, grownFileSize } from './growth.ts';

/** Where the data of a disk are whose source is the record of its changed blocks. */
export type TrackedImageOf = (
  volume: string,
) => Promise<{ readonly path: string; readonly isBlock: boolean } | undefined>;

export interface GrowDeps {
  readonly trackedImageOf: TrackedImageOf;
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
  { hypervisor, log, trackedImageOf }: GrowDeps,
): Promise<void> {
  for (const { disk, status } of growableDisks(vmi, live)) {
    try {
      const image = isTrackingRecord(disk.source) ? await trackedImageOf(disk.name) : undefined;
      // libvirt tells the size of the record, not of the device below it: such a disk grows with the next start.
      if (image?.isBlock) continue;
      const data = image ? { ...disk, source: image.path } : disk;
      const sizeBytes = await newSize(data, status, await hypervisor.blockInfo(domain, disk.target));
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
