import { type Condition, type DataVolume, findCondition, transitionTime } from '../../api/index.ts';
import { rfc3339, sameJson } from '../../base/index.ts';
import type { ObjectEvent } from '../../reconcile/index.ts';
import type { Said } from './decide.ts';
import { type Doing, doings } from './wish.ts';

type Status = NonNullable<DataVolume['status']>;

/** The status of a DataVolume, with the words that KubeVirt reads (`pkg/controller/datavolume` of CDI). */
export function projectStatus(
  { metadata, status = {} }: DataVolume,
  said: Said,
  restartCount: number,
  now: Date,
): Status {
  const { phase, progress = 'N/A', problem, isRunning, isBound } = said;
  const isDone = phase === 'Succeeded';
  const condition = (type: string, value: boolean, reason: string, message: string): Condition => {
    const old = findCondition(status.conditions, type);
    const state = value ? 'True' : 'False';
    return { type, status: state, reason, message, lastTransitionTime: transitionTime(old, state, rfc3339(now)) };
  };
  const bound = isBound ? `PVC ${metadata.name} Bound` : (problem?.message ?? `PVC ${metadata.name} Pending`);
  return {
    claimName: metadata.name,
    phase,
    progress,
    restartCount,
    conditions: [
      condition('Bound', isBound, isBound ? 'Bound' : 'Pending', bound),
      condition('Ready', isDone, isDone ? '' : (problem?.reason ?? ''), ''),
      condition('Running', isRunning === true, isDone ? 'Completed' : (problem?.reason ?? ''), problem?.message ?? ''),
    ],
  };
}

export function statusDiffers({ status }: DataVolume, wanted: Status): boolean {
  return Object.entries(wanted).some(([field, value]) => !sameJson(status?.[field], value));
}

/** Of a phase that it had not before. */
export function phaseEvents({ metadata, status }: DataVolume, doing: Doing, { phase, problem }: Said): ObjectEvent[] {
  if (status?.phase === phase) return changedProblem(status, problem);
  const { succeeded, failed } = doings[doing];
  const { name } = metadata;
  if (phase === 'Succeeded') {
    return [{ type: 'Normal', reason: succeeded, message: `${doing} into PVC ${name} has succeeded` }];
  }
  if (phase === 'Failed') {
    const message = `${doing} into PVC ${name} failed: ${problem?.message ?? ''}`;
    return [{ type: 'Warning', reason: failed, message }];
  }
  const message = problem?.message ?? words[phase] ?? phase;
  return [{ type: problem ? 'Warning' : 'Normal', reason: phase, message: `PVC ${name}: ${message}` }];
}

/** What goes wrong again and again is told when it is something else. */
function changedProblem(status: Status, problem: Said['problem']): ObjectEvent[] {
  const before = findCondition(status.conditions, 'Running')?.message;
  if (problem?.reason !== 'Error' || before === problem.message) return [];
  return [{ type: 'Warning', reason: 'Error', message: problem.message }];
}

const words: Readonly<Record<string, string>> = {
  Pending: 'it has no volume yet',
  ImportScheduled: 'the import waits for others',
  ImportInProgress: 'the import is under way',
  WaitForFirstConsumer: 'it gets its volume when a pod asks for it: start the VM that has it',
  CloneScheduled: 'the copy waits for others',
  CloneInProgress: 'the copy is under way',
  UploadReady: 'an upload may come (virtctl image-upload)',
};
