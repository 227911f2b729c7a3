import type { Loss } from '../fixtures/migration-loss.ts';
import type { Stage } from '../fixtures/migration-stage.ts';

/** What is true when all is over. Nothing of the migration is left in any case, and no guest has run twice. */
export type End =
  /** The migration has succeeded: the guest goes on at its target. */
  | { readonly kind: 'arrives' }
  /** The migration has failed in these words: the guest goes on where it was. */
  | { readonly kind: 'stays'; readonly why: RegExp }
  /** The guest is lost, with what was lost: VMI and migration have failed in these words. */
  | { readonly kind: 'ends'; readonly why: RegExp };

export interface Cell {
  readonly loss: Loss;
  /** How long, in milliseconds, until it is there again; `ended`: when the migration is over; not given: it comes back by itself, or never. */
  readonly back?: number | 'ended';
  readonly end: End;
}

const arrives: End = { kind: 'arrives' };
const stays = (why: RegExp): End => ({ kind: 'stays', why });
const ends = (why: RegExp): End => ({ kind: 'ends', why });

const reported = /^MigrationFailed: source node reported migration failed: ./;
/** The launcher that waits for the guest may say it first, by its end. */
const targetGone = /^(MigrationFailed: source node reported migration failed|TargetPod(Ended|Removed)): ./;
const guestGone = /^VmiEnded: Migration failed vmi shutdown during migration\./;

/** The guest and most of its memory are at the source. */
const early: readonly Cell[] = [
  { loss: 'source agent', back: 2_000, end: arrives },
  { loss: 'target agent', back: 2_000, end: arrives },
  { loss: 'API server', back: 3_000, end: arrives },
  { loss: 'target launcher', end: stays(targetGone) },
  { loss: 'source libvirt', end: stays(reported) },
  { loss: 'target libvirt', end: stays(targetGone) },
  { loss: 'network (reset)', back: 'ended', end: stays(targetGone) },
  { loss: 'network (dropped)', back: 'ended', end: stays(targetGone) },
  // QEMU is in its pod.
  { loss: 'source launcher', end: ends(guestGone) },
];

/** The last pass is under way and its switch comes at once: the guest may arrive while something is lost. */
const late: readonly Cell[] = early;

/** The guest runs at its target, and a part of its memory is still at the source. */
const postCopy: readonly Cell[] = [
  { loss: 'source agent', back: 2_000, end: arrives },
  { loss: 'target agent', back: 2_000, end: arrives },
  { loss: 'API server', back: 3_000, end: arrives },
  { loss: 'source libvirt', end: arrives },
  { loss: 'target libvirt', end: arrives },
  { loss: "target libvirt's last word", back: 15_000, end: arrives },
  { loss: 'network (reset)', back: 5_000, end: arrives },
  { loss: 'network (dropped)', back: 15_000, end: arrives },
  // Half of the memory goes with QEMU, which is in its pod.
  { loss: 'source launcher', end: ends(/^VmiEnded: .*the launcher on the source node ended in post-copy/) },
  { loss: 'target launcher', end: ends(/^(VmiEnded|MigrationFailed|TargetPod(Ended|Removed)): ./) },
  // The streams are opened anew in vain for as long as the agents are told to.
  { loss: 'network (reset)', back: 'ended', end: ends(/post-copy broke, and could not be resumed within 30 s/) },
];

export const cells: Readonly<Record<Stage, readonly Cell[]>> = { early, late, 'post-copy': postCopy };
