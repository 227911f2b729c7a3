import type { KubeObject } from './kubernetes.ts';

/** Provisioner of the standalone node's claims. Their disks lie in no file system of their own: a guest has all that is claimed. */
export const localStorage = {
  driver: 'local.virt-node',
  provisionerAnnotation: 'volume.kubernetes.io/storage-provisioner',
} as const;

/** Amounts by resource, as `{ storage: '1Gi' }`. */
type Amounts = Record<string, string | number>;

/** Another object by which a claim says what it is filled with. Without a group it is of the core one. */
export interface DataSource {
  apiGroup?: string | null;
  kind: string;
  name: string;
  namespace?: string;
}

/** The parts of a claim that are read here. */
export interface PersistentVolumeClaim extends KubeObject {
  spec: {
    accessModes?: string[];
    /** `Filesystem` unless given. */
    volumeMode?: string;
    resources?: { requests?: Amounts };
    /** Absent: of the default class, once there is one; empty: of none. */
    storageClassName?: string;
    /** The PersistentVolume that it has, or wants. */
    volumeName?: string;
    dataSource?: DataSource;
    dataSourceRef?: DataSource;
    [field: string]: unknown;
  };
  status?: { phase?: string; capacity?: Amounts; accessModes?: string[]; [field: string]: unknown };
}

export interface PersistentVolume extends KubeObject {
  spec: {
    capacity?: Amounts;
    accessModes?: string[];
    volumeMode?: string;
    storageClassName?: string;
    /** `Delete` or `Retain`. */
    persistentVolumeReclaimPolicy?: string;
    /** Without a UID it is kept for a claim of that name. */
    claimRef?: { namespace?: string; name: string; uid?: string; [field: string]: unknown };
    csi?: { driver: string; volumeHandle: string; [field: string]: unknown };
    [field: string]: unknown;
  };
  /** Phases: Pending, Available, Bound, Released, Failed. */
  status?: { phase?: string; reason?: string; message?: string; [field: string]: unknown };
}

export interface StorageClass extends KubeObject {
  provisioner: string;
  parameters?: Record<string, string>;
  mountOptions?: string[];
  reclaimPolicy?: string;
  volumeBindingMode?: string;
  allowVolumeExpansion?: boolean;
}

export interface VolumeSnapshotClass extends KubeObject {
  driver: string;
  deletionPolicy: string;
  parameters?: Record<string, string>;
}

export interface VolumeSnapshot extends KubeObject {
  spec: {
    /** One of the two. */
    source: { persistentVolumeClaimName?: string; volumeSnapshotContentName?: string };
    volumeSnapshotClassName?: string;
  };
  status?: {
    boundVolumeSnapshotContentName?: string;
    creationTime?: string;
    readyToUse?: boolean;
    restoreSize?: string | number;
    error?: { message?: string; time?: string };
    [field: string]: unknown;
  };
}

export interface VolumeSnapshotContent extends KubeObject {
  spec: {
    driver: string;
    deletionPolicy: string;
    volumeSnapshotRef: { namespace?: string; name: string; uid?: string; [field: string]: unknown };
    source: { volumeHandle?: string; snapshotHandle?: string };
    volumeSnapshotClassName?: string;
    sourceVolumeMode?: string;
  };
  /** `creationTime` in nanoseconds since the epoch, `restoreSize` in bytes. */
  status?: { snapshotHandle?: string; creationTime?: number; readyToUse?: boolean; restoreSize?: number };
}
