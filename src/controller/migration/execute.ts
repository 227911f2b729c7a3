import {
  annotations,
  findCondition,
  type Key,
  keyOf,
  labels,
  type MigrationState,
  type Pod,
  resources,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { errorMessage, rfc3339, sameJson } from '../../base/index.ts';
import { getIfThere, isKubeError, writeIfThere } from '../../kube/index.ts';
import { type Executors, guardedPatch, type ObjectEvent, type Outcome, type Step } from '../../reconcile/index.ts';
import { networkInfoAnnotation } from '../pod/index.ts';
import { createWithLimits } from '../quota/index.ts';
import { createAttachmentPod, deleteAttachments } from './attachment-steps.ts';
import { isTargetEnd } from './decentralised-facts.ts';
import { announced, described, failedForBoth, withTarget } from './decentralised-steps.ts';
import { targetAttachment } from './plugged.ts';
import { effectiveOptions } from './policies.ts';
import { tryAgain } from './retry-step.ts';
import { createStateClaim, deleteStateClaim, handStateOver } from './state-steps.ts';
import type { ExecuteContext, MigrationStepArgs } from './steps.ts';

/** Of a step that found the VMI changed: nothing was done, and the decision is to be taken again. */
export const staleCode = 'STALE';
const roomPauseMs = 1_000;

const done: Outcome = { kind: 'done' };
const event = (type: 'Normal' | 'Warning', reason: string, message: string): ObjectEvent => ({ type, reason, message });

function failed(code: string, message: string, events: readonly ObjectEvent[] = []): Outcome {
  return { kind: 'failed', error: { severity: 'retry', code, message }, events };
}

const stale = failed(staleCode, 'the VMI has changed since it was observed');

export const executors: Executors<MigrationStepArgs, ExecuteContext> = {
  setRuntimeUser,
  createTargetPod,
  createStateClaim,
  handStateOver,
  deleteStateClaim,
  createAttachmentPod,
  deleteAttachments,
  deleteTargetPod,
  announce: (_step, context) =>
    changeVmi(context, (vmi) => {
      vmi.status = { ...vmi.status, migrationState: announced(vmi, context.observation) };
    }),
  describeSource: (_step, context) =>
    changeVmi(context, (vmi) => {
      vmi.status = { ...described(vmi, context.observation) };
    }),
  forgetCopies: (_step, context) =>
    changeVmi(context, (vmi) => {
      const { migratedVolumes: _, ...status } = vmi.status ?? {};
      vmi.status = status;
    }),
  handOver,
  failState,
  requestAbort,
  deleteMigration,
  collect,
  tryAgain,
  noteOnVmi,
};

/** As upstream, so that a migration moves a VMI of an older installation to the user that launchers have now (setupVMIRuntimeUser). */
function setRuntimeUser(
  { user }: Step<MigrationStepArgs, 'setRuntimeUser'>,
  context: ExecuteContext,
): Promise<Outcome> {
  return changeVmi(context, (vmi) => {
    const { [annotations.nonroot]: _old, ...own } = vmi.metadata.annotations ?? {};
    vmi.metadata.annotations = user === 0 ? own : { ...own, [annotations.nonroot]: 'true' };
    vmi.status = { ...vmi.status, runtimeUser: user };
  });
}

async function createTargetPod(
  { pod, leftovers }: Step<MigrationStepArgs, 'createTargetPod'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { client, launchers, quotas, ownPods, observation, signal } = context;
  const { vmi } = observation;
  if (!vmi) return stale;
  const release = context.reserve();
  if (!release) return { kind: 'wait', afterMs: roomPauseMs, reason: 'another migration has taken the room' };
  let isUnclear = false;
  try {
    for (const left of leftovers) if (!(await deletePod(left, context))) return stale;
    const { cpuLimitedNamespaces: limitedNamespaces } = observation.config;
    const created = await createWithLimits(pod, vmi, { client, quotas, limitedNamespaces, signal });
    launchers.made(vmi, created);
    ownPods.created(keyOf(created), created);
    const message = `Created migration target pod ${created.metadata.name}`;
    return { kind: 'done', events: [event('Normal', 'SuccessfulCreate', message)] };
  } catch (error) {
    isUnclear = signal.aborted || isKubeError(error, 'UNREACHABLE', 'TIMEOUT', 'SERVER_ERROR');
    if (signal.aborted) throw error;
    if (isKubeError(error, 'ALREADY_EXISTS')) return await adoptExisting(vmi, pod, context);
    const message = `Error creating pod: ${errorMessage(error)}`;
    context.noteOnVmi(vmi, event('Warning', 'FailedCreate', message));
    return failed('CREATE_FAILED', message);
  } finally {
    release(isUnclear);
  }
}

/** No other client can know the name: it is ours from a try whose answer was lost. */
async function adoptExisting(vmi: VirtualMachineInstance, pod: Pod, context: ExecuteContext): Promise<Outcome> {
  const { client, launchers, ownPods, signal } = context;
  const existing = await client.get<Pod>(resources.pods, pod.metadata, { signal });
  if (launchers.sort(vmi, [existing]).own.length === 0) {
    return failed('CREATE_FAILED', `Error creating pod: a pod ${pod.metadata.name} that is not ours exists`);
  }
  ownPods.created(keyOf(existing), existing);
  return done;
}

async function deleteTargetPod(
  { pod, why }: Step<MigrationStepArgs, 'deleteTargetPod'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { name } = pod.metadata;
  try {
    if (!(await deletePod(pod, context))) return stale;
  } catch (error) {
    if (context.signal.aborted) throw error;
    const message = `Error deleted migration target pod: ${errorMessage(error)}`;
    return failed('DELETE_FAILED', message, [event('Warning', 'FailedDelete', message)]);
  }
  return {
    kind: 'done',
    events: [event('Normal', 'SuccessfulDelete', `Deleted migration target pod ${name}: ${why}`)],
  };
}

/**
 * False: the VMI's migration has gone on since it was observed, so that the guest may be in this pod by now, and the decision is to be taken again.
 * Watches run apart, and that of VMIs may be behind those of pods and migrations; a leader that slept has caches of long ago.
 */
async function deletePod({ metadata }: Pod, context: ExecuteContext): Promise<boolean> {
  const { client, vmis, signal } = context;
  const { vmi } = context.observation;
  if (vmi) {
    const type = resources.virtualMachineInstances;
    const newest = await getIfThere<VirtualMachineInstance>(client, type, vmi.metadata, { signal });
    const isThere = newest !== undefined && newest.metadata.uid === vmi.metadata.uid;
    if (isThere && !sameJson(newest.status?.migrationState, vmi.status?.migrationState)) {
      vmis.saw(keyOf(vmi), vmi, newest);
      return false;
    }
  }
  await writeIfThere(client.delete(resources.pods, metadata, { uid: metadata.uid, signal }));
  return true;
}

/** One patch, guarded by what was observed: the state, and the label that shows the VMI to the agent of the target. */
async function handOver({ pod }: Step<MigrationStepArgs, 'handOver'>, context: ExecuteContext): Promise<Outcome> {
  const { observation } = context;
  const { vmi, migration, sourcePod } = observation;
  if (!vmi) return stale;
  const options = await effectiveOptions(vmi, observation.config.migrations, context);
  const attachment = targetAttachment(observation)?.metadata.uid;
  const overhead = pod.metadata.annotations?.['kubevirt.io/memory-overhead-bytes'];
  const state: MigrationState = {
    migrationUid: observation.uid,
    targetNode: pod.spec.nodeName ?? '',
    targetPod: pod.metadata.name,
    sourceNode: vmi.status?.nodeName ?? '',
    sourcePod: migration.status?.migrationState?.sourcePod ?? sourcePod?.metadata.name ?? '',
    ...(attachment !== undefined && { targetAttachmentPodUID: attachment }),
    ...(overhead !== undefined && { targetMemoryOverhead: overhead }),
    ...(options.policyName !== undefined && { migrationPolicyName: options.policyName }),
    migrationConfiguration: options.options,
  };
  await tellNetworks(pod, vmi, context);
  const outcome = await changeVmi(context, (wanted) => {
    const migrationState = isTargetEnd(observation) ? withTarget(wanted, pod, state, observation) : state;
    wanted.status = { ...wanted.status, migrationState };
    wanted.metadata.labels = { ...wanted.metadata.labels, ...handOverLabels(vmi, pod) };
  });
  if (outcome.kind !== 'done') return outcome;
  const message = 'Migration target pod is ready for preparation by virt-handler.';
  return { kind: 'done', events: [event('Normal', 'SuccessfulHandOver', message)] };
}

/** Which devices of its machine the networks of the target pod are: its launcher reads it when the agent prepares it. */
async function tellNetworks(
  pod: Pod,
  vmi: VirtualMachineInstance,
  { client, observation: { config }, signal }: ExecuteContext,
): Promise<void> {
  const told = networkInfoAnnotation(vmi, pod, config);
  if (Object.keys(told).length === 0) return;
  const body = { metadata: { uid: pod.metadata.uid, annotations: told } };
  await writeIfThere(client.patch(resources.pods, pod.metadata, body, 'strategic', { signal }));
}

/** Figures of the target pod, for CPUs and memory that come with the migration. */
function handOverLabels(vmi: VirtualMachineInstance, pod: Pod): Record<string, string> {
  const compute = pod.spec.containers.find(({ name }) => name === 'compute')?.resources as
    | { readonly limits?: Record<string, unknown>; readonly requests?: Record<string, unknown> }
    | undefined;
  const isChanging = (type: string) => findCondition(vmi.status?.conditions, type)?.status === 'True';
  const cpus = compute?.limits?.cpu;
  const memory = compute?.requests?.memory;
  const isDedicated = vmi.spec.domain.cpu?.dedicatedCpuPlacement === true;
  return {
    [labels.migrationTargetNodeName]: pod.spec.nodeName ?? '',
    ...(isChanging('HotVCPUChange') && isDedicated && cpus !== undefined && { [labels.podCpuLimit]: String(cpus) }),
    ...(isChanging('HotMemoryChange') && memory !== undefined && { [labels.podMemoryRequest]: String(memory) }),
  };
}

async function failState({ reason }: Step<MigrationStepArgs, 'failState'>, context: ExecuteContext): Promise<Outcome> {
  const { vmi, now } = context.observation;
  const time = rfc3339(now);
  const outcome = await changeState(context, (state) => ({
    ...failedForBoth(state, context.observation),
    failed: true,
    completed: true,
    startTimestamp: state.startTimestamp ?? time,
    endTimestamp: time,
    failureReason: state.failureReason || reason,
  }));
  if (outcome.kind === 'done' && vmi) {
    context.noteOnVmi(vmi, event('Warning', 'FailedMigration', `VirtualMachineInstance migration failed: ${reason}`));
  }
  return outcome;
}

async function requestAbort(_: Step<MigrationStepArgs, 'requestAbort'>, context: ExecuteContext): Promise<Outcome> {
  const outcome = await changeState(context, (state) => ({ ...state, abortRequested: true }));
  if (outcome.kind !== 'done') return outcome;
  const message = 'Migration is ready to be canceled by virt-handler.';
  return { kind: 'done', events: [event('Normal', 'SuccessfulAbortMigration', message)] };
}

function changeState(context: ExecuteContext, change: (state: MigrationState) => MigrationState): Promise<Outcome> {
  return changeVmi(context, (vmi) => {
    const state = vmi.status?.migrationState;
    if (state) vmi.status = { ...vmi.status, migrationState: change(state) };
  });
}

const changed = [
  '/status/migrationState',
  '/status/migratedVolumes',
  '/status/runtimeUser',
  '/metadata/labels',
  '/metadata/annotations',
];
const always = ['/metadata/uid', '/status/phase', '/status/nodeName'];

/** The API server takes it only onto the VMI that was observed, as far as it matters. */
async function changeVmi(
  { client, vmis, observation: { vmi }, signal }: ExecuteContext,
  change: (vmi: VirtualMachineInstance) => void,
): Promise<Outcome> {
  if (!vmi) return stale;
  const type = resources.virtualMachineInstances;
  const key: Key = keyOf(vmi);
  const wanted = structuredClone(vmi);
  change(wanted);
  const patch = guardedPatch(vmi, wanted, { fields: changed, always, isSame: sameJson });
  if (patch.length === 0) return done;
  // A member that was not there cannot be tested, and what others put there meanwhile would be overwritten.
  const adds = patch.some(({ op }) => op === 'add');
  const { resourceVersion } = vmi.metadata;
  const operations = [
    ...(adds ? [{ op: 'test', path: '/metadata/resourceVersion', value: resourceVersion }] : []),
    ...patch,
  ];
  try {
    vmis.saw(key, vmi, await client.patch<VirtualMachineInstance>(type, vmi.metadata, operations, 'json', { signal }));
    return done;
  } catch (error) {
    if (signal.aborted || !isKubeError(error, 'CONFLICT', 'INVALID', 'NOT_FOUND')) throw error;
    const newest = await getIfThere<VirtualMachineInstance>(client, type, vmi.metadata, { signal });
    if (newest) vmis.saw(key, vmi, newest);
    return stale;
  }
}

async function deleteMigration(
  _: Step<MigrationStepArgs, 'deleteMigration'>,
  { client, observation: { migration, uid }, signal }: ExecuteContext,
): Promise<Outcome> {
  await writeIfThere(client.delete(resources.migrations, migration.metadata, { uid, signal }));
  return done;
}

async function collect({ superseded }: Step<MigrationStepArgs, 'collect'>, context: ExecuteContext): Promise<Outcome> {
  const { client, signal } = context;
  for (const { migration, pod } of superseded) {
    if (pod && !(await deletePod(pod, context))) return stale;
    const { uid } = migration.metadata;
    await writeIfThere(client.delete(resources.migrations, migration.metadata, { uid, signal }));
  }
  return done;
}

async function noteOnVmi(
  { type, reason, message }: Step<MigrationStepArgs, 'noteOnVmi'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { vmi } = context.observation;
  if (vmi) context.noteOnVmi(vmi, event(type, reason, message));
  return done;
}
