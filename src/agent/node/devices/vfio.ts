import path from 'node:path';
import { type Allocation, DevicePluginError } from '../../../device-plugin/index.ts';
import { isThere } from './sysfs.ts';

/** The kernel's interface to devices that guests own: one file per IOMMU group, and one for all. */
export const vfioDir = 'vfio';

export function groupFile(devDir: string, group: string): string {
  return path.join(devDir, vfioDir, group);
}

/** Rejects with DevicePluginError when the group's file is not there. */
export async function checkGroup(devDir: string, group: string): Promise<void> {
  if (await isThere(groupFile(devDir, group))) return;
  throw new DevicePluginError('DEVICE_UNUSABLE', `/dev/vfio/${group} is not there: is the device bound to its driver?`);
}

/** The files of groups and devices for a container, each once. */
export function vfioDevices(names: readonly string[]): NonNullable<Allocation['devices']> {
  return [...new Set(['vfio', ...names])].map((name) => {
    const file = `/dev/vfio/${name}`;
    return { hostPath: file, containerPath: file, permissions: 'mrw' };
  });
}
