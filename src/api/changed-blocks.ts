import { memberAt } from '../base/index.ts';
import type { Disk, VirtualMachineInstance, Volume } from './vmi.ts';

/** Whether the blocks that the guest changes are recorded (upstream: `HasCBTStateEnabled` of pkg/storage/cbt/cbt.go). */
export function tracksChanges(object: { readonly status?: object }): boolean {
  return ['Initializing', 'Enabled'].includes(String(memberAt(object, 'status', 'changedBlockTracking', 'state')));
}

/** What a guest cannot write needs no record, and QEMU could not keep one: upstream tries. */
export function isTrackedDisk(disk: Disk, volume: Volume): boolean {
  const { persistentVolumeClaim, dataVolume, hostDisk } = volume;
  const isWritable = !disk.cdrom && !(disk.disk ?? disk.lun)?.readonly && !persistentVolumeClaim?.readOnly;
  return isWritable && !disk.shareable && Boolean(persistentVolumeClaim || dataVolume || hostDisk);
}

/** Names of the disks of a VMI whose changed blocks can be recorded. */
export function trackedDisksOf({ spec }: Partial<Pick<VirtualMachineInstance, 'spec'>>): string[] {
  const volumes = new Map((spec?.volumes ?? []).map((volume) => [volume.name, volume]));
  return (spec?.domain?.devices?.disks ?? []).flatMap((disk) => {
    const volume = volumes.get(disk.name);
    return volume && isTrackedDisk(disk, volume) ? [disk.name] : [];
  });
}
