import { type Pod, resources, type VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage, rfc3339 } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { type EventRecorder, isKubeError, type KubeClient } from '../../kube/index.ts';
import { PodRenderError } from '../pod/errors.ts';
import type { LauncherPods } from '../pod/launcher-pods.ts';
import { renderLauncherPod } from '../pod/render.ts';
import type { VmiStep } from './decide.ts';
import type { SyncFailure } from './observation.ts';

export interface ExecuteDeps {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'delete' | 'patch'>;
  readonly events: Pick<EventRecorder, 'record'>;
}

export interface ExecuteContext extends ExecuteDeps {
  readonly launchers: LauncherPods;
  readonly vmi: VirtualMachineInstance;
  readonly config: ControllerConfig;
  readonly now: Date;
  readonly signal: AbortSignal;
}

export type StepOutcome =
  | { readonly kind: 'done' }
  /** The VMI has changed meanwhile: look again. */
  | { readonly kind: 'stale' }
  /** For a condition; `retry` when waiting may help. */
  | { readonly kind: 'failed'; readonly failure: SyncFailure; readonly retry: boolean };

const done: StepOutcome = { kind: 'done' };

type Executors = {
  readonly [K in VmiStep['step']]: (
    step: Extract<VmiStep, { step: K }>,
    context: ExecuteContext,
  ) => Promise<StepOutcome>;
};

const executors: Executors = { createPod, deletePod, setPodCondition, labelPod };

/** Does one step. Steps may be repeated at any time. Rejects with the signal's reason only. */
export async function executeStep(step: VmiStep, context: ExecuteContext): Promise<StepOutcome> {
  try {
    const run = executors[step.step] as (step: VmiStep, context: ExecuteContext) => Promise<StepOutcome>;
    return await run(step, context);
  } catch (error) {
    if (context.signal.aborted) throw error;
    const failure = { reason: 'FailedSync', message: `${step.step}: ${errorMessage(error)}` };
    return { kind: 'failed', failure, retry: true };
  }
}

async function createPod(
  { leftovers }: Extract<VmiStep, { step: 'createPod' }>,
  context: ExecuteContext,
): Promise<StepOutcome> {
  const { client, events, launchers, vmi, config, signal } = context;
  let pod: Pod;
  try {
    pod = renderLauncherPod(vmi, config, launchers.salt);
  } catch (error) {
    const retry = !(error instanceof PodRenderError || error instanceof TypeError);
    return createFailed(context, `the launcher pod cannot be made from this object: ${errorMessage(error)}`, retry);
  }
  // An old view of a VMI that has its pod would give it a second one, and take the first away.
  if (!(await isNewest(context))) return { kind: 'stale' };
  for (const leftover of leftovers) await deletePod({ step: 'deletePod', pod: leftover }, context);
  try {
    launchers.made(vmi, await client.create(resources.pods, pod, { signal }));
    events.record(vmi, 'Normal', 'SuccessfulCreate', `Created virtual machine pod ${pod.metadata.name}`);
    return done;
  } catch (error) {
    if (signal.aborted) throw error;
    if (isKubeError(error, 'ALREADY_EXISTS')) return adoptExisting(pod, context);
    return createFailed(context, `Error creating pod: ${errorMessage(error)}`, true);
  }
}

async function isNewest({ client, vmi, signal }: ExecuteContext): Promise<boolean> {
  try {
    const { metadata } = await client.get<VirtualMachineInstance>(resources.virtualMachineInstances, vmi.metadata, {
      signal,
    });
    return metadata.uid === vmi.metadata.uid && metadata.resourceVersion === vmi.metadata.resourceVersion;
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND')) return false;
    throw error;
  }
}

/** Nobody else can know the name: a pod of it is ours from a try whose answer was lost, or there by a rare chance. */
async function adoptExisting(pod: Pod, context: ExecuteContext): Promise<StepOutcome> {
  const { client, launchers, vmi, signal } = context;
  const existing = await client.get<Pod>(resources.pods, pod.metadata, { signal });
  if (launchers.sort(vmi, [existing]).own.length > 0) return done;
  return createFailed(context, `Error creating pod: a pod ${pod.metadata.name} that is not ours exists`, true);
}

function createFailed({ events, vmi }: ExecuteContext, message: string, retry: boolean): StepOutcome {
  events.record(vmi, 'Warning', 'FailedCreate', message);
  return { kind: 'failed', failure: { reason: 'FailedCreate', message }, retry };
}

async function deletePod(
  { pod }: Extract<VmiStep, { step: 'deletePod' }>,
  { client, events, vmi, signal }: ExecuteContext,
): Promise<StepOutcome> {
  const { name, uid } = pod.metadata;
  try {
    await client.delete(resources.pods, pod.metadata, { uid, signal });
    events.record(vmi, 'Normal', 'SuccessfulDelete', `Deleted virtual machine pod ${name}`);
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND', 'CONFLICT')) return done;
    if (signal.aborted) throw error;
    const message = `Error deleting pod ${name}: ${errorMessage(error)}`;
    events.record(vmi, 'Warning', 'FailedDelete', message);
    return { kind: 'failed', failure: { reason: 'FailedDelete', message }, retry: true };
  }
  return done;
}

async function setPodCondition(
  { pod, condition }: Extract<VmiStep, { step: 'setPodCondition' }>,
  { client, now, signal }: ExecuteContext,
): Promise<StepOutcome> {
  const time = rfc3339(now);
  const conditions = [{ ...condition, lastProbeTime: time, lastTransitionTime: time }];
  const body = { metadata: { uid: pod.metadata.uid }, status: { conditions } };
  return patchPod(client, pod, body, signal, 'status');
}

async function labelPod(
  { pod, labels }: Extract<VmiStep, { step: 'labelPod' }>,
  { client, signal }: ExecuteContext,
): Promise<StepOutcome> {
  return patchPod(client, pod, { metadata: { uid: pod.metadata.uid, labels } }, signal);
}

/** With the UID in the patch the server refuses (409) when another pod has taken the name. */
async function patchPod(
  client: ExecuteDeps['client'],
  pod: Pod,
  body: object,
  signal: AbortSignal,
  subresource?: string,
): Promise<StepOutcome> {
  try {
    await client.patch(resources.pods, pod.metadata, body, 'strategic', { signal, subresource });
  } catch (error) {
    if (!isKubeError(error, 'NOT_FOUND', 'CONFLICT')) throw error;
  }
  return done;
}
