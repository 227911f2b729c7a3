import {
  type Condition,
  type ConditionState,
  findCondition,
  isBeingDeleted,
  isFinal,
  type VirtualMachine,
  type VirtualMachineInstance,
  withCondition,
  withoutCondition,
} from '../../api/index.ts';
import { rfc3339 } from '../../base/index.ts';
import { trackingStatus } from './change-tracking.ts';
import { stagedMessage } from './live-change.ts';
import { projectDump } from './memory-dump.ts';
import type { VmFacts, VmFailure, VmStatus } from './observation.ts';
import { printableStatus } from './printable-status.ts';
import { hasStopRequest, startBackoffSeconds, startRequest, strategyOrHalted } from './run-strategy.ts';
import { openVolumeRequests } from './volume-requests.ts';

/** Conditions a VM has of its own; all others are its VMI's. */
const ownConditions = new Set(['Ready', 'Failure', 'RestartRequired', 'ManualRecoveryRequired']);

/** The status of a VM as it shall be stored now (upstream: pkg/virt-controller/watch/vm/vm.go). A pure function but for `random`. */
export function projectVmStatus(seen: VmFacts, failure: VmFailure | undefined, random: () => number): VmStatus {
  const { vm, vmi } = seen;
  const status: VmStatus = structuredClone(vm.status ?? {});
  status.created = vmi !== undefined;
  status.ready = findCondition(vmi?.status?.conditions, 'Ready')?.status === 'True';
  status.desiredGeneration = vm.metadata.generation ?? 1;
  if (vmi) {
    const observed = Number(vmi.metadata.annotations?.['kubevirt.io/vm-generation']);
    if (Number.isInteger(observed)) status.observedGeneration = observed;
    status.runStrategy = strategyOrHalted(vm);
  }
  popDoneRequest(status, vm, vmi);
  setStartFailure(status, seen, random);
  trimVolumeRequests(status, vm);
  setMemoryDump(status, seen);
  setVolumeStatuses(status, seen);
  setTracking(status, seen);
  status.conditions = conditionsOf(seen, failure);
  status.printableStatus = printableStatus(seen, status);
  return status;
}

function popDoneRequest(status: VmStatus, vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): void {
  const [first, ...rest] = status.stateChangeRequests ?? [];
  if (!first) return;
  const isStopped = first.action === 'Stop' && !hasStopRequest(vm, vmi);
  const isStarted = startRequest(vm) !== undefined && vmi !== undefined && !isFinal(vmi) && !isBeingDeleted(vmi);
  if (!isStopped && !isStarted) return;
  if (rest.length > 0) status.stateChangeRequests = rest;
  else delete status.stateChangeRequests;
}

function trimVolumeRequests(status: VmStatus, vm: VirtualMachine): void {
  if (!Array.isArray(status.volumeRequests)) return;
  const open = openVolumeRequests(vm);
  if (open.length > 0) status.volumeRequests = open;
  else delete status.volumeRequests;
}

function setMemoryDump(status: VmStatus, { vm, vmi, now }: VmFacts): void {
  const request = projectDump(vm, vmi, rfc3339(now));
  if (request) status.memoryDumpRequest = request;
  else delete status.memoryDumpRequest;
}

function setVolumeStatuses(status: VmStatus, { volumeStatuses }: VmFacts): void {
  if (!volumeStatuses) return;
  if (volumeStatuses.length > 0) status.volumeSnapshotStatuses = [...volumeStatuses];
  else delete status.volumeSnapshotStatuses;
}

function setTracking(status: VmStatus, { vm, vmi, changeTracking }: VmFacts): void {
  const tracking = trackingStatus(vm, vmi && isFinal(vmi) ? undefined : vmi, changeTracking);
  if (tracking) status.changedBlockTracking = tracking;
  else delete status.changedBlockTracking;
}

function setStartFailure(status: VmStatus, { vm, vmi, now }: VmFacts, random: () => number): void {
  const restarts = ['Always', 'RerunOnFailure', 'Once'].includes(strategyOrHalted(vm));
  const hasRun = vmi?.status?.phaseTransitionTimestamps?.some(({ phase }) => phase === 'Running') ?? false;
  if (!restarts || hasRun || vmi?.status?.phase === 'Running') {
    delete status.startFailure;
    return;
  }
  const uid = vmi?.metadata.uid;
  if (!vmi || !uid || !isFinal(vmi) || status.startFailure?.lastFailedVMIUID === uid) return;
  const failures = (status.startFailure?.consecutiveFailCount ?? 0) + 1;
  const retryAt = new Date(now.getTime() + startBackoffSeconds(failures, random) * 1000);
  status.startFailure = {
    consecutiveFailCount: failures,
    lastFailedVMIUID: uid,
    retryAfterTimestamp: rfc3339(retryAt),
  };
}

function conditionsOf(seen: VmFacts, failure: VmFailure | undefined): Condition[] {
  const { vm, vmi, now } = seen;
  const time = rfc3339(now);
  const stored = (vm.status?.conditions ?? []).filter(({ type }) => ownConditions.has(type));
  const own = withRestart(stored, seen, time);
  const copies = (vmi?.status?.conditions ?? []).filter(({ type }) => !ownConditions.has(type));
  const ready = withCondition(own, readyCondition(vmi), time);
  const all = failure
    ? withCondition(ready, { type: 'Failure', status: 'True', ...failure }, time)
    : withoutCondition(ready, 'Failure');
  return [...all, ...copies];
}

/** Where it is not known what the VMI was started from, what was said of other fields than CPUs and memory lasts until the next start. */
function withRestart(conditions: Condition[], { vmi, changes, isChanged }: VmFacts, time: string): Condition[] {
  const type = 'RestartRequired';
  const asked = changes.flatMap((one) => (one.kind === 'restart' ? [one.message] : [])).at(-1);
  const message = isChanged ? stagedMessage : asked;
  const isOther = findCondition(conditions, type)?.message === stagedMessage;
  if (vmi && message !== undefined) return withCondition(conditions, { type, status: 'True', message }, time);
  return vmi && isOther && isChanged === undefined ? conditions : withoutCondition(conditions, type);
}

function readyCondition(vmi: VirtualMachineInstance | undefined): ConditionState {
  if (!vmi) return { type: 'Ready', status: 'False', reason: 'VMINotExists', message: 'VMI does not exist' };
  const ready = findCondition(vmi.status?.conditions, 'Ready');
  if (!ready) return { type: 'Ready', status: 'False', reason: 'VMIConditionMissing', message: 'VMI is missing Ready' };
  const { status, reason, message } = ready;
  return { type: 'Ready', status, ...(reason ? { reason } : {}), ...(message ? { message } : {}) };
}
