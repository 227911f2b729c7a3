import { hotPlugVolumesOf, isBeingDeleted, labels, type Pod, type VirtualMachineInstance } from '../../api/index.ts';
import { type AttachmentPods, type Claims, currentAttachment, podFacts, readyClaims } from '../pod/index.ts';
import type { MigrationFacts, PluggedVolumes } from './observation.ts';

export interface PluggedDeps {
  readonly ownPods: { list(): readonly Pod[] };
  readonly attachmentPods: Pick<AttachmentPods, 'isOwn'>;
}

interface Launchers {
  /** All of the VMI. */
  readonly own: readonly Pod[];
  readonly source: Pod | undefined;
  readonly target: Pod | undefined;
  readonly claims: Claims;
}

const comes: readonly unknown[] = ['', undefined, 'Pending', 'Bound', 'AttachedToNode', 'MemoryDumpVolumeInProgress'];
const isInGuest: readonly unknown[] = ['MountedToPod', 'Ready'];

/** What a migration has to know of a VMI's plugged volumes. */
export function pluggedVolumes(
  vmi: VirtualMachineInstance,
  { own, source, target, claims }: Launchers,
  { ownPods, attachmentPods }: PluggedDeps,
): PluggedVolumes {
  const needed = readyClaims({ vmi, pod: source, attachments: [], claims });
  const moving = hotPlugVolumesOf(vmi).filter(({ isWanted, phase }) => (isWanted ? comes : isInGuest).includes(phase));
  const pods = ownPods.list().filter(({ metadata }) => metadata.labels?.[labels.app] === 'hotplug-disk');
  const of = (launcher: Pod) => pods.filter((pod) => podFacts.controllerUid(pod) === launcher.metadata.uid);
  const over = own.filter((pod) => pod !== source && (podFacts.isFinal(pod) || isBeingDeleted(pod)));
  return {
    // The target has none of them yet.
    claims: needed.map((claim) => ({ ...claim, isMounted: false })),
    inMotion: [...moving.map(({ name }) => name), ...needed.flatMap((each) => (each.claimUid ? [] : [each.volume]))],
    attachments: (target ? of(target) : []).map((pod) => ({ pod, isOwn: attachmentPods.isOwn(vmi, pod) })),
    left: over.flatMap(of).filter((pod) => !isBeingDeleted(pod)),
  };
}

/** The pod that brings all of them to the target. */
export function targetAttachment({ plugged }: MigrationFacts): Pod | undefined {
  return currentAttachment(plugged.attachments, plugged.claims);
}

/** Nothing is to be brought, or the program in the pod shows it. */
export function isAttached(facts: MigrationFacts): boolean {
  if (facts.plugged.claims.length === 0) return true;
  const { phase, containerStatuses = [] } = targetAttachment(facts)?.status ?? {};
  return phase === 'Running' && containerStatuses.length > 0 && containerStatuses.every(({ ready }) => ready);
}
