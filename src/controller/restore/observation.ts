import type {
  DataVolume,
  PersistentVolumeClaim,
  VirtualMachine,
  VirtualMachineRestore,
  VirtualMachineSnapshot,
  VirtualMachineSnapshotContent,
  VolumeBackup,
  VolumeRestore,
  VolumeSnapshot,
} from '../../api/index.ts';
import type { Observed } from '../../reconcile/index.ts';

/** A volume that is restored. */
export interface VolumeFacts {
  readonly restore: VolumeRestore;
  readonly backup: VolumeBackup;
  readonly volumeSnapshot: VolumeSnapshot | undefined;
  readonly claim: PersistentVolumeClaim | undefined;
  /** The claim was made by this restore. */
  readonly isOurs: boolean;
  /** In place: why a claim that is not may not be deleted to make room, in words that follow its name; undefined: it may. */
  readonly others: string | undefined;
  /** It is bound when a pod wants it. */
  readonly bindsLater: boolean;
  /** The DataVolume of the VM's templates that the claim shall belong to; undefined: the VM has no template of it. */
  readonly dataVolumeName: string | undefined;
  /** The DataVolume that controls the claim now. */
  readonly filledBy: string | undefined;
}

/** A DataVolume of the restored VM's templates. */
export interface DataVolumeFacts {
  readonly name: string;
  readonly template: object;
  readonly object: DataVolume | undefined;
  readonly isFilled: boolean;
  /** It is not known yet whether there is one. */
  readonly isUnread: boolean;
}

/** What of the VM's firmware is restored: a claim that becomes the one of the VM's state. */
export interface StateFacts {
  readonly claim: PersistentVolumeClaim | undefined;
  /** It says whose state it has. */
  readonly isMarked: boolean;
  /** Claims that have the state of the target now. */
  readonly former: readonly PersistentVolumeClaim[];
}

/** What the snapshot has, as far as it can be restored. */
export interface SourceFacts {
  /** UID of the VM that the snapshot is of. */
  readonly vmUid: string | undefined;
  readonly snapshot: VirtualMachineSnapshot;
  readonly content: VirtualMachineSnapshotContent;
  readonly volumes: readonly VolumeFacts[];
  readonly dataVolumes: readonly DataVolumeFacts[];
  /** Undefined: the VM keeps none. */
  readonly state: StateFacts | undefined;
  /** The VM as it shall be stored; undefined while the names of its volumes are not written down. */
  readonly wanted: VirtualMachine | undefined;
  /** DataVolumes of the VM's templates whose volumes are restored onto others. */
  readonly obsolete: readonly string[];
  /** DataVolumes of its templates that the snapshot has nothing of: they stay when the VM names them no more. */
  readonly unkept: readonly string[];
}

/** A restore, its snapshot and its target; plain data. */
export interface PresentRestore extends Observed {
  readonly kind: 'present';
  readonly restore: VirtualMachineRestore;
  /** What it names as its target is no VM. */
  readonly problem: string | undefined;
  readonly target: VirtualMachine | undefined;
  /** The target is as the snapshot wants it. */
  readonly isRestored: boolean;
  /** The target names this restore as the one under way. */
  readonly isLocked: boolean;
  /** Another restore or a snapshot of the target is under way. */
  readonly busy: string | undefined;
  /** The target has a VMI. */
  readonly isRunning: boolean;
  /** The time is over in which the target may be stopped. */
  readonly isLate: boolean;
  readonly source: SourceFacts | { readonly problem: string };
  /** Contents that must not go before the VM is restored. */
  readonly held: readonly VirtualMachineSnapshotContent[];
  /** DataVolumes to be deleted that are still there. */
  readonly leftover: readonly DataVolume[];
  /** Claims to be deleted, with what the target's firmware kept before. */
  readonly formerState: readonly PersistentVolumeClaim[];
}

/** There is no such restore. */
export interface AbsentRestore extends Observed {
  readonly kind: 'absent';
  /** VMs that name it as the one under way. */
  readonly marked: readonly VirtualMachine[];
}

export type RestoreObservation = PresentRestore | AbsentRestore;
