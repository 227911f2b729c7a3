import { findCondition } from './conditions.ts';
import type { VirtualMachineExport } from './export.ts';
import { type Condition, controllerOf, type KubeObject } from './kubernetes.ts';
import type { TypedReference } from './snapshot.ts';

/** A disk in a backup. */
export interface BackupVolume {
  volumeName: string;
  /** `vda`. */
  diskTarget: string;
  dataEndpoint?: string;
  mapEndpoint?: string;
}

/** A point in time since which a guest's changed blocks are known. */
export interface BackupCheckpoint {
  name?: string;
  creationTime?: string;
  volumes?: BackupVolume[];
}

/**
 * In what our launcher says when it refuses an order. The agent passes on text with one status for all refusals, as upstream's does, so that
 * virt-controller finds by these what has become of the backup.
 */
export const backupRefusals = {
  nothingToAbort: 'there is nothing to abort',
  unknownStart: 'libvirt does not say whether it begins: the status tells, or the same order again',
} as const;

/** backup.kubevirt.io/v1alpha1. */
export interface VirtualMachineBackup extends KubeObject {
  spec: {
    /** A VirtualMachine, or a VirtualMachineBackupTracker of one. */
    source: TypedReference;
    /** `Push` unless given. */
    mode?: 'Push' | 'Pull';
    /** Where it is written to, or what it needs meanwhile. */
    pvcName?: string;
    skipQuiesce?: boolean;
    forceFullBackup?: boolean;
    /** Of a pull: the secret with the key `token`. */
    tokenSecretRef?: string;
    /** Of a pull, as Go writes durations. */
    ttlDuration?: string;
  };
  status?: {
    type?: 'Full' | 'Incremental';
    conditions?: Condition[];
    checkpointName?: string;
    endpointCert?: string;
    includedVolumes?: BackupVolume[];
    exportUID?: string;
  };
}

/** The latest checkpoint of a VM, for backups of what has changed since; backup.kubevirt.io/v1alpha1. */
export interface VirtualMachineBackupTracker extends KubeObject {
  spec: { source: TypedReference };
  status?: {
    latestCheckpoint?: BackupCheckpoint;
    /** The guest has been started anew since. */
    checkpointRedefinitionRequired?: boolean;
  };
}

/**
 * The export that virt-controller makes for it. Whoever may make exports may write any owner into one of its name, so that all that says who reads
 * what has to be as it is made.
 */
export function isExportOf(
  { metadata: { name, uid }, spec }: VirtualMachineBackup,
  vmExport: Pick<VirtualMachineExport, 'metadata' | 'spec'>,
): boolean {
  const { source, tokenSecretRef } = vmExport.spec;
  return (
    controllerOf(vmExport)?.uid === uid &&
    vmExport.metadata.name === name &&
    source?.apiGroup === 'backup.kubevirt.io' &&
    source.kind === 'VirtualMachineBackup' &&
    source.name === name &&
    (tokenSecretRef ?? '') === (spec.tokenSecretRef ?? '')
  );
}

/** It has succeeded or failed, and changes no more. */
export function isBackupOver({ status }: { readonly status?: { readonly conditions?: Condition[] } }): boolean {
  return ['Complete', 'Failed'].some((type) => findCondition(status?.conditions, type)?.status === 'True');
}
