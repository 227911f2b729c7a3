import { finalizers, isTaken } from '../../api/index.ts';
import { type Decided, decideBy, type ObjectEvent, ruleTable, type Step } from '../../reconcile/index.ts';
import { goneTable } from '../reconciling.ts';
import { canFreeze, failureDeadlineMs, freezeLimit } from '../snapshot-source/index.ts';
import type { AbsentContent, BackupFacts, ContentObservation, PresentContent } from './observe.ts';

export interface ContentStepArgs {
  freezeGuest: { readonly thawAfterMs: number };
  thawGuest: object;
  createVolumeSnapshots: { readonly backups: readonly BackupFacts['backup'][] };
  release: object;
  /** Finalizers of restores that are no more. */
  dropHolds: { readonly holds: readonly string[] };
}

export interface ContentPlan {
  readonly steps: readonly Step<ContentStepArgs>[];
  readonly events?: readonly ObjectEvent[];
  readonly requeueAfterMs?: number;
  /** The status is not touched. */
  readonly keepsStatus?: boolean;
  /** Why it is not ready. */
  readonly problem?: string;
  /** All VolumeSnapshots have been taken, and the guest goes on: if the steps went well. */
  readonly isTakenNow?: true;
}

export interface ContentDecision extends Decided, ContentPlan {
  readonly steps: readonly Step<ContentStepArgs>[];
  readonly problem?: string;
}

type Facts = PresentContent;

/** Upstream's. */
const lookMs = 5_000;
/** Of a launcher that thaws the guest by itself, where the snapshot has no deadline. */
const longestFreezeMs = 300_000;

const namesOf = (backups: readonly BackupFacts[]) => backups.map(({ backup }) => backup.volumeSnapshotName).join(',');
const missingOf = ({ backups }: Facts) => backups.filter(({ taken }) => taken === undefined);
const errorOf = ({ backups }: Facts) => backups.find(({ taken }) => taken?.status?.error?.message);
const isCut = ({ content }: Facts) => content.status?.error?.message?.includes(freezeLimit) === true;
/** The snapshot has to say first that the guest was not frozen to the end. */
const isCutUnsaid = (facts: Facts) =>
  isCut(facts) && facts.snapshot?.status?.indications?.includes('QuiesceTimeout') !== true;
const mayBeFrozen = ({ source }: Facts) => source !== undefined && canFreeze(source.guest);
const thawing = (facts: Facts) => (mayBeFrozen(facts) ? ([{ step: 'thawGuest' }] as const) : []);

function volumeError(facts: Facts): string | undefined {
  const found = errorOf(facts);
  if (!found) return undefined;
  return `VolumeSnapshot ${found.backup.volumeSnapshotName} error: ${found.taken?.status?.error?.message}`;
}

