import { findCondition, isBeingDeleted, isFinal, type Pod } from '../../api/index.ts';
import { type AttachmentPod, podFacts } from '../pod/index.ts';
import { hasLeftAsWanted, isSourceEnd, isTargetEnd } from './decentralised-facts.ts';
import { hasAgentsPhase, hasTargetPhase, isDeleted, lastWordsOf, ownState, phaseOf, targetPod } from './facts.ts';
import { abortRequested, type Facts, fails, type MigrationPlan, type MigrationRule, waits } from './plan.ts';
import { isRefusedByAgent } from './retry.ts';
import { loses } from './retry-rules.ts';
import { hasArrived, stateArrived } from './state-rules.ts';
import type { MigrationStep } from './steps.ts';

/** The target pod goes, too. */
export function failsWithPod(facts: Facts, reason: string, message: string): MigrationPlan {
  return fails(reason, message, deletionOf(facts, message));
}

export function deletionOf(facts: Facts, why: string): MigrationStep[] {
  const pod = targetPod(facts);
  const isKept = !pod || isBeingDeleted(pod) || podFacts.isFinal(pod) || mayHoldGuest(facts, pod);
  return isKept ? [] : [{ step: 'deleteTargetPod', pod, why }];
}

/** It has arrived there, or moves in post-copy, when its memory is on both sides. */
export function mayHoldGuest(facts: Facts, { metadata }: Pod): boolean {
  const { vmi, sourcePod } = facts;
  if (!vmi || isFinal(vmi)) return false;
  // Of a VMI that receives a guest no other pod has one.
  if (isTargetEnd(facts) && hasArrived(facts)) return true;
  return metadata.uid === sourcePod?.metadata.uid || ownState(facts)?.mode === 'PostCopy';
}

/** Time that the agents have to report why a migration under way has ended. */
const accountMs = 5_000;

function isTargetLost(facts: Facts): boolean {
  // It is on the other side.
  if (isSourceEnd(facts)) return false;
  const pod = targetPod(facts);
  return pod ? podFacts.isFinal(pod) : hasTargetPhase(facts) && facts.target.kind === 'none';
}

function isMoving(facts: Facts): boolean {
  const { startTimestamp, endTimestamp, failed } = ownState(facts) ?? {};
  return Boolean(startTimestamp) && !endTimestamp && failed !== true;
}

function awaitedMs({ lastRule, now }: Facts): number {
  return lastRule?.rule === 'target-end-awaited' ? now.getTime() - lastRule.since.getTime() : 0;
}

/** What the end of the target pod means for the guest. */
const inWhichMode = (facts: Facts) =>
  ownState(facts)?.mode === 'PostCopy' ? " In post-copy a part of the guest's memory was in it, and is lost." : '';

const hasEnded = ({ pod, isOwn }: AttachmentPod) => isOwn && podFacts.isFinal(pod);

const isAbortNoted = ({ migration }: Facts) =>
  findCondition(migration.status?.conditions, abortRequested.type) !== undefined;

/**
 * What ends a migration that is not over, in upstream's order (updateStatus in pkg/virt-controller/watch/migration/migration.go) and with its
 * words at the beginning of each message.
 */
