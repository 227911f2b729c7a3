import { parseQuantity, type Quantity, type VirtualMachineInstance, type VolumeStatus } from '../../api/index.ts';
import type { LiveDisk } from '../domain/index.ts';

const mebibyte = 2 ** 20;

export interface BlockSizes {
  readonly capacityBytes: bigint;
  readonly physicalBytes: bigint;
}

/** Bytes that the file has on its disk, and that are free beside it. */
export interface FileRoom {
  readonly allocatedBytes: number;
  readonly freeBytes: number;
}

/** Disks on claims that the guest may write; other images do not grow by themselves. */
export function growableDisks(
  vmi: VirtualMachineInstance,
  live: readonly LiveDisk[],
): { readonly disk: LiveDisk; readonly status: VolumeStatus }[] {
  return live.flatMap((disk) => {
    const status = vmi.status?.volumeStatus?.find(({ name }) => name === disk.name);
    const isUsable = disk.source !== '' && disk.device !== 'cdrom' && !disk.hasBacking && !disk.isReadOnly;
    return status?.persistentVolumeClaimInfo && isUsable ? [{ disk, status }] : [];
  });
}

/** The new size of a block device's disk, or undefined: it has all of the device. */
export function grownBlockSize({ capacityBytes, physicalBytes }: BlockSizes): bigint | undefined {
  return capacityBytes > 0n && physicalBytes > capacityBytes ? physicalBytes : undefined;
}

/**
 * The new size of a disk in a file: what the claim gives after its share for the file system, but no more than fits
 * (`possibleGuestSize` of pkg/virt-launcher/virtwrap/manager.go). A disk never shrinks.
 */
export function grownFileSize(status: VolumeStatus, { capacityBytes }: BlockSizes, room: FileRoom): bigint | undefined {
  const info = status.persistentVolumeClaimInfo;
  const share = shareOf(info?.filesystemOverhead);
  const claimed = claimedBytes(info?.capacity?.storage, info?.requests?.storage);
  if (capacityBytes <= 0n || claimed === undefined || share === undefined) return undefined;
  const usable = Math.min(claimed, room.allocatedBytes + room.freeBytes) * (1 - share);
  const size = BigInt(Math.floor(usable / mebibyte)) * BigInt(mebibyte);
  return size > capacityBytes ? size : undefined;
}

/** Upstream leaves a disk alone when either is not known. */
function claimedBytes(capacity: Quantity | undefined, request: Quantity | undefined): number | undefined {
  const has = parseQuantity(capacity);
  const asked = parseQuantity(request);
  return has === undefined || asked === undefined ? undefined : Math.min(has, asked);
}

function shareOf(text: string | undefined): number | undefined {
  const share = Number(text === undefined || text.trim() === '' ? Number.NaN : text);
  return share >= 0 && share <= 1 ? share : undefined;
}
