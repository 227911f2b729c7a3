import {
  labelSelectorText,
  resources,
  type VirtualMachineInstance,
  type VirtualMachineInstanceReplicaSet,
} from '../../api/index.ts';
import { rfc3339, sameJson } from '../../base/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import {
  type Attempt,
  type ObjectEvent,
  type ReadYourWrites,
  stepFailureOf,
  type WriteReport,
  type Written,
} from '../../reconcile/index.ts';
import { type Dependents, failureReason, pauseChange, replicaConditions } from '../owned/index.ts';
import type { SetDecision } from './decide.ts';
import { isReady, membersOf, type PresentSet, type SetObservation, selectorOf } from './observe.ts';

export interface StatusDeps {
  readonly client: Pick<KubeClient, 'updateStatus'>;
  readonly sets: ReadYourWrites<VirtualMachineInstanceReplicaSet>;
  readonly members: Pick<Dependents<VirtualMachineInstance>, 'of'>;
}

/** Stores the status if it differs, also after a failed step. */
export async function writeStatus(
  { observation, decision, outcomes }: Attempt<SetObservation, SetDecision>,
  { client, sets, members }: StatusDeps,
  report: WriteReport,
  signal: AbortSignal,
): Promise<Written> {
  if (observation.kind !== 'present' || decision.keepsStatus) return { kind: 'no-object' };
  const { set, key } = observation;
  const status = statusOf(observation, { decision, failure: stepFailureOf(outcomes) }, members.of(set));
  if (sameJson(set.status ?? {}, status)) return { kind: 'unchanged' };
  try {
    await sets.whileWriting(key, async () => {
      const newer = await client.updateStatus(resources.replicaSets, { ...set, status }, { signal });
      sets.saw(key, set, newer);
    });
  } catch (error) {
    if (signal.aborted) throw error;
    if (isKubeError(error, 'NOT_FOUND')) return { kind: 'gone' };
    // Whoever changed it wakes the key.
    return isKubeError(error, 'CONFLICT') ? { kind: 'conflicts' } : { kind: 'failed', error };
  }
  report(pauseEvents(set, status));
  return { kind: 'written' };
}

type Status = NonNullable<VirtualMachineInstanceReplicaSet['status']>;

export function statusOf(
  { set, problem, now }: PresentSet,
  { decision, failure }: { readonly decision: SetDecision; readonly failure: ReturnType<typeof stepFailureOf> },
  vmis: readonly VirtualMachineInstance[],
): Status {
  const { active } = membersOf(set, vmis);
  const selector = selectorOf(set);
  const said = failure
    ? { reason: failureReason(failure.code, 'FailedSync'), message: failure.message }
    : problem && { reason: 'InvalidSpec', message: decision.problem ?? problem };
  const paused = set.spec.paused === true ? { reason: 'Paused', message: 'Controller got paused' } : undefined;
  const conditions = replicaConditions(set.status?.conditions, { failure: said || undefined, paused }, rfc3339(now));
  const { conditions: _old, ...rest } = set.status ?? {};
  return {
    ...rest,
    replicas: active.length,
    readyReplicas: active.filter(isReady).length,
    ...(selector && { labelSelector: labelSelectorText(selector) }),
    ...(conditions.length > 0 && { conditions }),
  };
}

function pauseEvents({ status: old }: VirtualMachineInstanceReplicaSet, status: Status): ObjectEvent[] {
  switch (pauseChange(old?.conditions, status.conditions)) {
    case 'paused':
      return [{ type: 'Normal', reason: 'SuccessfulPaused', message: 'Paused' }];
    case 'resumed':
      return [{ type: 'Normal', reason: 'SuccessfulResumed', message: 'Resumed' }];
    default:
      return [];
  }
}
