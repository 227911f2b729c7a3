import {
  type Condition,
  type ConditionState,
  finalizers,
  findCondition,
  hasLeftForElsewhere,
  isBeingDeleted,
  isFinal,
  isMigrationTarget,
  labels,
  type Pod,
  type VirtualMachineInstance,
  type VmiPhase,
  type VmiStatus,
  withCondition,
  withoutCondition,
} from '../../api/index.ts';
import { rfc3339 } from '../../base/index.ts';
import { podFacts } from '../pod/index.ts';
import { admit, isAdmitted } from './admit.ts';
import { awaitsGuest, isUnprocessed } from './decide.ts';
import { interfaceStatus } from './interface-status.ts';
import { setMigrationRequired } from './migration-required.ts';
import type { SyncFailure, VmiFacts } from './observation.ts';
import { setResizeConditions } from './resize-conditions.ts';
import { volumeStatus, withKeptState } from './volume-status.ts';

const outdatedImage = 'kubevirt.io/outdatedLauncherImage';
/** Reasons of a waiting container that will not go away by waiting. */
const startProblems = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'CreateContainerConfigError',
  'CreateContainerError',
]);

export interface ProjectOptions {
  readonly failure?: SyncFailure | undefined;
  readonly randomUuid: () => string;
  /** Of a guest on VSOCK that has none yet. */
  readonly vsockCid: () => number;
}

/** The VMI as it shall be stored now (upstream: pkg/virt-controller/watch/vmi/lifecycle.go, updateStatus). The observation is not changed. */
export function projectVmi(seen: VmiFacts, options: ProjectOptions): VirtualMachineInstance {
  const vmi = structuredClone(seen.vmi);
  if (!isAdmitted(vmi) && isUnprocessed(vmi) && !isBeingDeleted(vmi) && !options.failure) {
    admit(vmi, seen.config, options.randomUuid);
  }
  const status: VmiStatus = vmi.status ?? {};
  vmi.status = status;
  const time = rfc3339(seen.now);
  if (seen.tscFrequency !== undefined) status.topologyHints = { tscFrequency: seen.tscFrequency };
  const phase = nextPhase(seen);
  copyActivePods(status, seen, phase);
  copyPodFacts(vmi, status, seen, time);
  if (phase === 'Scheduled' && seen.vmi.status?.phase === 'Scheduling' && seen.pod) {
    handOver(vmi, status, seen.pod);
    if (vmi.spec.domain.devices?.autoattachVSOCK) status.VSOCKCID ??= options.vsockCid();
  }
  if (phase === 'Scheduled' || phase === 'Running') {
    status.volumeStatus = withKeptState(volumeStatus(seen), seen);
    copyInterfaces(vmi, status, seen);
  }
  if (phase === 'Running') {
    setResizeConditions(vmi, status, time);
    setMigrationRequired({ ...seen, vmi }, status, time);
  }
  setDataConditions(status, seen, phase, time);
  if (phase === 'Scheduling') copyStartProblems(status, seen.pod, time);
  const failsBeforeStart = phase === 'Failed' && seen.vmi.status?.phase === 'Scheduled' && seen.pod !== undefined;
  if (isControllersPhase(seen.vmi) || failsBeforeStart) setSynchronized(status, seen, options.failure, time);
  if (phase === 'WaitingForSync' && seen.vmi.status?.phase === 'Scheduled') endMigration(status, time);
  if (phase !== (status.phase ?? '')) {
    status.phase = phase;
    stampPhase(status, phase, time);
  }
  const isOver = isFinal(vmi) || (phase === 'WaitingForSync' && isBeingDeleted(vmi));
  if (isOver && seen.pods.length === 0) release(vmi, status, seen.hasOwnerVm);
  return vmi;
}

/** The pod that was to receive the guest has ended: both sides are told so. */
function endMigration(status: VmiStatus, time: string): void {
  if (!status.migrationState) return;
  const { endTimestamp = time } = status.migrationState;
  status.migrationState = { ...status.migrationState, failed: true, completed: true, endTimestamp };
}

