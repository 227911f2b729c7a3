import { type Key, type KubeObject, keyOf } from '../api/index.ts';
import { errorMessage } from '../base/index.ts';
import { type EventRecorder, isKubeError } from '../kube/index.ts';
import {
  type LastRule,
  longerPause,
  type ObjectEvent,
  type Observed,
  type Rule,
  type RuleTable,
  ruleTable,
} from '../reconcile/index.ts';

/** Upstream's pauses begin at 5 ms, too, and double (client-go's default rate limiter); a minute is the longest here. */
export const controllerBackoff = {
  backoff: { baseMs: 5, maxMs: 60_000 },
  /** By then the pauses are as long as they get. */
  crashLoopFailures: 15,
} as const;

/** A step is a few requests; the client has a time limit for each. */
export const stepDeadlineMs = 120_000;

/** An own write that no watch has shown after this time is given up. */
export const ownWriteEchoMs = 10_000;

export function recordEventOn(
  events: Pick<EventRecorder, 'record'>,
  object: KubeObject | undefined,
  { type, reason, message }: ObjectEvent,
): boolean {
  if (object) events.record(object, type, reason, message);
  return object !== undefined;
}

/** Between two tries to ask an API server that does not answer. */
export const unclearPauses = { firstMs: 1_000, longestMs: 60_000 };

/** What is said of an object where the API server did not answer what a decision depends on. */
interface Unclear {
  readonly kind: 'unclear';
  readonly reason: string;
}

/** What is read, or else `unclear`, with what is known of the object. */
export async function orUnclear<T, B extends object>(
  known: B,
  read: () => Promise<T>,
  signal: AbortSignal,
): Promise<T | (B & Unclear)> {
  try {
    return await read();
  } catch (error) {
    if (signal.aborted || !isKubeError(error)) throw error;
    return { kind: 'unclear', ...known, reason: errorMessage(error) };
  }
}

/** What a controller calls its objects, and what it makes of a plan in which nothing is done. */
interface Nothing<Plan> {
  /** In words. */
  readonly object: string;
  readonly plan: (nothing: { readonly steps: readonly []; readonly requeueAfterMs?: number }) => Plan;
}

/** The last rule about objects of which there is none any more; `rules` come before it. */
export function goneTable<Seen, Plan>(
  { object, plan }: Nothing<Plan>,
  rules: readonly Rule<Seen, Plan>[] = [],
): RuleTable<Seen, Plan> {
  return ruleTable(rules, goneRule(object, plan));
}

/** The same, and of an object of which the API server did not say enough: it is asked again. `asked`: what it did not say, in words. */
export function goneOrUnclearTable<Seen extends Observed & { readonly kind: string }, Plan>(
  { object, plan, asked }: Nothing<Plan> & { readonly asked: string },
  rules: readonly Rule<Seen, Plan>[] = [],
): RuleTable<Seen, Plan> {
  const gone = { ...goneRule(object, plan), when: ({ kind }: Seen) => kind === 'absent' };
  return ruleTable<Seen, Plan>([...rules, gone], {
    name: 'api-without-answer',
    why: `The API server did not say ${asked}: it is asked again.`,
    plan: (seen) => plan({ steps: [], requeueAfterMs: longerPause(seen, 'api-without-answer', unclearPauses) }),
  });
}

function goneRule<Plan>(object: string, plan: Nothing<Plan>['plan']): LastRule<unknown, Plan> {
  return { name: 'gone', why: `There is no ${object} of this name.`, plan: () => plan({ steps: [] }) };
}

/** What came while nobody worked is among the newest: it waits for somebody. */
export function newestFirst(objects: readonly KubeObject[]): Key[] {
  const madeAt = ({ metadata }: KubeObject) => Date.parse(metadata.creationTimestamp ?? '') || 0;
  return objects.toSorted((left, right) => madeAt(right) - madeAt(left)).map(keyOf);
}

/** Made when it is asked for, and then kept. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
