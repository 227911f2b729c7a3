/**
 * Owns: launcher pods and the attachment pods of their plugged volumes: how one is made, which pods are a VMI's own, what their state means; their networks.
 * Must not know: rules, requests to the API, the cache.
 */
export { renderAttachmentPod, renderTriggerPod } from './attachment.ts';
export { type AttachedClaim, AttachmentPods, attachmentPodName } from './attachment-pods.ts';
export { podFacts } from './facts.ts';
export {
  type AttachmentPod,
  type Claims,
  claimAtStart,
  claimNameOf,
  claimsAwaitingConsumer,
  claimsHeldBy,
  currentAttachment,
  fillingOf,
  type HotplugFacts,
  hasPendingAttachment,
  holderOf,
  hotplugVolumes,
  isBlockUtility,
  readyClaims,
  supersededAttachments,
  usedClaimOf,
  volumesOf,
} from './hotplug-volumes.ts';
export { LauncherPods } from './launcher-pods.ts';
export { networkInfoAnnotation } from './network-info.ts';
export { type PodLinkStatus, podNetworkStatus } from './network-status.ts';
export { changedNetworks } from './networks.ts';
export { renderLauncherPod } from './render.ts';
export { renderReceivingPod, renderTargetPod } from './target.ts';
export { renderTemporaryPod } from './temporary.ts';