function nextPhase(seen: VmiFacts): VmiPhase {
  const { vmi, pod } = seen;
  const phase = vmi.status?.phase ?? '';
  const isDeleting = isBeingDeleted(vmi);
  // A VMI that receives a guest goes back to where it waited for it: another migration may bring it.
  const ended = isMigrationTarget(vmi) && !isDeleting ? 'WaitingForSync' : 'Failed';
  switch (phase) {
    case '':
    case 'Pending':
      if (pod) return 'Scheduling';
      if (isDeleting || cannotBeFilled(seen)) return 'Failed';
      return awaitsGuest(vmi) ? 'WaitingForSync' : 'Pending';
    case 'WaitingForSync':
      return pod && !isDeleting && !podFacts.isDownOrGoingDown(pod) && !isTargetFailed(vmi) ? 'Scheduling' : phase;
    case 'Scheduling':
      if (!pod || podFacts.isDownOrGoingDown(pod)) return ended;
      return podFacts.isReady(pod) && pod.spec.nodeName && !isDeleting ? 'Scheduled' : 'Scheduling';
    case 'Scheduled':
      if (isMigrationTarget(vmi) && (!pod || podFacts.isFinal(pod) || isTargetFailed(vmi))) return ended;
      if (pod && podFacts.hasFailed(pod) && !isDeleting) return 'Failed';
      return pod ? phase : 'Failed';
    case 'Running':
      if ((!pod || pod.status?.phase === 'Succeeded') && hasLeftForElsewhere(vmi)) return 'Succeeded';
      // With a pod the agent has the say.
      return pod || mayHaveArrived(seen) ? phase : 'Failed';
    default:
      return phase;
  }
}

/** What the migration was to bring stays where it was. */
function isTargetFailed({ status }: VirtualMachineInstance): boolean {
  return status?.migrationState?.failed === true;
}

/**
 * Its launcher may end when it has sent the guest away, before the agent of the target node says that it runs there; that agent may be away for a while.
 * Upstream's controller takes the missing pod for the end of the guest.
 */
function mayHaveArrived({ vmi, pods }: VmiFacts): boolean {
  const { startTimestamp, completed, failed, targetPod } = vmi.status?.migrationState ?? {};
  if (!startTimestamp || completed || failed) return false;
  return pods.some((pod) => pod.metadata.name === targetPod && !podFacts.isDownOrGoingDown(pod));
}

/** No guest ran, and none will; the owner of the VMI makes another one when it is time. */
function cannotBeFilled({ fillings, temporaryPod }: VmiFacts): boolean {
  const isAwaited = fillings.some(({ state }) => state === 'awaits-consumer');
  const isLost = isAwaited && temporaryPod !== undefined && hasFailedOrEnds(temporaryPod);
  return isLost || fillings.some(({ state }) => state === 'failed');
}

const hasFailedOrEnds = (pod: Pod) => pod.status?.phase === 'Failed' || isBeingDeleted(pod);

/** How its DataVolumes are (upstream: areDataVolumesReady). What is not read yet changes nothing. */
function setDataConditions(status: VmiStatus, { fillings, temporaryPod }: VmiFacts, phase: VmiPhase, time: string) {
  if (fillings.length === 0 || fillings.some(({ state }) => state === 'unread')) return;
  const open = fillings.filter(({ state }) => state !== 'filled');
  const ready: ConditionState =
    open.length === 0
      ? {
          type: 'DataVolumesReady',
          status: 'True',
          reason: 'AllDVsReady',
          message: 'All of the VMI’s DVs are bound and not running',
        }
      : {
          type: 'DataVolumesReady',
          status: 'False',
          reason: 'NotAllDVsReady',
          message: open.map(({ detail }) => detail).join('; '),
        };
  status.conditions = withCondition(status.conditions ?? [], ready, time);
  if (phase !== 'Pending' || !open.some(({ state }) => state === 'awaits-consumer')) return;
  status.conditions = withCondition(status.conditions, { type: 'Provisioning', status: 'True' }, time);
  copyPodScheduled(status, temporaryPod, time);
}

