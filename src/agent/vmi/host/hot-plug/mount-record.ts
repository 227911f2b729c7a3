import { pathOf, type RecordFormat } from '../mount-records.ts';

/** One node, mounted file or mounted directory in the directory of hot-plugged disks of a launcher's pod. */
export interface PluggedEntry {
  readonly podUid: string;
  /** `data` for a device node or a directory, `data.img` for an image. */
  readonly name: string;
}

/** Of a pod's directory. */
export const hotPlugDirectory = 'volumes/kubernetes.io~empty-dir/hotplug-disks';

/** Of upstream's pkg/virt-handler/hotplug-disk/mount.go. `machinePodsDir`: where the pods are for the machine. */
export function hotPlugRecord(machinePodsDir: string): RecordFormat<PluggedEntry> {
  const place = { directory: hotPlugDirectory, targetOf: (entry: PluggedEntry) => entry };
  return {
    ...place,
    subject: 'hot-plugged volumes of',
    maxEntries: 1024,
    entryOf: (target) => target,
    written: (entry) => ({ targetFile: pathOf(machinePodsDir, entry, place) }),
  };
}
