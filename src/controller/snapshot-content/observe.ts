import {
  contentNameOf,
  type Key,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineRestore,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
  type VolumeBackup,
  type VolumeSnapshot,
} from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import type { Observed, ReadYourWrites } from '../../reconcile/index.ts';
import { type GuestFacts, guestOf, isEnding, isLockedBy, lostHolds, vmiOf } from '../snapshot-source/index.ts';

/** A volume of the content, and what became of it. */
export interface BackupFacts {
  readonly backup: VolumeBackup & { readonly volumeSnapshotName: string };
  readonly taken: VolumeSnapshot | undefined;
}

/** A content, its snapshot, its VolumeSnapshots and the guest; plain data. */
export interface PresentContent extends Observed {
  readonly kind: 'present';
  readonly content: VirtualMachineSnapshotContent;
  /** Undefined: gone, or one of another content. */
  readonly snapshot: VirtualMachineSnapshot | undefined;
  /** Nothing more is taken for it. */
  readonly isEnding: boolean;
  /** The VM, while it is locked by the snapshot, and its guest. */
  readonly source: { readonly vm: VirtualMachine; readonly guest: GuestFacts } | undefined;
  readonly backups: readonly BackupFacts[];
  /** Finalizers of restores that are no more, on a content that is being deleted. */
  readonly lostHolds: readonly string[];
  /** Why it is not known which VolumeSnapshots there are. */
  readonly unread: string | undefined;
}

export interface AbsentContent extends Observed {
  readonly kind: 'absent';
}

export type ContentObservation = PresentContent | AbsentContent;

export interface ObserveDeps {
  readonly snapshots: Pick<ReadYourWrites<VirtualMachineSnapshot>, 'get'>;
  readonly contents: ReadYourWrites<VirtualMachineSnapshotContent>;
  readonly volumeSnapshots: ReadYourWrites<VolumeSnapshot>;
  readonly restores: Pick<ReadYourWrites<VirtualMachineRestore>, 'list'>;
  /** Of the last try to read VolumeSnapshots. */
  readonly volumeSnapshotsError: () => string | undefined;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'get'>;
  readonly clock: Clock;
}

export function observeContent(key: Key, deps: ObserveDeps): ContentObservation {
  const content = deps.contents.get(key);
  const now = deps.clock.now();
  if (!content) return { kind: 'absent', key, uid: '', now };
  const { namespace, name, uid = '' } = content.metadata;
  const named = deps.snapshots.get(`${namespace}/${content.spec.virtualMachineSnapshotName ?? ''}`);
  const snapshot = named && contentNameOf(named) === name ? named : undefined;
  const backups = (content.spec.volumeBackups ?? []).flatMap((backup) => {
    const { volumeSnapshotName } = backup;
    if (volumeSnapshotName === undefined) return [];
    const taken = deps.volumeSnapshots.get(`${namespace}/${volumeSnapshotName}`);
    return [{ backup: { ...backup, volumeSnapshotName }, taken }];
  });
  const isRead = backups.length === 0 || deps.volumeSnapshots.synced;
  return {
    kind: 'present',
    ...{ key, uid, now, content, snapshot, backups },
    isEnding: !snapshot || isEnding(snapshot, now),
    source: snapshot && sourceOf(snapshot, deps),
    lostHolds: content.metadata.deletionTimestamp ? lostHolds(content, deps.restores.list()) : [],
    unread: isRead ? undefined : `VolumeSnapshots cannot be read: ${deps.volumeSnapshotsError() ?? 'no answer yet'}`,
  };
}

function sourceOf({ metadata, spec }: VirtualMachineSnapshot, { vms, vmis }: ObserveDeps): PresentContent['source'] {
  const vm = vms.get(`${metadata.namespace}/${spec.source.name}`);
  return vm && isLockedBy(vm, metadata.name) ? { vm, guest: guestOf(vmiOf(vm, vmis)) } : undefined;
}
