import type { Condition } from '../api/index.ts';

/** A condition as the controllers set it; times are added when it is written. */
export type ConditionState = Pick<Condition, 'type' | 'status'> & Partial<Pick<Condition, 'reason' | 'message'>>;

/** The list with `state` in it. An equal condition is left as it is, so that nothing is written for it. */
export function withCondition(conditions: readonly Condition[], state: ConditionState, now: string): Condition[] {
  const at = conditions.findIndex(({ type }) => type === state.type);
  const old = conditions[at];
  if (!old) return [...conditions, { ...state, lastProbeTime: now, lastTransitionTime: now }];
  if (old.status === state.status && sameText(old.reason, state.reason) && sameText(old.message, state.message)) {
    return [...conditions];
  }
  const changed: Condition = {
    ...state,
    lastProbeTime: now,
    lastTransitionTime: old.status === state.status ? (old.lastTransitionTime ?? now) : now,
  };
  return conditions.with(at, changed);
}

export function withoutCondition(conditions: readonly Condition[], type: string): Condition[] {
  return conditions.filter((condition) => condition.type !== type);
}

function sameText(a: string | undefined, b: string | undefined): boolean {
  return (a ?? '') === (b ?? '');
}
