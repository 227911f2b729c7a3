import type { VirtualMachineInstance, VolumeStatus } from '../../../api/index.ts';
import { isRecord, listOf } from '../../../base/index.ts';

type Json = Readonly<Record<string, unknown>>;

/**
 * A copy in which volumes that change their claim with the migration carry the facts of the claim they move to: sizes and modes
 * of disks are made from these. Works on a copy: upstream rewrites the object that it writes back.
 */
export function withTargetClaims(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const { status } = vmi;
  const moved = movedClaims(status?.migratedVolumes);
  if (!status?.volumeStatus || moved.size === 0) return vmi;
  const volumeStatus = status.volumeStatus.map((volume) => withClaim(volume, moved.get(volume.name)));
  return { ...vmi, status: { ...status, volumeStatus } };
}

function withClaim(volume: VolumeStatus, claim: Json | undefined): VolumeStatus {
  return claim && volume.persistentVolumeClaimInfo ? { ...volume, persistentVolumeClaimInfo: claim } : volume;
}

/** `status.migratedVolumes`: volume name → facts of the destination's claim. Entries of a wrong shape are none. */
function movedClaims(migratedVolumes: unknown): ReadonlyMap<string, Json> {
  const entries = listOf(migratedVolumes).flatMap((item): [string, Json][] => {
    if (!isRecord(item) || typeof item.volumeName !== 'string') return [];
    return isRecord(item.destinationPVCInfo) ? [[item.volumeName, item.destinationPVCInfo]] : [];
  });
  return new Map(entries);
}
