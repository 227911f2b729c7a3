import type { Condition, KubeObject } from './kubernetes.ts';
import type { DataSource, PersistentVolumeClaim } from './storage.ts';
import type { VirtualMachine } from './vmi.ts';

/** An object of the same namespace, of another API group. */
export type TypedReference = Pick<DataSource, 'apiGroup' | 'kind' | 'name'>;

export interface SnapshotError {
  time?: string;
  message?: string;
}

/** How the VM was when its snapshot was taken. */
export type SnapshotIndication =
  | 'Online'
  | 'NoGuestAgent'
  | 'GuestAgent'
  | 'QuiesceTimeout'
  | 'Paused'
  | 'PartialSnapshot';

/** snapshot.kubevirt.io/v1beta1. */
export interface VirtualMachineSnapshot extends KubeObject {
  spec: {
    source: TypedReference;
    /** Of its content, when the snapshot is deleted; `Delete` unless given. */
    deletionPolicy?: string;
    /** As Go writes durations; `5m` unless given, `0s`: none. */
    failureDeadline?: string;
  };
  status?: {
    sourceUID?: string;
    virtualMachineSnapshotContentName?: string;
    creationTime?: string | null;
    phase?: '' | 'InProgress' | 'Succeeded' | 'Failed' | 'Deleting' | 'Unknown';
    readyToUse?: boolean;
    error?: SnapshotError;
    conditions?: Condition[];
    /** Deprecated upstream, and written all the same. */
    indications?: SnapshotIndication[];
    sourceIndications?: { indication: SnapshotIndication; message: string }[];
    snapshotVolumes?: { includedVolumes?: string[]; excludedVolumes?: string[] };
  };
}

/** A volume of the VM, with the VolumeSnapshot of its claim. */
export interface VolumeBackup {
  volumeName: string;
  persistentVolumeClaim: Pick<PersistentVolumeClaim, 'spec'> & { metadata?: Partial<KubeObject['metadata']> };
  volumeSnapshotName?: string;
}

/** What of the VM is kept: no type of its own, and no status. */
export type KeptVirtualMachine = Pick<VirtualMachine, 'metadata' | 'spec'> & { status?: object };

/** Holds what a snapshot has: what the VM was like, and the names of its VolumeSnapshots. */
export interface VirtualMachineSnapshotContent extends KubeObject {
  spec: {
    virtualMachineSnapshotName?: string;
    source: { virtualMachine?: KeptVirtualMachine };
    volumeBackups?: VolumeBackup[];
  };
  status?: {
    creationTime?: string | null;
    readyToUse?: boolean;
    error?: SnapshotError;
    volumeSnapshotStatus?: {
      volumeSnapshotName: string;
      creationTime?: string | null;
      readyToUse?: boolean;
      error?: SnapshotError;
    }[];
  };
}

export interface VolumeRestore {
  volumeName: string;
  /** The name of the claim that it becomes. */
  persistentVolumeClaim: string;
  volumeSnapshotName: string;
  /** Of the DataVolume that the claim belongs to, where the VM has a template of one. */
  dataVolumeName?: string;
}

export const readinessPolicies = ['StopTarget', 'WaitGracePeriod', 'FailImmediate', 'WaitEventually'] as const;
export const volumeRestorePolicies = ['RandomizeNames', 'InPlace', 'PrefixTargetName'] as const;
export const volumeOwnershipPolicies = ['Vm', 'None'] as const;

export interface VirtualMachineRestore extends KubeObject {
  spec: {
    target: TypedReference;
    virtualMachineSnapshotName: string;
    /** `WaitGracePeriod` unless given. */
    targetReadinessPolicy?: (typeof readinessPolicies)[number];
    /** `RandomizeNames` unless given. */
    volumeRestorePolicy?: (typeof volumeRestorePolicies)[number];
    /** `Vm` unless given. */
    volumeOwnershipPolicy?: (typeof volumeOwnershipPolicies)[number];
    volumeRestoreOverrides?: {
      volumeName?: string;
      restoreName?: string;
      labels?: Record<string, string>;
      annotations?: Record<string, string>;
    }[];
    /** JSON patches for a VM that the restore makes: one operation each, as text. */
    patches?: string[];
  };
  status?: {
    restores?: VolumeRestore[];
    restoreTime?: string;
    deletedDataVolumes?: string[];
    complete?: boolean;
    conditions?: Condition[];
  };
}

/** clone.kubevirt.io/v1beta1. */
export interface VirtualMachineClone extends KubeObject {
  spec: {
    source: TypedReference;
    target?: TypedReference;
    /** Absent: all stay. `!` at the beginning takes away, `*` at the end is anything. */
    annotationFilters?: string[];
    labelFilters?: string[];
    template?: { annotationFilters?: string[]; labelFilters?: string[] };
    /** By the names of interfaces. */
    newMacAddresses?: Record<string, string>;
    newSMBiosSerial?: string;
    patches?: string[];
    volumeNamePolicy?: 'RandomizeNames' | 'PrefixTargetName';
  };
  status?: {
    creationTime?: string | null;
    phase?: '' | 'SnapshotInProgress' | 'CreatingTargetVM' | 'RestoreInProgress' | 'Succeeded' | 'Failed' | 'Unknown';
    conditions?: Condition[];
    snapshotName?: string | null;
    restoreName?: string | null;
    targetName?: string | null;
  };
}

/** Where a snapshot's content is, or will be. */
export function contentNameOf({ metadata, status }: VirtualMachineSnapshot): string {
  return status?.virtualMachineSnapshotContentName ?? `vmsnapshot-content-${metadata.uid ?? ''}`;
}

export function isReadyToUse({ status }: VirtualMachineSnapshot | VirtualMachineSnapshotContent): boolean {
  return status?.readyToUse === true;
}

/** All its VolumeSnapshots have been taken; they may not be ready yet. */
export function isTaken({ status }: VirtualMachineSnapshotContent): boolean {
  return Boolean(status?.creationTime);
}

export function isRestoreOver({ status }: VirtualMachineRestore): boolean {
  if (status?.complete === true) return true;
  return Array.isArray(status?.conditions) && status.conditions.some((one) => one?.type === 'Failure');
}

/** A VM of KubeVirt. */
export function namesVirtualMachine(reference: TypedReference | undefined): boolean {
  return reference?.apiGroup === 'kubevirt.io' && reference.kind === 'VirtualMachine';
}
