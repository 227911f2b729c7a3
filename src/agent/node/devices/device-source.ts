import type { Allocation, PluginDevice } from '../../../device-plugin/index.ts';

/** Where the devices of one resource are. Paths are this process's; what a container is given are the host's. */
export interface DeviceRoots {
  /** The host's `/dev`. */
  readonly devDir: string;
  /** The host's `/sys`. */
  readonly sysDir: string;
  /** The host's root directory. */
  readonly hostRoot: string;
}

/** A change at one of these calls for a new scan. */
export interface WatchedPaths {
  /** Each for itself. */
  readonly entries?: readonly string[];
  /** Directories: for the names in them. */
  readonly directories?: readonly string[];
}

/** The devices of one resource. */
export interface DeviceSource {
  /** Looks again at this interval, besides the events; undefined: the events say it all. */
  readonly rescanMs: number | undefined;
  /** Rejects when it cannot be known what there is: then the last known ones count. */
  scan(): Promise<readonly PluginDevice[]>;
  /** Ids are of the last scan. Rejects with DevicePluginError. */
  allocate(ids: readonly string[]): Promise<Allocation>;
  /** As of the last scan. */
  watchedPaths(): WatchedPaths;
}
