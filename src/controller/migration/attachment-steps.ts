import { keyOf, type Pod, resources } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { isKubeError } from '../../kube/index.ts';
import type { Outcome, Step } from '../../reconcile/index.ts';
import type { ExecuteContext, MigrationStepArgs } from './steps.ts';

const done: Outcome = { kind: 'done' };

function failed(code: string, message: string): Outcome {
  return { kind: 'failed', error: { severity: 'retry', code, message } };
}

export async function createAttachmentPod(
  { pod }: Step<MigrationStepArgs, 'createAttachmentPod'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { client, attachmentPods, ownPods, observation, signal } = context;
  const { vmi } = observation;
  if (!vmi) return done;
  try {
    const created = await client.create(resources.pods, pod, { signal });
    attachmentPods.made(vmi, created);
    ownPods.created(keyOf(created), created);
  } catch (error) {
    if (signal.aborted) throw error;
    if (isKubeError(error, 'ALREADY_EXISTS')) return await adoptExisting(pod, context);
    const message = `Error creating attachment pod: ${errorMessage(error)}`;
    context.noteOnVmi(vmi, { type: 'Warning', reason: 'FailedCreate', message });
    return failed('CREATE_FAILED', message);
  }
  const message = `Created attachment pod ${pod.metadata.name}`;
  return { kind: 'done', events: [{ type: 'Normal', reason: 'SuccessfulCreate', message }] };
}

/** No other client can know the name: it is ours from a try whose answer was lost. */
async function adoptExisting(pod: Pod, context: ExecuteContext): Promise<Outcome> {
  const { client, attachmentPods, ownPods, observation, signal } = context;
  const existing = await client.get<Pod>(resources.pods, pod.metadata, { signal });
  if (!observation.vmi || !attachmentPods.adopts(observation.vmi, existing)) {
    const problem = `a pod ${pod.metadata.name} that is not ours exists`;
    return failed('CREATE_FAILED', `Error creating attachment pod: ${problem}`);
  }
  ownPods.created(keyOf(existing), existing);
  return done;
}

/** They hold nothing that needs time to end. */
export async function deleteAttachments(
  { pods }: Step<MigrationStepArgs, 'deleteAttachments'>,
  { client, signal }: ExecuteContext,
): Promise<Outcome> {
  for (const { metadata } of pods) {
    try {
      await client.delete(resources.pods, metadata, { uid: metadata.uid, graceSeconds: 0, signal });
    } catch (error) {
      // It is gone, or another pod has its name.
      if (!isKubeError(error, 'NOT_FOUND', 'CONFLICT')) throw error;
    }
  }
  return done;
}
