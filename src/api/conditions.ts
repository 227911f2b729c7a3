import type { Condition } from './kubernetes.ts';

/** A condition as the controllers set it; times are added when it is written. */
export type ConditionState = Pick<Condition, 'type' | 'status'> & Partial<Pick<Condition, 'reason' | 'message'>>;

export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  // CRDs let anything stand there, and one bad object must not take the others along.
  return Array.isArray(conditions) ? conditions.find((condition) => condition?.type === type) : undefined;
}

/** The same status, reason and message; absent and empty texts are one. Times do not count. */
export function isSameCondition(left: ConditionState, right: ConditionState): boolean {
  return (
    left.status === right.status &&
    (left.reason ?? '') === (right.reason ?? '') &&
    (left.message ?? '') === (right.message ?? '')
  );
}

/** When a condition came to `status`: the time of the old one where it had that status already. */
export function transitionTime(old: Condition | undefined, status: Condition['status'], now: string): string {
  return old?.status === status ? (old.lastTransitionTime ?? now) : now;
}

/** The list with `state` in it. An equal condition is left as it is, so that nothing is written for it. */
export function withCondition(conditions: readonly Condition[], state: ConditionState, now: string): Condition[] {
  const old = findCondition(conditions, state.type);
  if (old && isSameCondition(old, state)) return [...conditions];
  const changed = { ...state, lastProbeTime: now, lastTransitionTime: transitionTime(old, state.status, now) };
  return old ? conditions.with(conditions.indexOf(old), changed) : [...conditions, changed];
}

export function withoutCondition(conditions: readonly Condition[], type: string): Condition[] {
  return conditions.filter((condition) => condition?.type !== type);
}

/** Of a VMI whose launcher could not change the vCPUs after a migration; ours, upstream has none of this type. */
export const cpuChangeFailed = 'HotVCPUChangeFailed';