/** The agent writes `Synchronized` from Scheduled on. */
function isControllersPhase(vmi: VirtualMachineInstance): boolean {
  const phase = vmi.status?.phase;
  return phase !== 'Scheduled' && phase !== 'Running' && !isFinal(vmi);
}

function handOver(vmi: VirtualMachineInstance, status: VmiStatus, pod: Pod): void {
  const node = pod.spec.nodeName ?? '';
  vmi.metadata.labels = { ...vmi.metadata.labels, [labels.nodeName]: node };
  status.nodeName = node;
  if (pod.metadata.annotations?.['kubevirt.io/migrationTransportUnix'] !== undefined) {
    status.migrationTransport = 'Unix';
  }
  status.conditions = withoutCondition(status.conditions ?? [], 'PodScheduled');
}

function copyPodFacts(vmi: VirtualMachineInstance, status: VmiStatus, { pod, config }: VmiFacts, time: string): void {
  status.conditions = withCondition(status.conditions ?? [], readyCondition(vmi, pod), time);
  if (!pod) return;
  const image = podFacts.computeImage(pod);
  if (image) status.launcherContainerImageVersion = image;
  if (pod.status?.qosClass) status.qosClass = pod.status.qosClass;
  const overhead = pod.metadata.annotations?.['kubevirt.io/memory-overhead-bytes'];
  if (overhead && status.memory?.guestAtBoot !== undefined) status.memory.memoryOverhead ??= overhead;
  const all = { ...vmi.metadata.labels };
  if (image && image !== config.launcherImage) all[outdatedImage] = '';
  else delete all[outdatedImage];
  if (Object.keys(all).length > 0 || vmi.metadata.labels) vmi.metadata.labels = all;
}

/** On which nodes they are matters to agents, which come when the VMI is handed over: until then it is no reason to write. */
function copyActivePods(status: VmiStatus, { pods }: VmiFacts, phase: VmiPhase): void {
  const { activePods: stored } = status;
  if (pods.length === 0 && !stored) return;
  const nodes = Object.fromEntries(pods.map(({ metadata, spec }) => [metadata.uid ?? '', spec.nodeName ?? '']));
  const [uids, known] = [Object.keys(nodes), Object.keys(stored ?? {})];
  const areRecorded = uids.length === known.length && uids.every((uid) => known.includes(uid));
  if (phase !== 'Scheduling' || !areRecorded) status.activePods = nodes;
}

function copyInterfaces(vmi: VirtualMachineInstance, status: VmiStatus, { pod }: VmiFacts): void {
  if (!pod || podFacts.isTemporary(pod)) return;
  const interfaces = interfaceStatus(vmi, pod);
  if (interfaces) status.interfaces = interfaces;
}

/** Upstream: syncReadyConditionFromPod in pkg/virt-controller/watch/vmi. */
function readyCondition(vmi: VirtualMachineInstance, pod: Pod | undefined): ConditionState {
  const type = 'Ready';
  const no = (reason: string, message: string): ConditionState => ({ type, status: 'False', reason, message });
  if (!pod) return no('PodNotExists', 'the launcher pod does not exist');
  if (podFacts.isDownOrGoingDown(pod)) return no('PodTerminating', 'the launcher pod ends or has ended');
  if (vmi.status?.phase !== 'Running') return no('GuestNotRunning', 'the guest does not run');
  const ready = findCondition(pod.status?.conditions, 'Ready');
  if (!ready) return no('PodConditionMissing', 'the launcher pod has no condition Ready');
  const { status, reason, message } = ready;
  return { type, status, ...(reason ? { reason } : {}), ...(message ? { message } : {}) };
}

