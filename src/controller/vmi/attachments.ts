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
}

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
  const waiting = claimsAwaitingConsumer(facts);
  const triggers = facts.triggers.flatMap((each) => (each.isOwn && !isBeingDeleted(each.pod) ? [each.pod] : []));
  const awaiting = waiting.filter((claim) => !triggers.some((trigger) => claimsHeldBy(trigger).includes(claim)));
  const ofClaims = supersededAttachments(facts, current, claims);
  const others = attachments.filter((each) => !ofClaims.includes(each.pod));
  const isDone = (trigger: Pod) => !claimsHeldBy(trigger).some((claim) => waiting.includes(claim));
  const superseded = [...ofClaims, ...triggers.filter(isDone)];
  // A pod for a claim that is not there would wait for ever, and the other volumes with it.
  const isComplete = claims.length > 0 && claims.every(({ claimUid }) => claimUid !== '');
  if (current || !isComplete || hasPendingAttachment(others)) return { superseded, awaiting };
  try {
    return { wanted: render(facts, pod, claims), superseded, awaiting };
  } catch (error) {
    return { problem: errorMessage(error), superseded, awaiting };
  }
}
