import { isBeingDeleted, type Pod } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import {
  type AttachedClaim,
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
}

const nothing: AttachmentPlan = { superseded: [] };

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
  const superseded = supersededAttachments(facts, current, claims);
  const others = attachments.filter((each) => !superseded.includes(each.pod));
  // A pod for a claim that is not there would wait for ever, and the other volumes with it.
  const isComplete = claims.length > 0 && claims.every(({ claimUid }) => claimUid !== '');
  if (current || !isComplete || hasPendingAttachment(others)) return { superseded };
  try {
    return { wanted: render(facts, pod, claims), superseded };
  } catch (error) {
    return { problem: errorMessage(error), superseded };
  }
}
