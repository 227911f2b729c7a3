import type { Disk, VirtualMachineInstance, Volume } from '../../../api/index.ts';
import { listOf, memberAt } from '../../../base/index.ts';

export interface VolumeMigration {
  readonly method: 'BlockMigration' | 'LiveMigration';
  /** Why the volumes forbid a live migration. */
  readonly obstacle?: string;
}

/**
 * As pkg/virt-handler/vm.go checks volumes: in the order of the spec; the first obstacle ends it. What is not shared between
 * nodes would be copied.
 */
export function classifyVolumes(vmi: VirtualMachineInstance): VolumeMigration {
  const migrated = migratedVolumes(vmi);
  let copies = migrated.size > 0;
  for (const volume of vmi.spec?.volumes ?? []) {
    const outcome = classifyVolume(volume, vmi, migrated);
    if (typeof outcome === 'string') return { method: 'BlockMigration', obstacle: outcome };
    copies ||= outcome.copied;
  }
  return { method: copies ? 'BlockMigration' : 'LiveMigration' };
}

const stays = { copied: false };

/** A text is an obstacle. */
function classifyVolume(
  volume: Volume,
  vmi: VirtualMachineInstance,
  migrated: ReadonlySet<string>,
): { readonly copied: boolean } | string {
  const { name } = volume;
  const claim = volume.persistentVolumeClaim?.claimName ?? volume.dataVolume?.name;
  const info = vmi.status?.volumeStatus?.find((status) => status.name === name)?.persistentVolumeClaimInfo;
  if (volume.persistentVolumeClaim || volume.dataVolume) {
    if (!info) return `cannot migrate VMI: Unable to determine if PVC ${claim} is shared, ${mustBeShared}`;
    return isShared(info) || migrated.has(name) ? stays : notShared(claim ?? name);
  }
  if (volume.hostDisk) {
    // With a claim it stands for one, and the claim alone decides.
    if (info) return isShared(info) || migrated.has(name) ? stays : notShared(String(info.claimName ?? name));
    return volume.hostDisk.shared === true ? stays : 'cannot migrate VMI with non-shared HostDisk';
  }
  const { disks, filesystems } = vmi.spec.domain?.devices ?? {};
  if (filesystems?.some((filesystem) => filesystem.name === name && filesystem.virtiofs)) return stays;
  return { copied: !isReadOnlyCdrom(disks?.find((disk) => disk.name === name)) };
}

/** Upstream's words: tools match on them. */
const mustBeShared = 'live migration requires that all PVCs must be shared (using ReadWriteMany access mode)';

function notShared(claim: string): string {
  return `cannot migrate VMI: PVC ${claim} is not shared, ${mustBeShared}`;
}

function isShared(info: Readonly<Record<string, unknown>>): boolean {
  return Array.isArray(info.accessModes) && info.accessModes.includes('ReadWriteMany');
}

function isReadOnlyCdrom(disk: Disk | undefined): boolean {
  return disk?.cdrom !== undefined && disk.cdrom.readonly !== false;
}

function migratedVolumes(vmi: VirtualMachineInstance): ReadonlySet<string> {
  return new Set(listOf(vmi.status?.migratedVolumes).map((entry) => String(memberAt(entry, 'volumeName') ?? '')));
}
