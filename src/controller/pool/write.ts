import {
  findCondition,
  labelSelectorText,
  resources,
  type VirtualMachine,
  type VirtualMachinePool,
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
import { type Dependents, pauseChange, replicaConditions } from '../owned/index.ts';
import type { PoolDecision } from './decide.ts';
import { type PoolObservation, type PresentPool, selectorOf } from './observe.ts';

export interface StatusDeps {
  readonly client: Pick<KubeClient, 'updateStatus'>;
  readonly pools: ReadYourWrites<VirtualMachinePool>;
  readonly members: Pick<Dependents<VirtualMachine>, 'of'>;
}

/** Stores the status if it differs, also after a failed step. */
export async function writeStatus(
  { observation, decision, outcomes }: Attempt<PoolObservation, PoolDecision>,
  { client, pools, members }: StatusDeps,
  report: WriteReport,
  signal: AbortSignal,
): Promise<Written> {
  const failure = stepFailureOf(outcomes);
  if (observation.kind !== 'present' || (decision.keepsStatus && !failure)) return { kind: 'no-object' };
  const { pool, key } = observation;
  // A step may have written the pool itself.
  const base = pools.get(key) ?? pool;
  const status = statusOf(observation, { decision, failure }, members.of(pool));
  if (sameJson(pool.status ?? {}, status)) return { kind: 'unchanged' };
  try {
    await pools.whileWriting(key, async () => {
      const newer = await client.updateStatus(resources.pools, { ...base, status }, { signal });
      pools.saw(key, base, newer);
    });
  } catch (error) {
    if (signal.aborted) throw error;
    if (isKubeError(error, 'NOT_FOUND')) return { kind: 'gone' };
    // Whoever changed it wakes the key.
    return isKubeError(error, 'CONFLICT') ? { kind: 'conflicts' } : { kind: 'failed', error };
  }
  report(eventsOf(pool.status, status));
  return { kind: 'written' };
}

type Status = NonNullable<VirtualMachinePool['status']>;

export function statusOf(
  { pool, now }: PresentPool,
  { decision, failure }: { readonly decision: PoolDecision; readonly failure: ReturnType<typeof stepFailureOf> },
  vms: readonly VirtualMachine[],
): Status {
  const selector = selectorOf(pool);
  const { problem, problemReason: reason = 'InvalidSpec' } = decision;
  const said = failure ? { reason: failure.code, message: failure.message } : problem && { reason, message: problem };
  const paused =
    pool.spec.paused === true ? { reason: 'SuccessfulPaused', message: 'Pool controller is paused' } : undefined;
  const conditions = replicaConditions(pool.status?.conditions, { failure: said || undefined, paused }, rfc3339(now));
  const { conditions: _old, ...rest } = pool.status ?? {};
  return {
    ...rest,
    replicas: vms.length,
    readyReplicas: vms.filter(({ status }) => findCondition(status?.conditions, 'Ready')?.status === 'True').length,
    ...(selector && { labelSelector: labelSelectorText(selector) }),
    ...(conditions.length > 0 && { conditions }),
  };
}

function eventsOf(old: Status | undefined, status: Status): ObjectEvent[] {
  switch (pauseChange(old?.conditions, status.conditions)) {
    case 'paused':
      return [{ type: 'Normal', reason: 'SuccessfulPaused', message: 'Pool is paused' }];
    case 'resumed':
      return [{ type: 'Normal', reason: 'SuccessfulResume', message: 'Pool is unpaused' }];
    default:
      return [];
  }
}
