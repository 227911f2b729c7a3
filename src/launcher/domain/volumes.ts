import type { Disk, VirtualMachineInstance, Volume, VolumeStatus } from '../../api/index.ts';
import { ConvertError, invalid } from './errors.ts';

/** A disk of the VMI with its volume; without one it is an empty CD-ROM drive. */
export interface DiskEntry {
  readonly disk: Disk;
  readonly volume?: Volume;
  /** Index in `spec.volumes`: it names the file of a containerDisk. */
  readonly volumeIndex: number;
}

/**
 * The disks to make: those of the spec, and one for each volume that no disk or file system uses, as
 * upstream's API server would have added. Volumes that are being plugged in or out and are not ready are left out.
 */
export function diskEntries(vmi: VirtualMachineInstance): DiskEntry[] {
  return allDiskEntries(vmi).filter((entry) => isReady(vmi, entry));
}

/** With those whose volume is still on its way. */
export function allDiskEntries(vmi: VirtualMachineInstance): DiskEntry[] {
  const volumes = vmi.spec.volumes ?? [];
  const { disks = [], filesystems = [] } = vmi.spec.domain.devices ?? {};
  const used = new Set([...disks.map((disk) => disk.name), ...filesystems.map((system) => system.name)]);
  const added = volumes.filter((volume) => !used.has(volume.name) && isDiskVolume(volume));
  const all = [...disks, ...added.map((volume): Disk => ({ name: volume.name }))];
  const twice = all.find((disk, index) => all.findIndex(({ name }) => name === disk.name) !== index);
  if (twice)
    throw invalid(`spec.domain.devices.disks[${twice.name}]`, 'there are two of this name; rename or remove one');
  return all.map((disk) => entryOf(disk, volumes));
}

function entryOf(disk: Disk, volumes: readonly Volume[]): DiskEntry {
  const volumeIndex = volumes.findIndex((volume) => volume.name === disk.name);
  const volume = volumes[volumeIndex];
  if (!volume && !disk.cdrom) {
    throw new ConvertError(
      'MISSING_VOLUME',
      `spec.domain.devices.disks[${disk.name}]: there is no volume of this name in spec.volumes; add it or remove the disk`,
    );
  }
  return { disk, volumeIndex, ...(volume && { volume }) };
}

function isDiskVolume(volume: Volume): boolean {
  return !volume.memoryDump && !volume.containerPath && !isHotpluggable(volume);
}

function isHotpluggable(volume: Volume): boolean {
  return Boolean(volume.persistentVolumeClaim?.hotpluggable || volume.dataVolume?.hotpluggable);
}

export function statusOf(vmi: VirtualMachineInstance, volumeName: string): VolumeStatus | undefined {
  return vmi.status?.volumeStatus?.find((status) => status.name === volumeName);
}

export function isHotplugged(volume: Volume, status: VolumeStatus | undefined): boolean {
  return isHotpluggable(volume) || status?.hotplugVolume !== undefined;
}

/** A permanent volume is always there; a plugged one once the agent has mounted it. */
export function isReady(vmi: VirtualMachineInstance, { volume }: DiskEntry): boolean {
  const status = volume && statusOf(vmi, volume.name);
  if (!volume || !isHotplugged(volume, status)) return true;
  return status?.phase === 'MountedToPod' || status?.phase === 'HotplugVolumeMounted' || status?.phase === 'Ready';
}
