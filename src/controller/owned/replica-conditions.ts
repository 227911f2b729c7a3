import { type Condition, findCondition, withCondition, withoutCondition } from '../../api/index.ts';

/** Why not all is as it shall be, in words for condition `ReplicaFailure`. */
export interface ScaleFailure {
  readonly reason: string;
  readonly message: string;
}

/** Codes of failed steps are the reasons of the condition. */
const reasons: Readonly<Record<string, string>> = {
  CREATE_FAILED: 'FailedCreate',
  DELETE_FAILED: 'FailedDelete',
};

export function failureReason(code: string, fallback: string): string {
  return reasons[code] ?? fallback;
}

/** `ReplicaFailure` and `ReplicaPaused` as they shall stand. Words of a failure that lasts may differ with each try: the first ones stay. */
export function replicaConditions(
  conditions: readonly Condition[] = [],
  { failure, paused }: { readonly failure: ScaleFailure | undefined; readonly paused: ScaleFailure | undefined },
  time: string,
): Condition[] {
  return put(put(conditions, 'ReplicaFailure', failure, time), 'ReplicaPaused', paused, time);
}

function put(conditions: readonly Condition[], type: string, state: ScaleFailure | undefined, time: string) {
  if (!state) return withoutCondition(conditions, type);
  const old = findCondition(conditions, type);
  if (old?.status === 'True' && old.reason === state.reason) return [...conditions];
  return withCondition(conditions, { type, status: 'True', ...state }, time);
}

/** Whether `ReplicaPaused` came or went. */
export function pauseChange(
  old: readonly Condition[] | undefined,
  conditions: readonly Condition[] | undefined,
): 'paused' | 'resumed' | undefined {
  const [was, is] = [old, conditions].map((each) => findCondition(each, 'ReplicaPaused') !== undefined);
  if (was === is) return undefined;
  return is ? 'paused' : 'resumed';
}
