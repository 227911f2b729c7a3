import { makeKey } from './keys.ts';

/**
 * Domain JSON between launcher and agent (`pkg/virt-launcher/virtwrap/api/schema.go`). Keys are Go field names; writers emit every key with
 * `null`, `""` or `0` when empty, readers accept anything missing. Only what a program of ours reads is typed here.
 */

export type DomainStatus =
  | ''
  | 'NoState'
  | 'Running'
  | 'Blocked'
  | 'Paused'
  | 'ShuttingDown'
  | 'Shutoff'
  | 'Crashed'
  | 'PMSuspended'
  | 'Unknown';

export type DomainReason =
  | ''
  | 'NonExistent'
  | 'Unknown'
  | 'User'
  | 'Migration'
  | 'Save'
  | 'Dump'
  | 'IOError'
  | 'Watchdog'
  | 'FromSnapshot'
  | 'ShuttingDown'
  | 'Snapshot'
  | 'Crashed'
  | 'StartingUp'
  | 'Postcopy'
  | 'PostcopyFailed'
  | 'Shutdown'
  | 'Destroyed'
  | 'Migrated'
  | 'Saved'
  | 'Failed'
  | 'Panicked';

export interface DomainInterfaceStatus {
  Mac: string;
  Ip: string;
  IPs: string[] | null;
  InterfaceName: string;
}

export interface GuestOsInfo {
  Name: string;
  KernelRelease: string;
  Version: string;
  PrettyName: string;
  VersionId: string;
  KernelVersion: string;
  Machine: string;
  Id: string;
}

/** Of a guest whose agent has not said anything. */
export const noGuestOsInfo: Readonly<GuestOsInfo> = {
  Name: '',
  KernelRelease: '',
  Version: '',
  PrettyName: '',
  VersionId: '',
  KernelVersion: '',
  Machine: '',
  Id: '',
};

export interface GracePeriodMetadata {
  DeletionGracePeriodSeconds: number;
  DeletionTimestamp: string | null;
  MarkedForGracefulShutdown: boolean | null;
}

export interface MigrationMetadata {
  UID: string;
  StartTimestamp: string | null;
  EndTimestamp: string | null;
  Failed: boolean;
  FailureReason: string;
  AbortStatus: '' | 'Aborting' | 'Succeeded' | 'Failed';
  Mode: '' | 'PreCopy' | 'PostCopy' | 'Paused';
  /** Ours alone: the same order again resumes a post-copy that broke. Upstream's launcher cannot, and says nothing of it. */
  Resumable?: boolean;
}

export interface KubeVirtMetadata {
  UID: string;
  GracePeriod: GracePeriodMetadata | null;
  Migration: MigrationMetadata | null;
  Backup: Record<string, unknown> | null;
  AccessCredential: { Succeeded: boolean; Message: string } | null;
  MemoryDump: Record<string, unknown> | null;
}

export interface DomainAlias {
  Name: string;
  UserDefined: boolean;
}

export interface DomainDisk {
  Device: string;
  Type: string;
  Source: { Dev: string; File: string; [key: string]: unknown };
  Target: { Bus: string; Device: string; Tray: string };
  Alias: DomainAlias | null;
  [key: string]: unknown;
}

export interface DomainInterface {
  Alias: DomainAlias | null;
  MAC: { MAC: string } | null;
  Driver: { Queues: number | null; [key: string]: unknown } | null;
  LinkState: { State: string } | null;
  [key: string]: unknown;
}

export interface DomainChannelTarget {
  Name: string;
  Type: string;
  Address: string;
  Port: number;
  State: string;
}

export interface DomainDevices {
  Channels: { Target: DomainChannelTarget | null; [key: string]: unknown }[] | null;
  Disks: DomainDisk[] | null;
  Interfaces: DomainInterface[] | null;
  HostDevices: { Alias: DomainAlias | null; [key: string]: unknown }[] | null;
  [key: string]: unknown;
}

export interface DomainSpec {
  Type: string;
  Name: string;
  UUID: string;
  OS: { Type: { OS: string; Arch: string; Machine: string }; [key: string]: unknown };
  Features: { ACPI: object | null; [key: string]: unknown } | null;
  CurrentMemory: { Value: number; Unit: string } | null;
  Devices: DomainDevices;
  Metadata: { KubeVirt: KubeVirtMetadata };
  [key: string]: unknown;
}

export interface Domain {
  kind: 'Domain';
  apiVersion: '1.2.2';
  ObjectMeta: {
    name: string;
    namespace: string;
    uid?: string;
    creationTimestamp: null;
    /** Set: the domain is gone. */
    deletionTimestamp?: string;
  };
  Spec: DomainSpec;
  Status: {
    Status: DomainStatus;
    Reason: DomainReason;
    Interfaces: DomainInterfaceStatus[] | null;
    OSInfo: GuestOsInfo;
    FSFreezeStatus: { Status: string };
    GuestPanicInfo: { Type: string; [arg: string]: unknown } | null;
    PanicCount: number;
  };
}

export function domainKey(domain: Domain): string {
  return makeKey(domain.ObjectMeta.namespace, domain.ObjectMeta.name);
}

/** UID of the VMI this domain was made for; the body's metadata first (GetDomain leaves ObjectMeta.uid empty). */
export function domainUid(domain: Domain): string {
  return domain.Spec?.Metadata?.KubeVirt?.UID || domain.ObjectMeta.uid || '';
}
