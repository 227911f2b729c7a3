import type { KubeObject } from '../api/index.ts';
import type { EventRecorder } from '../kube/index.ts';
import type { ObjectEvent } from '../reconcile/index.ts';

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

/** Made when it is asked for, and then kept. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
