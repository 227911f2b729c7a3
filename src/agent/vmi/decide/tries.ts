import { type BackoffOptions, backoffDelayMs } from '../../../base/index.ts';
import type { Tries } from '../observe/index.ts';
import type { Facts } from './facts.ts';

/** Tries of what fails, with pauses of their own: the queue's back-off ends with each event and each reconcile that succeeds. */

/** For exactly what the VMI asks for now: a changed one begins anew. */
function ofThis(tries: Tries | undefined, { observation }: Facts): Tries | undefined {
  return tries?.fingerprint === observation.syncFingerprint ? tries : undefined;
}

export function pauseLeftMs(tries: Tries | undefined, backoff: BackoffOptions, facts: Facts): number {
  const known = ofThis(tries, facts);
  return known ? known.lastMs + backoffDelayMs(known.count, backoff) - facts.observation.nowMs : 0;
}

/** With the one that is made now. */
export function oneMore(tries: Tries | undefined, facts: Facts): Tries {
  const { syncFingerprint: fingerprint, nowMs } = facts.observation;
  return { fingerprint, count: (ofThis(tries, facts)?.count ?? 0) + 1, lastMs: nowMs };
}
