import { findCondition, isFinal, isMigrationSource, migrationEnd } from '../../api/index.ts';
import {
  announcedState,
  areJoined,
  faultOf,
  isAnnounced,
  isDescribed,
  isSourceEnd,
  isSourceKnown,
  isTargetEnd,
  sourceDescription,
  troubleOf,
} from './decentralised-facts.ts';
import { hasAgentsPhase, inPhaseMs, isDeleted, isIn, ownState, phaseOf } from './facts.ts';
import { failsWithPod } from './failure-rules.ts';
import {
  blockedCondition,
  does,
  type Facts,
  fails,
  goesTo,
  type MigrationPlan,
  type MigrationRule,
  waits,
} from './plan.ts';

/** Looked at now and then: what is waited for is said by others, and in what words changes with time. */
const recheckMs = 60_000;
/** Until then nobody is told that the other side is silent. */
const silenceMs = 10_000;
const missingPodMs = 1_000;
const rivalMs = 5_000;
/** A source that does not say how an abort ended, of a guest that had not begun to move. */
const abortMs = 60_000;

/** What ends one half of a migration between two VMI objects, before what ends any migration. */
export const decentralisedFailureRules: readonly MigrationRule[] = [
  {
    name: 'decentralised-off',
    why: 'The VMI is to move to or from another VMI object, which this cluster does not do: the migration has failed.',
    when: (facts) =>
      migrationEnd(facts.migration) !== undefined &&
      !ownState(facts) &&
      facts.config.noDecentralisedMigration !== undefined,
    plan: ({ config }) =>
      fails('NotSupported', `migrations between clusters and namespaces are off: ${config.noDecentralisedMigration}`),
  },
  {
    name: 'decentralised-malformed',
    why: 'The object cannot be one end of a migration between two VMI objects: it has failed, and says what to change.',
    when: (facts) =>
      migrationEnd(facts.migration) !== undefined &&
      ['', 'WaitingForSync', 'Synchronizing'].includes(phaseOf(facts)) &&
      faultOf(facts) !== undefined,
    plan: (facts) => fails('InvalidMigration', `the migration cannot be carried out: ${faultOf(facts)}`),
  },
  {
    name: 'other-half-failed',
    why: 'The other half says that the migration has failed before anything moved: this half has failed, too.',
    when: (facts) =>
      migrationEnd(facts.migration) !== undefined && !ownState(facts) && announcedState(facts)?.failed === true,
    plan: (facts) =>
      failsWithPod(facts, 'OtherHalfFailed', 'the other side says that its half of the migration has failed'),
  },
  {
    name: 'guest-left-unconfirmed',
    why: 'The guest was on its way when its VMI ended here, and the other side has not said yet whether it has arrived: that is waited for.',
    when: (facts) => isSourceEnd(facts) && hasLeft(facts),
    plan: (facts) =>
      blocked(
        facts,
        'the guest was on its way when its VMI ended here; whether it runs on the other side is not known yet',
      ),
  },
  {
    name: 'abort-unanswered',
    why: 'The migration was cancelled before its guest had begun to move, and the source says nothing of it: it is ended here.',
    when: (facts) => isAbortOpen(facts) && deletedMs(facts) >= abortMs,
    plan: () => does([{ step: 'failState', reason: 'Migration failed due to being canceled' }]),
  },
];

/** From the first look at one half to where both are as a migration within a cluster. */
export const decentralisedRules: readonly MigrationRule[] = [
  {
    name: 'half-behind-another',
    why: 'Another migration of this VMI has begun, or is older: until it is over this half writes nothing into the VMI, where that one has its own state.',
    when: (facts) => facts.rival !== undefined && isUndescribed(facts),
    plan: () => waits(rivalMs),
  },
  {
    name: 'half-to-announce',
    why: 'The VMI shall say of this half of the migration what the synchronization controllers need to find the other one.',
    when: (facts) => isJoining(facts) && !isAnnounced(facts),
    plan: () => does([{ step: 'announce' }]),
  },
  {
    name: 'halves-joined',
    why: 'Both halves of the migration know of each other.',
    when: (facts) => isJoining(facts) && (isSourceEnd(facts) ? areJoined(facts) : isSourceKnown(facts)),
    plan: () => goesTo('Pending'),
  },
  {
    name: 'other-half-awaited',
    why: 'The other half of the migration has not answered yet; it is waited for until this one is cancelled by deleting it.',
    when: isJoining,
    plan: awaitsOther,
  },
  {
    name: 'receiver-not-ready',
    why: 'The VMI that shall receive the guest is not as far that a pod can be made for it.',
    when: (facts) =>
      isTargetEnd(facts) &&
      isIn(facts, 'Pending') &&
      facts.target.kind === 'none' &&
      facts.vmi?.status?.phase !== 'WaitingForSync',
    plan: () => waits(recheckMs),
  },
  {
    name: 'source-accepted',
    why: 'The guest runs, and the pod that it moves to is made on the other side.',
    when: (facts) => isSourceEnd(facts) && isIn(facts, 'Pending') && facts.vmi?.status?.phase === 'Running',
    plan: () => goesTo('Scheduling'),
  },
  {
    name: 'source-pod-unknown',
    why: 'The other side has to know the pod that the guest is in, and it is not known yet.',
    when: (facts) => isSourceEnd(facts) && isIn(facts, 'Scheduling') && sourceDescription(facts) === undefined,
    plan: () => waits(missingPodMs),
  },
  {
    name: 'source-to-describe',
    why: 'The other side has to know where the guest is and which volumes are copied: the VMI says so from now on.',
    when: (facts) => isSourceEnd(facts) && isIn(facts, 'Scheduling') && !isDescribed(facts),
    plan: () => does([{ step: 'describeSource' }]),
  },
  {
    name: 'other-pod-there',
    why: 'The pod that the guest moves to runs on the other side.',
    when: (facts) => isSourceEnd(facts) && isIn(facts, 'Scheduling') && Boolean(ownState(facts)?.targetState?.pod),
    plan: () => goesTo('Scheduled'),
  },
  {
    name: 'other-pod-awaited',
    why: 'The other side makes the pod that the guest moves to; it is waited for until this migration is cancelled by deleting it.',
    when: (facts) => isSourceEnd(facts) && isIn(facts, 'Scheduling', 'Scheduled') && !ownState(facts)?.targetNode,
    plan: (facts) => blocked(facts, `the other side (${addressOf(facts)}) has no pod for the guest yet`),
  },
];

