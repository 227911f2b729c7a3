import {
  binaryQuantity,
  claimImagePath,
  parseQuantity,
  type VirtualMachineInstance,
  type Volume,
  type VolumeStatus,
} from '../../../api/index.ts';
import { CodedError } from '../../../base/index.ts';

export class HostDiskError extends CodedError<'CLAIM_WITHOUT_SIZE'> {}

const mebibyte = 2 ** 20;

interface ClaimInfo {
  accessModes?: string[];
  volumeMode?: string;
  capacity?: Record<string, string | number>;
  requests?: Record<string, string | number>;
}

/**
 * A copy in which filesystem claims are disk image files, as the launcher wants them (pkg/host-disk/host-disk.go). The object that is
 * written back to the API server is never this one.
 */
export function replaceClaimsByHostDisks(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const volumes = vmi.spec.volumes?.map((volume) => replaceClaim(volume, vmi));
  return volumes ? { ...vmi, spec: { ...vmi.spec, volumes } } : vmi;
}

function replaceClaim(volume: Volume, vmi: VirtualMachineInstance): Volume {
  const status = vmi.status?.volumeStatus?.find(({ name }) => name === volume.name);
  const info = claimInfoOf(volume, status, vmi);
  if (!info) return volume;
  return {
    name: volume.name,
    hostDisk: {
      path: claimImagePath(volume.name),
      type: 'DiskOrCreate',
      capacity: capacityOf(volume.name, info),
      shared: info.accessModes?.includes('ReadWriteMany') ?? false,
    },
  };
}

/** Undefined: not a claim, or one that stays as it is (hot-plugged, virtiofs, block). */
function claimInfoOf(
  volume: Volume,
  status: VolumeStatus | undefined,
  vmi: VirtualMachineInstance,
): ClaimInfo | undefined {
  if (!volume.persistentVolumeClaim && !volume.dataVolume) return undefined;
  const isShared = vmi.spec.domain.devices?.filesystems?.some(({ name }) => name === volume.name);
  const info = status?.persistentVolumeClaimInfo as ClaimInfo | undefined;
  if (!info || isShared || status?.hotplugVolume || info.volumeMode === 'Block') return undefined;
  return info;
}

function capacityOf(name: string, info: ClaimInfo): string {
  const sizes = [info.requests?.storage, info.capacity?.storage]
    .map(parseQuantity)
    .filter((size) => size !== undefined);
  const sizeBytes = Math.floor(Math.min(...sizes) / mebibyte) * mebibyte;
  if (sizes.length === 0 || sizeBytes <= 0) {
    throw new HostDiskError(
      'CLAIM_WITHOUT_SIZE',
      `the claim of volume ${name} has neither a request nor a capacity of 1 MiB or more`,
    );
  }
  return binaryQuantity(sizeBytes);
}
