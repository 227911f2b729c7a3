import type { VirtualMachineInstance, Volume } from '../../api/index.ts';

/** Spec 11 §8.2: a guest with any storage that is not shared between nodes would have to copy it. */
export function migrationMethodOf(vmi: VirtualMachineInstance): 'BlockMigration' | 'LiveMigration' {
  const migrated = vmi.status?.migratedVolumes;
  if (Array.isArray(migrated) && migrated.length > 0) return 'BlockMigration';
  return (vmi.spec?.volumes ?? []).some((volume) => needsCopy(volume, vmi)) ? 'BlockMigration' : 'LiveMigration';
}

function needsCopy(volume: Volume, vmi: VirtualMachineInstance): boolean {
  if (volume.persistentVolumeClaim || volume.dataVolume) return !isSharedClaim(volume.name, vmi);
  if (volume.hostDisk) return volume.hostDisk.shared !== true;
  const { disks, filesystems } = vmi.spec.domain.devices ?? {};
  if (filesystems?.some(({ name }) => name === volume.name)) return false;
  const cdrom = disks?.find(({ name }) => name === volume.name)?.cdrom;
  return !(cdrom && cdrom.readonly !== false);
}

function isSharedClaim(name: string, vmi: VirtualMachineInstance): boolean {
  const info = vmi.status?.volumeStatus?.find((status) => status.name === name)?.persistentVolumeClaimInfo;
  const modes = info?.accessModes;
  return Array.isArray(modes) && modes.includes('ReadWriteMany');
}
