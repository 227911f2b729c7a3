import { isBeingDeleted, type Pod } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import {
  type AttachedClaim,
  claimsAwaitingConsumer,
  claimsHeldBy,
  currentAttachment,
  hasPendingAttachment,
  podFacts,
  readyClaims,
  supersededAttachments,
} from '../pod/index.ts';
import type { VmiFacts } from './observation.ts';

export type RenderAttachment = (facts: VmiFacts, launcher: Pod, claims: readonly AttachedClaim[]) => Pod;

export interface AttachmentPlan {
  /** The pod to make. */
  readonly wanted?: Pod;
  /** Why none can be made though one is needed. */
  readonly problem?: string;
  readonly superseded: readonly Pod[];
  /** Claims that need a pod to be filled. */
  readonly awaiting: readonly string[];
  /** Until a pod that failed to ask for its claim is replaced; above 0. */
  readonly againMs?: number;
}

/** Between two pods that ask for one claim. A kubelet that refuses one refuses the next in the same second. */
const triggerPauseMs = 30_000;

const nothing: AttachmentPlan = { superseded: [], awaiting: [] };

/**
 * The attachment pods that a VMI shall have: one for all claims that are ready (upstream: handleHotplugVolumes in
 * pkg/virt-controller/watch/vmi/volume-hotplug.go). One that is on its way is waited for, since it holds claims itself. A claim that is not there keeps no
 * other volume waiting, where upstream stops at the first.
 */
export function planAttachments(facts: VmiFacts, render: RenderAttachment): AttachmentPlan {
  const { pod, attachments } = facts;
  if (!pod || isBeingDeleted(pod) || podFacts.isTemporary(pod) || !podFacts.isReady(pod)) return nothing;
  const claims = readyClaims(facts);
  const current = currentAttachment(attachments, claims);
  const { awaiting, useless, ...again } = triggersOf(facts);
  const ofClaims = supersededAttachments(facts, current, claims);
  const others = attachments.filter((each) => !ofClaims.includes(each.pod));
  const base = { superseded: [...ofClaims, ...useless], awaiting, ...again };
  // A pod for a claim that is not there would wait for ever, and the other volumes with it.
  const isComplete = claims.length > 0 && claims.every(({ claimUid }) => claimUid !== '');
  if (current || !isComplete || hasPendingAttachment(others)) return base;
  try {
    return { ...base, wanted: render(facts, pod, claims) };
  } catch (error) {
    return { ...base, problem: errorMessage(error) };
  }
}

/** The pods that ask for claims: which claims lack one, and which pods have done their work or never will. */
function triggersOf(
  facts: VmiFacts,
): Pick<AttachmentPlan, 'awaiting' | 'againMs'> & { readonly useless: readonly Pod[] } {
  const waiting = claimsAwaitingConsumer(facts);
  const own = facts.triggers.flatMap((each) => (each.isOwn && !isBeingDeleted(each.pod) ? [each.pod] : []));
  const pauseOf = (trigger: Pod) => (trigger.status?.phase === 'Failed' ? pauseLeftMs(trigger, facts.now) : undefined);
  const isUseful = (trigger: Pod) =>
    pauseOf(trigger) !== 0 && claimsHeldBy(trigger).some((claim) => waiting.includes(claim));
  const useful = own.filter(isUseful);
  const held = useful.flatMap(claimsHeldBy);
  const pauses = useful.flatMap((trigger) => pauseOf(trigger) ?? []);
  return {
    awaiting: waiting.filter((claim) => !held.includes(claim)),
    useless: own.filter((trigger) => !useful.includes(trigger)),
    ...(pauses.length > 0 && { againMs: Math.min(...pauses) }),
  };
}

/** Never more than the pause: the API server may have another clock. */
function pauseLeftMs({ metadata }: Pod, now: Date): number {
  const created = Date.parse(metadata.creationTimestamp ?? '') || 0;
  return Math.min(triggerPauseMs, Math.max(0, created + triggerPauseMs - now.getTime()));
}
