import type { MigrationState, Pod, VirtualMachineInstance } from '../../api/index.ts';
import { copiedVolumes, isSourceEnd, sourceDescription } from './decentralised-facts.ts';
import type { PresentMigration } from './observation.ts';

/**
 * What of a VMI's migrationState stays that an earlier migration may have left: nothing of one that is over, or whose object went without
 * an end. Its addresses would lead this one's guest to a pod of before, and the synchronization controllers say nothing into it.
 */
function openState(vmi: VirtualMachineInstance, { migration, uid }: PresentMigration): MigrationState {
  const state = vmi.status?.migrationState;
  const owners = [state?.migrationUid, migration.spec.sendTo && state?.sourceState?.migrationUID];
  const isOthers = owners.some((owner) => owner && owner !== uid);
  return state && !state.completed && !isOthers ? state : {};
}

/** By what the synchronization controllers find this half, and the source's the other one (initializeMigrateSourceState, initializeMigrateTargetState). */
export function announced(vmi: VirtualMachineInstance, observation: PresentMigration): MigrationState {
  const { migration, uid } = observation;
  const state = openState(vmi, observation);
  const { uid: virtualMachineInstanceUID = '', namespace = '' } = vmi.metadata;
  const { connectURL = '' } = migration.spec.sendTo ?? {};
  if (!migration.spec.sendTo) return { ...state, targetState: { ...state.targetState, migrationUID: uid } };
  const own = { migrationUID: uid, virtualMachineInstanceUID, domainNamespace: namespace };
  return {
    ...state,
    sourceState: { ...state.sourceState, ...own },
    targetState: { ...state.targetState, syncAddress: connectURL },
  };
}

/** Where the guest is, and which of its volumes are copied. */
export function described(
  vmi: VirtualMachineInstance,
  observation: PresentMigration,
): VirtualMachineInstance['status'] {
  const description = sourceDescription(observation);
  if (!description) return vmi.status ?? {};
  const state = announced(vmi, observation);
  const migratedVolumes = copiedVolumes(observation);
  return {
    ...vmi.status,
    ...((migratedVolumes.length > 0 || vmi.status?.migratedVolumes !== undefined) && { migratedVolumes }),
    migrationState: {
      ...state,
      ...description.state,
      sourceState: { ...state.sourceState, ...description.sourceState },
    },
  };
}

/** The target's pod for both sides; `handedOver` is what any migration says at this point. */
export function withTarget(
  vmi: VirtualMachineInstance,
  pod: Pod,
  handedOver: MigrationState,
  { uid, keptState }: PresentMigration,
): MigrationState {
  const { completed: _completed, failed: _failed, ...state } = vmi.status?.migrationState ?? {};
  const { node: sourceNode = '', pod: sourcePod = '' } = state.sourceState ?? {};
  const { name, namespace = '', uid: virtualMachineInstanceUID = '' } = vmi.metadata;
  const claim = keptState.target?.metadata.name;
  const where = { node: pod.spec.nodeName ?? '', pod: pod.metadata.name };
  const domain = { virtualMachineInstanceUID, domainNamespace: namespace, domainName: name };
  const { targetAttachmentPodUID } = handedOver;
  return {
    ...state,
    ...handedOver,
    sourceNode,
    sourcePod,
    ...(claim !== undefined && { targetPersistentStatePVCName: claim }),
    targetState: {
      ...state.targetState,
      migrationUID: uid,
      ...where,
      ...domain,
      ...(typeof targetAttachmentPodUID === 'string' && { attachmentPodUID: targetAttachmentPodUID }),
      ...(claim !== undefined && { persistentStatePVCName: claim }),
    },
  };
}

/** A source is believed by the other side about a failure only as the end of an abort (copyLegacySourceFields in pkg/synchronization-controller). */
export function failedForBoth(state: MigrationState, observation: PresentMigration): MigrationState {
  if (!isSourceEnd(observation)) return state;
  return { ...state, abortRequested: true, abortStatus: state.abortStatus || 'Succeeded' };
}
