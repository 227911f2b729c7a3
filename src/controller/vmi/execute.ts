import { keyOf, type LabelSelector, type Pod, resources, type VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage, rfc3339 } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type {
  Executors,
  ObjectEvent,
  Outcome,
  ReadYourWrites,
  Step,
  StepContext,
  StepPart,
} from '../../reconcile/index.ts';
import { createStateClaim } from '../kept-state/index.ts';
import type { AttachmentPods, LauncherPods } from '../pod/index.ts';
import { createWithLimits, type NamespaceQuotas } from '../quota/index.ts';
import type { VmiStepArgs } from './steps.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list' | 'delete' | 'patch'>;
  readonly launchers: LauncherPods;
  readonly attachmentPods: AttachmentPods;
  readonly quotas: NamespaceQuotas;
  readonly ownPods: Pick<ReadYourWrites<Pod>, 'created' | 'patched'>;
  /** The VMI that was observed; undefined: there is none. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** The API server has a newer state of the VMI than the one that was observed. */
  readonly saw: (newer: VirtualMachineInstance) => void;
  readonly now: Date;
  /** Namespaces in which each guest gets a limit of its CPUs. */
  readonly limitedNamespaces: LabelSelector | undefined;
  /** Of claims that keep TPMs and EFI variables; empty: the cluster's default. */
  readonly stateClass: string;
}

/** Of a step that found the VMI changed: nothing was done, and the decision is to be taken again. */
export const staleCode = 'STALE';

/** Steps that fail with these codes have said so in an event of that reason; the condition has the same reason. */
export const failureReasons: Readonly<Record<string, string>> = {
  CREATE_FAILED: 'FailedCreate',
  DELETE_FAILED: 'FailedDelete',
  STATE_CLAIM_FAILED: 'FailedBackendStorageCreate',
};

const done: Outcome = { kind: 'done' };
const stale: Outcome = failed(staleCode, 'the VMI has changed since it was observed');

/** A pod that an admission webhook keeps from being deleted or patched holds up nothing else of its VMI. */
export function goesOnAfter(step: keyof VmiStepArgs): boolean {
  return step === 'deleteOrphans' || step === 'setPodCondition';
}

export const executors: Executors<VmiStepArgs, ExecuteContext> = {
  createPod,
  createStateClaim: keepState,
  deletePods,
  deleteOrphans,
  setPodCondition,
  createAttachmentPod,
  deleteAttachmentPods,
  annotatePod,
  labelPod,
};

function failed(code: string, message: string): Outcome {
  const reason = failureReasons[code];
  const events: ObjectEvent[] = reason === undefined ? [] : [{ type: 'Warning', reason, message }];
  return { kind: 'failed', error: { severity: 'retry', code, message }, ...(events.length > 0 && { events }) };
}

async function createPod(
  { pod, leftovers }: Step<VmiStepArgs, 'createPod'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { client, launchers, quotas, ownPods, vmi, signal } = context;
  // An old view of a VMI that has its pod from another process would give it a second one, and take the first away.
  if (!vmi || !(launchers.isOnlyHere(vmi) || (await isNewest(vmi, context)))) return stale;
  const before = await deleteLeftovers(leftovers, context);
  try {
    const { limitedNamespaces } = context;
    const created = await createWithLimits(pod, vmi, { client, quotas, limitedNamespaces, signal });
    launchers.made(vmi, created);
    ownPods.created(keyOf(created), created);
  } catch (error) {
    if (signal.aborted) throw error;
    const end = isKubeError(error, 'ALREADY_EXISTS')
      ? await adoptExisting(vmi, pod, context)
      : failed('CREATE_FAILED', `Error creating pod: ${errorMessage(error)}`);
    return { ...end, ...before, events: [...before.events, ...(end.events ?? [])] };
  }
  const message = `Created virtual machine pod ${pod.metadata.name}`;
  const event: ObjectEvent = { type: 'Normal', reason: 'SuccessfulCreate', message };
  return { kind: 'done', ...before, events: [...before.events, event] };
}

