import type { devicePlugin } from '../wire/index.ts';

/** What the kubelet may give to a container. */
export interface PluginDevice {
  /** Stable over restarts of the agent: the kubelet remembers which pod has which. */
  readonly id: string;
  readonly isHealthy: boolean;
  /** NUMA nodes it is near to; absent: does not matter. */
  readonly numaNodes?: readonly number[];
}

/** What a container gets; host paths are the host's, whatever the agent's own mounts are. */
export interface Allocation {
  readonly envs?: Readonly<Record<string, string>>;
  readonly mounts?: readonly {
    readonly hostPath: string;
    readonly containerPath: string;
    readonly readOnly: boolean;
  }[];
  /** `permissions`: letters of `rwm`, for the device cgroup. */
  readonly devices?: readonly {
    readonly hostPath: string;
    readonly containerPath: string;
    readonly permissions: string;
  }[];
}

/** The devices of one container. Rejects with DevicePluginError when they cannot be given. Ids were all offered, each once. */
export type Allocate = (ids: readonly string[]) => Promise<Allocation>;

export function listMessage(devices: readonly PluginDevice[]): devicePlugin.ListAndWatchResponse {
  return {
    devices: devices.map(({ id, isHealthy, numaNodes }) => ({
      ID: id,
      health: isHealthy ? 'Healthy' : 'Unhealthy',
      topology: numaNodes && { nodes: numaNodes.map((node) => ({ ID: BigInt(node) })) },
    })),
  };
}

export function allocationMessage({
  envs = {},
  mounts = [],
  devices = [],
}: Allocation): devicePlugin.ContainerAllocateResponse {
  return {
    envs: { ...envs },
    mounts: mounts.map(({ hostPath, containerPath, readOnly }) => ({
      host_path: hostPath,
      container_path: containerPath,
      read_only: readOnly,
    })),
    devices: devices.map(({ hostPath, containerPath, permissions }) => ({
      host_path: hostPath,
      container_path: containerPath,
      permissions,
    })),
    annotations: {},
  };
}