export const failureRules: readonly MigrationRule[] = [
  stateArrived,
  {
    name: 'vmi-missing',
    why: 'The VMI that shall move does not exist any more: the migration has failed and is deleted.',
    when: ({ vmi }) => vmi === undefined,
    plan: (facts) =>
      fails('VmiMissing', 'Migration failed because vmi does not exist.', [
        ...(isDeleted(facts) ? [] : [{ step: 'deleteMigration' } as const]),
      ]),
  },
  {
    name: 'vmi-ended',
    why: 'The guest has ended while it was to move: the migration has failed.',
    when: (facts) => facts.vmi !== undefined && isFinal(facts.vmi) && !hasLeftAsWanted(facts),
    plan: (facts) => {
      // Upstream's words; an agent knows more of a guest that was lost on its way.
      const { failureReason } = ownState(facts) ?? {};
      const told = 'Migration failed vmi shutdown during migration.';
      return failsWithPod(facts, 'VmiEnded', failureReason ? `${told} ${failureReason}` : told);
    },
  },
  {
    name: 'cancelled-before-hand-over',
    why: 'The migration was cancelled before any agent knew of it: it has failed, and its target pod is deleted.',
    when: (facts) => isDeleted(facts) && ownState(facts) === undefined,
    plan: (facts) => {
      const message = 'Migration failed due to being canceled';
      const change = { kind: 'failed', reason: 'Cancelled', message, isAbort: true } as const;
      return { steps: deletionOf(facts, message), change };
    },
  },
  {
    name: 'target-end-awaited',
    why: 'The target pod is gone while the guest was on its way: the agents get a moment to say why, since the pod does not know.',
    when: (facts) => isTargetLost(facts) && isMoving(facts) && awaitedMs(facts) < accountMs,
    plan: (facts) => waits(accountMs - awaitedMs(facts)),
  },
  {
    name: 'target-pod-ended',
    why: 'The pod that the guest was to move to has ended: the migration has failed, the guest stays where it is.',
    when: (facts) => isTargetLost(facts) && targetPod(facts) !== undefined && ownState(facts)?.failed !== true,
    plan: (facts) => {
      const pod = targetPod(facts);
      const because = pod ? `: ${lastWordsOf(pod)}` : '';
      const text = `Migration failed because target pod shutdown during migration${because}${inWhichMode(facts)}`;
      return loses(facts, 'TargetPodEnded', text);
    },
  },
  {
    name: 'attachment-ended',
    why: 'The pod that is to bring plugged volumes to the target has ended before the guest began to move: the migration has failed.',
    when: (facts) => !ownState(facts)?.startTimestamp && facts.plugged.attachments.some(hasEnded),
    plan: (facts) => {
      const { pod } = facts.plugged.attachments.find(hasEnded) ?? {};
      const because = pod ? `: ${lastWordsOf(pod)}` : '';
      const text = `Migration failed because target attachment pod shutdown during migration${because}`;
      return loses(facts, 'AttachmentPodEnded', text, ownState(facts) ? [] : deletionOf(facts, text));
    },
  },
  {
    name: 'target-pod-removed',
    why: 'The pod that the guest was to move to is gone: the migration has failed, the guest stays where it is.',
    when: (facts) => isTargetLost(facts) && targetPod(facts) === undefined && ownState(facts)?.failed !== true,
    plan: (facts) => {
      const text = 'Migration target pod was removed during active migration.';
      return loses(facts, 'TargetPodRemoved', `${text}${inWhichMode(facts)}`);
    },
  },
  {
    name: 'state-cleared',
    why: 'The VMI says nothing of this migration any more though agents were at work: the migration has failed.',
    when: (facts) => hasAgentsPhase(facts) && !facts.vmi?.status?.migrationState?.migrationUid,
    plan: () => fails('StateCleared', "VMI's migration state was cleared during the active migration."),
  },
  {
    name: 'state-taken-over',
    why: 'Another migration of this VMI has begun over this one: this one has failed.',
    when: (facts) => hasAgentsPhase(facts) && ownState(facts) === undefined,
    plan: ({ rival }) => {
      const text = "VMI's migration state was taken over by another migration job during active migration.";
      return fails('StateTakenOver', rival ? `${text} It is ${rival.name}.` : text);
    },
  },
  {
    name: 'reported-failed',
    why: 'An agent says that the migration has failed; the guest stays where it is.',
    when: (facts) => ownState(facts)?.failed === true,
    plan: (facts) => {
      const reason = ownState(facts)?.failureReason;
      const message = `source node reported migration failed${reason ? `: ${reason}` : ''}`;
      return isRefusedByAgent(facts) ? fails('MigrationFailed', message) : loses(facts, 'MigrationFailed', message);
    },
  },
  {
    name: 'cancelled-while-preparing',
    why: 'The migration was cancelled while the target prepares itself: nothing has moved, so it ends at once.',
    when: (facts) =>
      isDeleted(facts) &&
      ['Scheduled', 'PreparingTarget', ...(isSourceEnd(facts) ? ['Scheduling'] : [])].includes(phaseOf(facts)) &&
      !ownState(facts)?.targetNodeAddress,
    plan: () => ({
      steps: [{ step: 'failState', reason: 'Migration failed due to being canceled' }],
      change: { kind: 'condition', condition: abortRequested },
    }),
  },
  {
    name: 'abort-wanted',
    why: 'The migration was cancelled while agents are at work: they are asked to end it.',
    when: (facts) => {
      const state = ownState(facts);
      const isOver = state?.completed === true || state?.endTimestamp !== undefined;
      return isDeleted(facts) && !isOver && (state?.abortRequested !== true || !isAbortNoted(facts));
    },
    plan: (facts) => ({
      steps: ownState(facts)?.abortRequested === true ? [] : [{ step: 'requestAbort' }],
      change: { kind: 'condition', condition: abortRequested },
    }),
  },
];
