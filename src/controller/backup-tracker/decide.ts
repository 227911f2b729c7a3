import { isMigrating } from '../../api/index.ts';
import { memberAt } from '../../base/index.ts';
import { type Decided, decideBy, ruleTable, type Step } from '../../reconcile/index.ts';
import { goneTable } from '../reconciling.ts';
import type { PresentTracker, TrackerObservation } from './observe.ts';
import { isAwaited } from './tracker.ts';

export interface TrackerStepArgs {
  /** The launcher is told of the checkpoint; one that is of no use is given up. */
  redefineCheckpoint: object;
}

interface TrackerPlan {
  readonly steps: readonly Step<TrackerStepArgs>[];
}

export interface TrackerDecision extends Decided, TrackerPlan {
  readonly steps: readonly Step<TrackerStepArgs>[];
}

type Facts = PresentTracker;

const nothing: () => TrackerPlan = () => ({ steps: [] });

const presentTable = ruleTable<Facts, TrackerPlan>(
  [
    {
      name: 'deleted',
      why: 'The tracker is being deleted: its checkpoint stays with the disks, and nobody goes on from it.',
      when: ({ tracker }) => tracker.metadata.deletionTimestamp !== undefined,
      plan: nothing,
    },
    {
      name: 'checkpoint-none',
      why: 'There is no checkpoint: the next backup by this tracker has the whole of the disks.',
      when: ({ tracker }) => !tracker.status?.latestCheckpoint?.name,
      plan: nothing,
    },
    {
      name: 'checkpoint-known',
      why: 'The next backup by this tracker has what changed since its checkpoint; where the guest runs, its launcher knows it.',
      when: ({ tracker }) => !isAwaited(tracker),
      plan: nothing,
    },
    {
      name: 'vm-missing',
      why: 'The guest was started since the checkpoint, and the VM exists no more; it may come back.',
      when: ({ vm, vmi }) => vm === undefined && vmi === undefined,
      plan: nothing,
    },
    {
      name: 'not-running',
      why: 'The guest was started since the checkpoint, and does not run now: its launcher is told of the checkpoint when it does.',
      when: ({ vmi }) => vmi?.status?.phase !== 'Running' || vmi.metadata.deletionTimestamp !== undefined,
      plan: nothing,
    },
    {
      name: 'not-tracked',
      why: 'The guest was started since the checkpoint, and its changed blocks are not recorded (yet): its launcher is told of the checkpoint when they are.',
      when: ({ vmi }) => memberAt(vmi?.status, 'changedBlockTracking', 'state') !== 'Enabled',
      plan: nothing,
    },
    {
      name: 'migrating',
      why: 'The guest was started since the checkpoint, and moves to another node: a launcher is told of the checkpoint afterwards.',
      when: ({ vmi }) => vmi !== undefined && isMigrating(vmi),
      plan: nothing,
    },
  ],
  {
    name: 'checkpoint-untold',
    why: 'The guest was started since the checkpoint: its launcher is told of it, and where its disks do not know it any more it is given up.',
    plan: () => ({ steps: [{ step: 'redefineCheckpoint' }] }),
  },
);

const absentTable = goneTable<TrackerObservation, TrackerPlan>({ object: 'tracker', plan: (none) => none });

export const backupTrackerRules = [...presentTable.rules, ...absentTable.rules];

/** Pure and total. */
export function decideTracker(observation: TrackerObservation): TrackerDecision {
  return observation.kind === 'present' ? decideBy(presentTable, observation) : decideBy(absentTable, observation);
}
