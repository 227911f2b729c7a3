import { pathOf, type RecordFormat } from '../mount-records.ts';

/** One mount, or with `kernel-boot` a directory of mounts, in the directory of container disks of a pod. */
export interface MountEntry {
  readonly podUid: string;
  /** `disk_0.img`, `kernel-boot`. */
  readonly target: string;
  /** `disk_0.sock`, `kernel-boot.sock`. */
  readonly socket: string;
}

export interface RecordPaths {
  /** Where the pods are for this agent. */
  readonly podsDir: string;
  /** Where they are for the machine. */
  readonly machinePodsDir: string;
}

/** Of a pod's directory. */
export const containerDisksDirectory = 'volumes/kubernetes.io~empty-dir/container-disks';

const namePattern = /^(?:disk_\d+\.img|kernel-boot)$/;

/** Of upstream's pkg/virt-handler/container-disk/mount.go. */
export function containerDiskRecord({ podsDir, machinePodsDir }: RecordPaths): RecordFormat<MountEntry> {
  const place = {
    directory: containerDisksDirectory,
    targetOf: ({ podUid, target }: MountEntry) => ({ podUid, name: target }),
  };
  return {
    ...place,
    subject: 'what is mounted for',
    maxEntries: 256,
    entryOf: ({ podUid, name }) =>
      namePattern.test(name) ? { podUid, target: name, socket: socketOf(name) } : undefined,
    written: (entry) => ({
      targetFile: pathOf(machinePodsDir, entry, place),
      socketFile: `${podsDir}/${entry.podUid}/${containerDisksDirectory}/${entry.socket}`,
    }),
  };
}

export function socketOf(target: string): string {
  return `${target.replace(/\.img$/, '')}.sock`;
}
