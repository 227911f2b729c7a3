import type { CloudInitKind, KernelBootFiles, LauncherPaths, ResolvedDisk } from '../domain/index.ts';

/** What becomes a guest's cloud-init medium. */
export interface CloudInitData {
  readonly kind: CloudInitKind;
  /** The document of the kind: `{"instance-id":…}` or `{"instance_id":…}`. */
  readonly metaData: Readonly<Record<string, unknown>>;
  readonly userData: string;
  /** Empty: there is none. */
  readonly networkData: string;
}

export interface DiskEnv {
  readonly paths: LauncherPaths;
  /** `--image-volume`: images are mounted as directories; else the agent mounts `disk_<i>.img` files. */
  readonly imageVolume: boolean;
  /** User of QEMU: owner of files made here. Absent: left as created. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  /** `--disk-memory-limit` for qemu-img on images. Default 2097152000. */
  readonly diskMemoryLimitBytes?: number;
  /** What the data of cloud-init become before their medium is made. Absent: they stay as they are. */
  readonly changeCloudInit?: (data: CloudInitData) => Promise<CloudInitData>;
  /** Ends a wait for a tool. */
  readonly signal?: AbortSignal;
}

export interface PreparedDisks {
  /** For `ConverterContext.disks`; only volumes that can be opened now (hot-plugged ones may be missing). */
  readonly disks: ReadonlyMap<string, ResolvedDisk>;
  /** For `ConverterContext.kernelBoot`. */
  readonly kernelBoot?: KernelBootFiles;
}