async function keepState(_: Step<VmiStepArgs, 'createStateClaim'>, context: ExecuteContext): Promise<Outcome> {
  const { vmi, client, stateClass: storageClass, signal } = context;
  if (!vmi) return stale;
  try {
    const { claim, isNew } = await createStateClaim(vmi, { kind: 'vm' }, { client, storageClass, signal });
    if (!isNew) return done;
    const message = `Created claim ${claim.metadata.name} for the state of the virtual machine`;
    return { kind: 'done', events: [{ type: 'Normal', reason: 'SuccessfulCreate', message }] };
  } catch (error) {
    if (signal.aborted) throw error;
    return failed('STATE_CLAIM_FAILED', `Error creating the claim for the state of the VM: ${errorMessage(error)}`);
  }
}

/** One that stays is reported, and the VM starts: nothing of what it says is believed. */
async function deleteLeftovers(
  pods: readonly Pod[],
  context: ExecuteContext,
): Promise<{ readonly events: readonly ObjectEvent[]; readonly parts?: readonly StepPart[] }> {
  const { events = [], ...end } = await deletePods({ step: 'deletePods', pods }, context);
  if (end.kind !== 'failed') return { events };
  return { events, parts: [{ name: 'leftovers', outcome: 'failed', tookMs: 0, because: end.error.message }] };
}

async function isNewest(vmi: VirtualMachineInstance, { client, saw, signal }: ExecuteContext): Promise<boolean> {
  const type = resources.virtualMachineInstances;
  const newest = await getIfThere<VirtualMachineInstance>(client, type, vmi.metadata, { signal });
  if (!newest) return false;
  const { uid, resourceVersion } = newest.metadata;
  if (uid === vmi.metadata.uid && resourceVersion === vmi.metadata.resourceVersion) return true;
  saw(newest);
  return false;
}

/** No other client can know the name: a pod of it is ours from a try whose answer was lost, or there by a rare chance. */
async function adoptExisting(
  vmi: VirtualMachineInstance,
  pod: Pod,
  { client, launchers, ownPods, signal }: ExecuteContext,
): Promise<Outcome> {
  const existing = await client.get<Pod>(resources.pods, pod.metadata, { signal });
  if (launchers.sort(vmi, [existing]).own.length > 0) {
    ownPods.created(keyOf(existing), existing);
    return done;
  }
  return failed('CREATE_FAILED', `Error creating pod: a pod ${pod.metadata.name} that is not ours exists`);
}

/** All of them, also when one fails. */
async function deletePods(
  { pods }: Step<VmiStepArgs, 'deletePods'>,
  { client, signal }: ExecuteContext,
): Promise<Outcome> {
  const events: ObjectEvent[] = [];
  let firstFailure: Outcome | undefined;
  for (const { metadata } of pods) {
    const { name, uid } = metadata;
    try {
      const isDeleted = await writeIfThere(client.delete(resources.pods, metadata, { uid, signal }));
      if (isDeleted)
        events.push({ type: 'Normal', reason: 'SuccessfulDelete', message: `Deleted virtual machine pod ${name}` });
    } catch (error) {
      if (signal.aborted) throw error;
      firstFailure ??= failed('DELETE_FAILED', `Error deleting pod ${name}: ${errorMessage(error)}`);
    }
  }
  return firstFailure?.kind === 'failed'
    ? { ...firstFailure, events: [...events, ...(firstFailure.events ?? [])] }
    : { kind: 'done', events };
}

async function deleteOrphans(
  { pods }: Step<VmiStepArgs, 'deleteOrphans'>,
  { client, signal }: ExecuteContext,
): Promise<Outcome> {
  const deletions = pods.map(({ metadata }) => client.delete(resources.pods, metadata, { uid: metadata.uid, signal }));
  const ends = await Promise.allSettled(deletions.map((each) => writeIfThere(each)));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return done;
}

