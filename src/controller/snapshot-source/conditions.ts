import { type Condition, withCondition } from '../../api/index.ts';

type Status = Condition['status'];

/** As upstream writes them, with the words in `reason`. */
export interface SaidConditions {
  readonly progressing?: readonly [status: Status, reason: string];
  readonly ready?: readonly [status: Status, reason: string];
  readonly failure?: string | undefined;
}

export function withSaid(
  conditions: readonly Condition[] | undefined,
  { progressing, ready, failure }: SaidConditions,
  time: string,
): Condition[] {
  const states = [
    ...(progressing ? [{ type: 'Progressing', status: progressing[0], reason: progressing[1] }] : []),
    ...(ready ? [{ type: 'Ready', status: ready[0], reason: ready[1] }] : []),
    ...(failure === undefined ? [] : [{ type: 'Failure', status: 'True' as const, reason: failure }]),
  ];
  const known = Array.isArray(conditions) ? conditions : [];
  return states.reduce((all, state) => withCondition(all, state, time), known);
}