/** Behind all other rules: the agents are at work, and each side depends on what it is told of the other. */
export const brokenLinkRules: readonly MigrationRule[] = [
  {
    name: 'abort-awaited',
    why: 'The migration was cancelled before its guest had begun to move; the source gets a minute to say how that ended.',
    when: isAbortOpen,
    plan: (facts) => waits(abortMs - deletedMs(facts)),
  },
  {
    name: 'other-half-unreachable',
    why: 'The synchronization controller cannot reach the other half of the migration: what happens there is not known here.',
    when: (facts) =>
      migrationEnd(facts.migration) !== undefined && hasAgentsPhase(facts) && troubleOf(facts.vmi) !== undefined,
    plan: (facts) => blocked(facts, 'virt-synchronization-controller does not reach the other side'),
  },
  {
    name: 'other-half-back',
    why: 'The other half of the migration can be reached again.',
    when: (facts) =>
      hasAgentsPhase(facts) && findCondition(facts.migration.status?.conditions, blockedCondition)?.status === 'True',
    plan: () => {
      const condition = {
        type: blockedCondition,
        status: 'False',
        reason: 'OtherHalfReached',
        message: 'the other side answers',
      } as const;
      return { steps: [], change: { kind: 'condition', condition } };
    },
  },
];

function isJoining(facts: Facts): boolean {
  return isIn(facts, 'WaitingForSync', 'Synchronizing');
}

/** What it is to say of itself is not said yet. */
function isUndescribed(facts: Facts): boolean {
  const isOpen = isSourceEnd(facts) && isIn(facts, 'Pending', 'Scheduling') && ownState(facts) === undefined;
  return isJoining(facts) || isOpen;
}

const addressOf = ({ migration, vmi }: Facts) =>
  migration.spec.sendTo?.connectURL ??
  vmi?.status?.migrationState?.sourceState?.syncAddress ??
  'its address is not known';

/** Its VMI is over, and no word of the target's has come. */
function hasLeft(facts: Facts): boolean {
  const { vmi } = facts;
  const state = ownState(facts);
  const isOpen = Boolean(state?.startTimestamp) && state?.completed !== true && state?.failed !== true;
  return vmi !== undefined && isFinal(vmi) && isMigrationSource(vmi) && isOpen;
}

/** Of a target whose source has neither begun nor said that it will not. */
function isAbortOpen(facts: Facts): boolean {
  const state = ownState(facts);
  const isOpen = state?.abortRequested === true && !state.startTimestamp && !state.endTimestamp;
  return isTargetEnd(facts) && isDeleted(facts) && isOpen;
}

function deletedMs({ migration, now }: Facts): number {
  return now.getTime() - Date.parse(migration.metadata.deletionTimestamp ?? now.toISOString());
}

function awaitsOther(facts: Facts): MigrationPlan {
  const { sendTo, receive } = facts.migration.spec;
  const id = JSON.stringify(sendTo?.migrationID ?? receive?.migrationID);
  const missing = sendTo
    ? `no answer from ${sendTo.connectURL}: virt-synchronization-controller has to run here and there, and a migration with receive and migrationID ${id} has to exist there`
    : `no source has called yet: virt-synchronization-controller has to run here and there, and a migration with sendTo, migrationID ${id} and the address of the one here has to exist there`;
  const isEarly = inPhaseMs(facts) < silenceMs && troubleOf(facts.vmi) === undefined;
  return isEarly ? waits(silenceMs - inPhaseMs(facts)) : blocked(facts, missing);
}

/** With what the synchronization controller says of it. */
function blocked({ vmi, migration }: Facts, ownWords: string): MigrationPlan {
  const trouble = troubleOf(vmi);
  const reason = trouble?.reason ?? 'OtherHalfAwaited';
  const message = trouble ? `${ownWords}. It says: ${trouble.message}` : ownWords;
  const told = findCondition(migration.status?.conditions, blockedCondition);
  if (told?.status === 'True' && told.message === message) return waits(recheckMs);
  const condition = { type: blockedCondition, status: 'True', reason, message } as const;
  return { steps: [], change: { kind: 'condition', condition }, requeueAfterMs: recheckMs };
}
