import type { KubeObject } from '../api/index.ts';
import { errorMessage } from '../base/index.ts';
import { type EventRecorder, isKubeError } from '../kube/index.ts';
import { longerPause, type ObjectEvent, type Observed } from '../reconcile/index.ts';

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

/** Nothing is done about an object of which that is said, and the API server is asked again. */
export function unclearPlan(seen: Observed) {
  return { steps: [], requeueAfterMs: longerPause(seen, 'api-without-answer', unclearPauses) } as const;
}

/** Made when it is asked for, and then kept. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
