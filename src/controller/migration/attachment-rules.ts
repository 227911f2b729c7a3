import { inPhaseMs, isIn, isPending, isTargetReady, limitAnnotation, limitMs, ownState, pendingMs } from './facts.ts';
import { failsWithPod } from './failure-rules.ts';
import { does, type Facts, type MigrationRule, waits } from './plan.ts';
import { isAttached, targetAttachment } from './plugged.ts';

const pendingSeconds = 900;
/** As long as a migration waits for volumes of a backup. */
const motionMs = 150_000;

/** While there is no target pod: volumes that come and go now would be on one side only. */
export const motionRules: readonly MigrationRule[] = [
  {
    name: 'volumes-in-motion-too-long',
    why: 'Volumes have been on their way into the guest or out of it for longer than a migration waits: it has failed.',
    when: (facts) => isInMotion(facts) && inPhaseMs(facts) >= motionMs,
    plan: (facts) =>
      failsWithPod(
        facts,
        'HotplugVolumes',
        `volumes are still being plugged into the VMI or unplugged from it: ${facts.plugged.inMotion.join(', ')}`,
      ),
  },
  {
    name: 'volumes-in-motion',
    why: 'Volumes are on their way into the guest or out of it: the migration waits until that is done.',
    when: isInMotion,
    plan: (facts) => waits(motionMs - inPhaseMs(facts)),
  },
];

/** When the target pod runs: volumes that were plugged into the guest are brought to its node. */
export const attachmentRules: readonly MigrationRule[] = [
  {
    name: 'attachment-cannot-be-made',
    why: 'The guest has volumes that were plugged in, and no pod can be made that brings them to the target: the migration has failed.',
    when: (facts) => isDue(facts) && facts.newAttachment().kind === 'problem',
    plan: (facts) => {
      const made = facts.newAttachment();
      const problem = made.kind === 'problem' ? made.problem : '';
      return failsWithPod(facts, 'AttachmentPodCannotBeMade', `failed to render attachment pod template: ${problem}`);
    },
  },
  {
    name: 'attachment-due',
    why: 'The guest has volumes that were plugged in: a pod brings them to the node that it moves to.',
    when: isDue,
    plan: (facts) => {
      const made = facts.newAttachment();
      return made.kind === 'made' ? does([{ step: 'createAttachmentPod', pod: made.pod }]) : waits();
    },
  },
  {
    name: 'attachment-too-long',
    why: 'The pod that brings plugged volumes to the target has not started for longer than a migration waits: it has failed.',
    when: (facts) => isAwaited(facts) && leftMs(facts) <= 0,
    plan: (facts) => {
      const { namespace, name } = targetAttachment(facts)?.metadata ?? {};
      const message = `pending attachment pod ${namespace}/${name} timeout period exceeded`;
      return failsWithPod(facts, 'AttachmentPending', message);
    },
  },
  {
    name: 'attachment-starts',
    why: 'The pod that brings plugged volumes to the target is being started.',
    when: isAwaited,
    plan: (facts) => waits(leftMs(facts)),
  },
];

function isInMotion(facts: Facts): boolean {
  return isPending(facts) && facts.target.kind === 'none' && facts.plugged.inMotion.length > 0;
}

function isAwaited(facts: Facts): boolean {
  return isIn(facts, 'Scheduling', 'Scheduled') && !ownState(facts) && isTargetReady(facts) && !isAttached(facts);
}

function isDue(facts: Facts): boolean {
  return isAwaited(facts) && targetAttachment(facts) === undefined;
}

function leftMs(facts: Facts): number {
  const pod = targetAttachment(facts);
  const spentMs = (pod && pendingMs(pod, facts.now)) ?? 0;
  return limitMs(facts, limitAnnotation('PendingPod'), pendingSeconds) - spentMs;
}