/** While the pod is on its way to a node: what keeps it. */
function copyStartProblems(status: VmiStatus, pod: Pod | undefined, time: string): void {
  copyPodScheduled(status, pod, time);
  status.conditions = withoutCondition(status.conditions ?? [], 'Provisioning');
}

function copyPodScheduled(status: VmiStatus, pod: Pod | undefined, time: string): void {
  const scheduled = findCondition(pod?.status?.conditions, 'PodScheduled');
  let conditions: Condition[] = status.conditions ?? [];
  if (scheduled?.status === 'False') {
    const { reason, message } = scheduled;
    const state: ConditionState = { type: 'PodScheduled', status: 'False' };
    if (reason) state.reason = reason;
    if (message) state.message = message;
    conditions = withCondition(conditions, state, time);
  } else {
    conditions = withoutCondition(conditions, 'PodScheduled');
  }
  status.conditions = conditions;
}

function setSynchronized(status: VmiStatus, { pod }: VmiFacts, failure: SyncFailure | undefined, time: string): void {
  const problem = failure ?? startProblem(pod) ?? endProblem(pod);
  const conditions = status.conditions ?? [];
  status.conditions = problem
    ? withCondition(conditions, { type: 'Synchronized', status: 'False', ...problem }, time)
    : withoutCondition(conditions, 'Synchronized');
}

/** A container that cannot start, in the kubelet's words. */
export function startProblem(pod: Pod | undefined): SyncFailure | undefined {
  const statuses = [...(pod?.status?.initContainerStatuses ?? []), ...(pod?.status?.containerStatuses ?? [])];
  for (const { name, state } of statuses) {
    const { reason = '', message } = state?.waiting ?? {};
    if (startProblems.has(reason)) return { reason, message: message || `container ${name}: ${reason}` };
  }
  return undefined;
}

/** Why the pod ended before the guest ran. */
function endProblem(pod: Pod | undefined): SyncFailure | undefined {
  if (!pod || isBeingDeleted(pod) || !podFacts.isDownOrGoingDown(pod)) return undefined;
  const ended = pod.status?.containerStatuses?.find(({ name }) => name === 'compute')?.state?.terminated;
  const detail =
    lastWords(ended?.message ?? '') || pod.status?.message || ended?.reason || pod.status?.reason || 'no reason given';
  const code = ended ? ` with exit code ${ended.exitCode}` : '';
  return { reason: 'PodFailed', message: `launcher pod ${pod.metadata.name} ended${code} before the start: ${detail}` };
}

/**
 * Of the end of a log, which is what a kubelet gives for a container that failed: the last line, and of a line in JSON the
 * text of its error. An event has room for 1 KiB.
 */
function lastWords(log: string): string {
  const line = log.trimEnd().split('\n').at(-1) ?? '';
  try {
    const { err, msg }: { err?: unknown; msg?: unknown } = JSON.parse(line);
    return typeof err === 'string' && typeof msg === 'string' ? `${msg}: ${err}` : line;
  } catch {
    return line;
  }
}

function stampPhase(status: VmiStatus, phase: VmiPhase, time: string): void {
  const stamps = status.phaseTransitionTimestamps ?? [];
  if (stamps.some((stamp) => stamp.phase === phase)) return;
  status.phaseTransitionTimestamps = [...stamps, { phase, phaseTransitionTimestamp: time }];
}

/** Nothing of the VMI is left outside: it may go. */
function release(vmi: VirtualMachineInstance, status: VmiStatus, hasOwnerVm: boolean): void {
  const done = ['foregroundDeleteVirtualMachine', finalizers.vmi, ...(hasOwnerVm ? [] : [finalizers.vm])];
  vmi.metadata.finalizers = (vmi.metadata.finalizers ?? []).filter((name) => !done.includes(name));
  delete status.launcherContainerImageVersion;
  if (vmi.metadata.labels) delete vmi.metadata.labels[outdatedImage];
}
