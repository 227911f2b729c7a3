import type { Condition, KubeObject } from './kubernetes.ts';
import type { TypedReference } from './snapshot.ts';

/** How a volume can be had: a disk as it is or by gzip, a file system as directories or as an archive. */
export type ExportFormat = 'raw' | 'gzip' | 'dir' | 'tar.gz';

export interface ExportVolume {
  name: string;
  formats?: { format: ExportFormat; url: string }[];
}

/** A disk of a backup: its bytes, and which of them are worth reading. */
export interface ExportBackup {
  name: string;
  endpoints?: { endpoint: 'data' | 'map'; url: string }[];
}

/** What is exported, as seen from inside of the cluster or from outside. */
export interface ExportLink {
  /** Authorities of whoever answers at the URLs, PEM. */
  cert: string;
  volumes?: ExportVolume[];
  /** Disks of a backup that is read from a guest that runs. */
  backups?: ExportBackup[];
  manifests?: { type: 'all' | 'auth-header-secret'; url: string }[];
}

/** export.kubevirt.io/v1. */
export interface VirtualMachineExport extends KubeObject {
  spec: {
    source: TypedReference;
    /** A secret with the key `token`, which clients show; one is made unless named. */
    tokenSecretRef?: string;
    /** As Go writes durations, from the creation on; `2h` unless given. */
    ttlDuration?: string;
  };
  status?: {
    phase?: 'Pending' | 'Ready' | 'Terminated' | 'Skipped';
    links?: { internal?: ExportLink; external?: ExportLink };
    tokenSecretRef?: string;
    ttlExpirationTime?: string;
    serviceName?: string;
    virtualMachineName?: string;
    conditions?: Condition[];
  };
}
