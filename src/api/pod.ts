import type { Condition, KubeObject } from './kubernetes.ts';

/** The parts of a core Pod that the launcher pod uses (`pkg/virt-controller/services`). Objects keep fields that are not named here. */

export type PodPhase = 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';

export interface VolumeMount {
  name: string;
  mountPath: string;
  readOnly?: boolean;
  subPath?: string;
  mountPropagation?: 'None' | 'HostToContainer' | 'Bidirectional';
}

type Amounts = Readonly<Record<string, string | number>>;

export interface Container {
  name: string;
  image?: string;
  imagePullPolicy?: string;
  command?: string[];
  args?: string[];
  env?: { name: string; value?: string; valueFrom?: { fieldRef?: { fieldPath: string } } }[];
  volumeMounts?: VolumeMount[];
  restartPolicy?: 'Always';
  securityContext?: { runAsUser?: number; runAsGroup?: number; runAsNonRoot?: boolean; [field: string]: unknown };
  volumeDevices?: { name: string; devicePath: string }[];
  resources?: { requests?: Amounts; limits?: Amounts; [field: string]: unknown };
  [field: string]: unknown;
}

/** Which keys of an object become files, and with which rights. Modes are numbers as chmod's. */
export interface KeysAsFiles {
  items?: { key: string; path: string; mode?: number }[];
  defaultMode?: number;
  optional?: boolean;
}

export interface PodVolume {
  name: string;
  emptyDir?: { medium?: string; sizeLimit?: string | number };
  hostPath?: { path: string; type?: string };
  image?: { reference?: string; pullPolicy?: string };
  secret?: { secretName?: string } & KeysAsFiles;
  configMap?: { name?: string } & KeysAsFiles;
  persistentVolumeClaim?: { claimName: string; readOnly?: boolean };
  downwardAPI?: object;
  [field: string]: unknown;
}

export interface ContainerState {
  waiting?: { reason?: string; message?: string };
  running?: { startedAt?: string };
  terminated?: {
    exitCode: number;
    signal?: number;
    reason?: string;
    message?: string;
    startedAt?: string;
    finishedAt?: string;
    containerID?: string;
  };
}

export interface ContainerStatus {
  name: string;
  state?: ContainerState;
  lastState?: ContainerState;
  ready: boolean;
  started?: boolean;
  restartCount: number;
  image: string;
  imageID: string;
  containerID?: string;
}

export interface PodStatus {
  phase?: PodPhase;
  reason?: string;
  message?: string;
  conditions?: Condition[];
  hostIP?: string;
  hostIPs?: { ip: string }[];
  podIP?: string;
  podIPs?: { ip: string }[];
  startTime?: string;
  initContainerStatuses?: ContainerStatus[];
  containerStatuses?: ContainerStatus[];
  qosClass?: string;
  [field: string]: unknown;
}

export interface Pod extends KubeObject {
  spec: {
    nodeName?: string;
    containers: Container[];
    initContainers?: Container[];
    volumes?: PodVolume[];
    readinessGates?: { conditionType: string }[];
    restartPolicy?: string;
    terminationGracePeriodSeconds?: number;
    hostname?: string;
    nodeSelector?: Record<string, string>;
    securityContext?: { runAsUser?: number; fsGroup?: number; [field: string]: unknown };
    [field: string]: unknown;
  };
  status?: PodStatus;
}
