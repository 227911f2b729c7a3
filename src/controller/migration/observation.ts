import type {
  Key,
  PersistentVolumeClaim,
  Pod,
  VirtualMachineInstance,
  VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import type { Observed } from '../../reconcile/index.ts';
import type { AttachedClaim, AttachmentPod } from '../pod/index.ts';

/** How often a migration is tried again that a loss has ended. */
export type MigrationRetries = 0 | 1;

/** The pod that the guest shall move to. `unseen`: the API server has it, the cache does not show it yet. */
export type Target =
  | { readonly kind: 'none' | 'unseen' }
  | {
      readonly kind: 'pod';
      readonly pod: Pod;
      /** It stands in the VMI's `status.activePods`: from then on any controller knows that it is no foreign pod. */
      readonly isRecorded: boolean;
    };

/** Volumes that the guest got while it ran. */
export interface PluggedVolumes {
  /** What the target pod needs of them. */
  readonly claims: readonly AttachedClaim[];
  /** Names of those on their way into the guest or out of it, and of those whose claim is not there. */
  readonly inMotion: readonly string[];
  /** Pods that bring the claims to the target. */
  readonly attachments: readonly AttachmentPod[];
  /** Attachment pods of launchers that the guest has left. */
  readonly left: readonly Pod[];
}

/** Another unfinished migration of the same VMI. */
export interface Rival {
  readonly name: string;
  /** The VMI's `migrationState` is its own; otherwise it was only there first. */
  readonly hasState: boolean;
}

/** A final migration that is one too many, with the pod that it left. */
export interface Superseded {
  readonly migration: VirtualMachineInstanceMigration;
  readonly pod: Pod | undefined;
}

/** A migration and what it depends on; plain data. */
export interface MigrationFacts {
  readonly migration: VirtualMachineInstanceMigration;
  readonly uid: string;
  /** Undefined: the API server has none of this name. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** The pod that the guest is in. */
  readonly sourcePod: Pod | undefined;
  /** Of the node that the guest is on. */
  readonly nodeLabels: Readonly<Record<string, string>>;
  /** The claims of its volumes that are there, by name. */
  readonly claims: ReadonlyMap<string, PersistentVolumeClaim>;
  readonly target: Target;
  /** Claims on which its TPM and EFI variables are kept; none of those that are being deleted. */
  readonly keptState: {
    /** The guest's own. */
    readonly sources: readonly PersistentVolumeClaim[];
    /** Made for this migration, and not the guest's yet. */
    readonly target: PersistentVolumeClaim | undefined;
  };
  readonly plugged: PluggedVolumes;
  /** Pods that say they are the target, and are not. */
  readonly leftovers: readonly Pod[];
  readonly rival: Rival | undefined;
  /** Launcher pods of the VMI that have not ended, without this migration's target. */
  readonly activePods: number;
  /** Other migrations under way: all of them, and those that leave the same node. */
  readonly running: { readonly cluster: number; readonly outbound: number };
  /** No migration that is more urgent, or as urgent and older, needs the room that is left. */
  readonly isTurn: boolean;
  /** Of an evacuation that failed before; 0: none. */
  readonly backoffMs: number;
  readonly retry: {
    readonly limit: MigrationRetries;
    /** A migration of the same VMI that was asked for after this one, other than the one that tries it again. */
    readonly newer: string | undefined;
  };
  readonly superseded: readonly Superseded[];
  readonly config: ControllerConfig;
  readonly now: Date;
}

export interface PresentMigration extends MigrationFacts, Observed {
  readonly kind: 'present';
}

export interface AbsentMigration extends Observed {
  readonly kind: 'absent';
  readonly key: Key;
}

/** The API server did not answer what a decision depends on. */
export interface UnclearMigration extends Observed {
  readonly kind: 'unclear';
  readonly reason: string;
}

export type MigrationObservation = PresentMigration | AbsentMigration | UnclearMigration;
