import type { VirtualMachine, VirtualMachineSnapshot, VirtualMachineSnapshotContent } from '../../api/index.ts';
import type { Observed } from '../../reconcile/index.ts';
import type { GuestFacts, VolumeFacts } from '../snapshot-source/index.ts';

/** The VM that a snapshot is of. */
export interface SourceFacts {
  readonly vm: VirtualMachine;
  readonly guest: GuestFacts;
  /** Locked by this snapshot. */
  readonly isLocked: boolean;
  /** The VM names this snapshot as the one under way. */
  readonly isMarked: boolean;
  /** What a snapshot would have of each volume; empty where it is not asked, as once there is a content. */
  readonly volumes: readonly VolumeFacts[];
  /** Why it cannot be locked now. */
  readonly problem: string | undefined;
}

/** A snapshot, its content and its VM; plain data. */
export interface PresentSnapshot extends Observed {
  readonly kind: 'present';
  readonly snapshot: VirtualMachineSnapshot;
  readonly content: VirtualMachineSnapshotContent | undefined;
  /** Undefined: there is no such VM, or another one of its name. */
  readonly source: SourceFacts | undefined;
  /** What it names as its source is no VM. */
  readonly problem: string | undefined;
  /** Negative: the deadline has passed; undefined: there is none. */
  readonly leftMs: number | undefined;
}

/** There is no such snapshot. */
export interface AbsentSnapshot extends Observed {
  readonly kind: 'absent';
  /** VMs that name it as the one under way. */
  readonly marked: readonly VirtualMachine[];
}

/** The API server did not answer what a decision depends on. */
export interface UnclearSnapshot extends Observed {
  readonly kind: 'unclear';
  readonly snapshot: VirtualMachineSnapshot;
  readonly reason: string;
}

export type SnapshotObservation = PresentSnapshot | AbsentSnapshot | UnclearSnapshot;
