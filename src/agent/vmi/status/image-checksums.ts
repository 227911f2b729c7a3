import type { VirtualMachineInstance, VmiStatus } from '../../../api/index.ts';
import { memberAt } from '../../../base/index.ts';
import type { StatusFacts } from '../observe/index.ts';

/**
 * Sums of images that side containers bring, for agents before 1.7, which compare them after an update there and back (upstream:
 * pkg/virt-handler/vm.go, updateChecksumInfo). What is there stays: it is written once.
 */
export function setImageChecksums(
  status: VmiStatus,
  { imageChecksums }: StatusFacts,
  { metadata }: Pick<VirtualMachineInstance, 'metadata'>,
): void {
  if (!imageChecksums || metadata.deletionTimestamp) return;
  const { volumes, kernel, initrd } = imageChecksums;
  for (const volume of status.volumeStatus ?? []) {
    const checksum = volumes[volume.name];
    if (checksum === undefined || memberAt(volume, 'containerDiskVolume', 'checksum')) continue;
    volume.containerDiskVolume = { checksum };
  }
  const isMissing = (info: string, sum: number | undefined) =>
    sum !== undefined && !memberAt(status, 'kernelBootStatus', info, 'checksum');
  if (!isMissing('kernelInfo', kernel) && !isMissing('initrdInfo', initrd)) return;
  status.kernelBootStatus = {
    ...(kernel !== undefined && { kernelInfo: { checksum: kernel } }),
    ...(initrd !== undefined && { initrdInfo: { checksum: initrd } }),
  };
}
