import type { VirtualMachineBackupTracker } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, ReadYourWrites, StepContext } from '../../reconcile/index.ts';
import { orderGuest } from '../snapshot-source/index.ts';
import type { TrackerStepArgs } from './decide.ts';
import type { PresentTracker } from './observe.ts';
import { patchTracker } from './tracker.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'patch' | 'raw'>;
  readonly trackers: ReadYourWrites<VirtualMachineBackupTracker>;
  readonly observation: PresentTracker;
}

const overtaken: Outcome = { kind: 'wait', afterMs: 500, reason: 'the object has changed meanwhile' };
const told = { checkpointRedefinitionRequired: null };

export const executors: Executors<TrackerStepArgs, ExecuteContext> = {
  redefineCheckpoint: async (_step, context) => {
    const { client, observation, signal } = context;
    const { tracker, vmName: name } = observation;
    const { namespace } = tracker.metadata;
    const checkpoint = tracker.status?.latestCheckpoint;
    try {
      await orderGuest({ namespace, name }, 'redefine-checkpoint', checkpoint, client, signal);
      return stored(await patchTracker(tracker, told, context, signal));
    } catch (error) {
      if (!isUseless(error)) throw error;
      const message = `Failed to redefine checkpoint ${checkpoint?.name}: ${errorMessage(error)}. It is given up, and the next backup is a full one.`;
      const isWritten = await patchTracker(tracker, { ...told, latestCheckpoint: null }, context, signal);
      return stored(isWritten, { type: 'Warning', reason: 'CheckpointRedefinitionFailed', message });
    }
  },
};

function stored(isWritten: boolean, ...events: readonly ObjectEvent[]): Outcome {
  return isWritten ? { kind: 'done', events } : overtaken;
}

/** The agent says 422; upstream's virt-api makes a 500 of it that quotes the status. */
function isUseless(error: unknown): boolean {
  if (!isKubeError(error)) return false;
  return error.httpStatus === 422 || /\b422 Unprocessable Entity\b/.test(error.message);
}