async function createAttachmentPod(
  { pod }: Step<VmiStepArgs, 'createAttachmentPod'>,
  { client, attachmentPods, ownPods, vmi, signal }: ExecuteContext,
): Promise<Outcome> {
  if (!vmi) return stale;
  const { name } = pod.metadata;
  try {
    const created = await client.create(resources.pods, pod, { signal });
    attachmentPods.made(vmi, created);
    ownPods.created(keyOf(created), created);
  } catch (error) {
    if (signal.aborted) throw error;
    if (!isKubeError(error, 'ALREADY_EXISTS')) {
      return failed('CREATE_FAILED', `Error creating attachment pod: ${errorMessage(error)}`);
    }
    const existing = await client.get<Pod>(resources.pods, pod.metadata, { signal });
    if (attachmentPods.adopts(vmi, existing)) {
      ownPods.created(keyOf(existing), existing);
      return done;
    }
    return failed('CREATE_FAILED', `Error creating attachment pod: a pod ${name} that is not ours exists`);
  }
  const event: ObjectEvent = { type: 'Normal', reason: 'SuccessfulCreate', message: `Created attachment pod ${name}` };
  return { kind: 'done', events: [event] };
}

/** They hold nothing that needs time to end. */
async function deleteAttachmentPods(
  { pods }: Step<VmiStepArgs, 'deleteAttachmentPods'>,
  { client, signal }: ExecuteContext,
): Promise<Outcome> {
  const events: ObjectEvent[] = [];
  for (const { metadata } of pods) {
    const { name, uid } = metadata;
    try {
      await client.delete(resources.pods, metadata, { uid, graceSeconds: 0, signal });
      events.push({ type: 'Normal', reason: 'SuccessfulDelete', message: `Deleted attachment pod ${name}` });
    } catch (error) {
      if (isKubeError(error, 'NOT_FOUND', 'CONFLICT')) continue;
      if (signal.aborted) throw error;
      return failed('DELETE_FAILED', `Failed to delete attachment pod ${name}`);
    }
  }
  return { kind: 'done', events };
}

/** The server takes labels with the status of a pod. Where somebody refuses that, neither keeps the other from being set. */
async function setPodCondition(
  { pod, condition, labels }: Step<VmiStepArgs, 'setPodCondition'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const time = rfc3339(context.now);
  const status = { conditions: [{ ...condition, lastProbeTime: time, lastTransitionTime: time }] };
  const { uid } = pod.metadata;
  try {
    return await patchPod(pod, { metadata: { uid, ...(labels && { labels }) }, status }, context, 'status');
  } catch (error) {
    if (context.signal.aborted || !labels || !isKubeError(error, 'INVALID', 'FORBIDDEN')) throw error;
  }
  const ends = await Promise.allSettled([
    patchPod(pod, { metadata: { uid, labels } }, context),
    patchPod(pod, { metadata: { uid }, status }, context, 'status'),
  ]);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return done;
}

async function annotatePod(
  { pod, annotations }: Step<VmiStepArgs, 'annotatePod'>,
  context: ExecuteContext,
): Promise<Outcome> {
  return patchPod(pod, { metadata: { uid: pod.metadata.uid, annotations } }, context);
}

async function labelPod({ pod, labels }: Step<VmiStepArgs, 'labelPod'>, context: ExecuteContext): Promise<Outcome> {
  return patchPod(pod, { metadata: { uid: pod.metadata.uid, labels } }, context);
}

/** With the UID in the patch the server refuses (409) when another pod has taken the name. */
async function patchPod(
  pod: Pod,
  body: object,
  { client, ownPods, signal }: ExecuteContext,
  subresource?: string,
): Promise<Outcome> {
  const options = { signal, subresource };
  await writeIfThere(
    client.patch<Pod>(resources.pods, pod.metadata, body, 'strategic', options).then((patched) => {
      ownPods.patched(keyOf(pod), pod, patched);
    }),
  );
  return done;
}