const presentTable = ruleTable<Facts, ContentPlan>(
  [
    {
      name: 'snapshot-over',
      why: 'The snapshot is gone, ends or has failed: the guest goes on, and the content may go.',
      when: ({ isEnding, content }) =>
        isEnding && content.metadata.finalizers?.includes(finalizers.vmSnapshotContent) === true,
      plan: (facts) => ({
        steps: [...(isTaken(facts.content) ? [] : thawing(facts)), { step: 'release' }],
        keepsStatus: true,
      }),
    },
    {
      name: 'restore-gone',
      why: 'The content is being deleted, and a restore that it was kept for is no more.',
      when: ({ lostHolds }) => lostHolds.length > 0,
      plan: ({ lostHolds: holds }) => ({ steps: [{ step: 'dropHolds', holds }], keepsStatus: true }),
    },
    {
      name: 'deleted',
      why: 'The content is being deleted, and its VolumeSnapshots with it.',
      when: ({ content }) => content.metadata.deletionTimestamp !== undefined,
      plan: () => ({ steps: [], keepsStatus: true }),
    },
    {
      name: 'volume-snapshots-unread',
      why: 'It is not known which VolumeSnapshots there are, so none is made.',
      when: ({ unread }) => unread !== undefined,
      plan: ({ unread = '' }) => ({ steps: [], problem: unread, requeueAfterMs: lookMs }),
    },
    {
      name: 'volume-snapshots-gone',
      why: 'VolumeSnapshots that had been taken are gone: no VM can be restored from this content.',
      when: (facts) => isTaken(facts.content) && missingOf(facts).length > 0,
      plan: (facts) => {
        const problem = `VolumeSnapshots (${namesOf(missingOf(facts))}) missing`;
        const isNews = facts.content.status?.error?.message !== problem;
        const events = missingOf(facts).map(({ backup }): ObjectEvent => {
          const message = `VolumeSnapshot ${backup.volumeSnapshotName} no longer exists`;
          return { type: 'Warning', reason: 'VolumeSnapshotMissing', message };
        });
        return { steps: [], problem, ...(isNews && { events }) };
      },
    },
    {
      name: 'snapshot-gone-before',
      why: 'The snapshot ended before all VolumeSnapshots were made: the rest is not made any more.',
      when: (facts) => facts.isEnding && missingOf(facts).length > 0,
      plan: (facts) => ({
        steps: [],
        problem: `VolumeSnapshots (${namesOf(missingOf(facts))}) skipped because vm snapshot is deleted`,
      }),
    },
    {
      name: 'source-unlocked',
      why: 'The VM is not locked by the snapshot, so its disks may change.',
      when: (facts) => missingOf(facts).length > 0 && facts.source === undefined,
      plan: () => ({ steps: [], problem: 'the VM is not locked by its snapshot', requeueAfterMs: lookMs }),
    },
    {
      name: 'volume-snapshots-missing',
      why: 'The guest writes all that it has to its disks and stops writing; then VolumeSnapshots are made of them.',
      when: (facts) => missingOf(facts).length > 0,
      plan: (facts) => {
        const { source, snapshot } = facts;
        const isToFreeze = mayBeFrozen(facts) && source?.guest.isFrozen === false && !isCut(facts);
        const thawAfterMs = (snapshot && failureDeadlineMs(snapshot)) ?? longestFreezeMs;
        const freezing = isToFreeze ? ([{ step: 'freezeGuest', thawAfterMs }] as const) : [];
        const backups = missingOf(facts).map(({ backup }) => backup);
        return { steps: [...freezing, { step: 'createVolumeSnapshots', backups }], requeueAfterMs: lookMs };
      },
    },
    {
      name: 'freeze-cut-short',
      why: 'A VolumeSnapshot cannot be taken now, and a guest must not stand still for long: it goes on.',
      when: (facts) =>
        !isTaken(facts.content) &&
        volumeError(facts) !== undefined &&
        facts.source?.guest.isFrozen === true &&
        !isCut(facts),
      plan: (facts) => ({
        steps: [{ step: 'thawGuest' }],
        problem: `${volumeError(facts)}; the guest goes on meanwhile: ${freezeLimit}`,
      }),
    },
    {
      name: 'being-taken',
      why: 'VolumeSnapshots are being taken.',
      when: ({ content, backups }) => !isTaken(content) && backups.some(({ taken }) => !taken?.status?.creationTime),
      plan: (facts) => ({ steps: [], ...problemOf(facts) }),
    },
    {
      name: 'cut-short-unsaid',
      why: 'All VolumeSnapshots have been taken; the snapshot has yet to say that the guest wrote meanwhile.',
      when: (facts) => !isTaken(facts.content) && isCutUnsaid(facts),
      plan: () => ({ steps: [], keepsStatus: true, requeueAfterMs: lookMs }),
    },
    {
      name: 'all-taken',
      why: 'All VolumeSnapshots have been taken: the guest goes on.',
      when: ({ content }) => !isTaken(content),
      plan: (facts) => ({ steps: isCut(facts) ? [] : thawing(facts), isTakenNow: true, ...problemOf(facts) }),
    },
  ],
  {
    name: 'taken',
    why: 'All VolumeSnapshots have been taken.',
    plan: (facts) => ({ steps: [], ...problemOf(facts) }),
  },
);

function problemOf(facts: Facts): Pick<ContentPlan, 'problem'> {
  const problem = volumeError(facts);
  return problem === undefined ? {} : { problem };
}

const absentTable = goneTable<AbsentContent, ContentPlan>({
  object: 'content',
  plan: (nothing) => ({ ...nothing, keepsStatus: true }),
});

export const snapshotContentRules = [...presentTable.rules, ...absentTable.rules];

/** Pure and total. */
export function decideContent(observation: ContentObservation): ContentDecision {
  return observation.kind === 'present' ? decideBy(presentTable, observation) : decideBy(absentTable, observation);
}
