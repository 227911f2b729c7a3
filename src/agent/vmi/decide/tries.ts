import { type BackoffOptions, backoffDelayMs } from '../../../base/index.ts';
import type { Tries } from '../observe/index.ts';
import type { Facts } from './facts.ts';
import type { Plan, Rule } from './rule.ts';

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

/** What is tried again by itself while the guest runs on without it. */
export interface OpenWork {
  isOpen(facts: Facts): boolean;
  /** Until the next try; infinite: there is none. */
  pauseLeftMs(facts: Facts): number;
  /** The same at each try: it is reported once. Undefined: it may still come in time. */
  problem(facts: Facts): string | undefined;
}

/** A rule that goes on while such work is open, and reports it with whatever else is decided. */
export function besides(work: OpenWork, rule: Rule): Rule {
  return {
    ...rule,
    plan: (facts) => (work.isOpen(facts) ? withOpen(work, facts, rule.plan(facts)) : rule.plan(facts)),
  };
}

function withOpen(work: OpenWork, facts: Facts, { healthy, problem, requeueAfterMs, ...plan }: Plan): Plan {
  const texts = [problem, work.problem(facts)].filter((text) => text !== undefined);
  const againMs = Math.min(requeueAfterMs ?? Number.POSITIVE_INFINITY, work.pauseLeftMs(facts));
  return {
    ...plan,
    ...(Number.isFinite(againMs) && { requeueAfterMs: againMs }),
    ...(texts.length > 0 && { problem: texts.join('; ') }),
    ...(texts.length === 0 && healthy !== undefined && { healthy }),
  };
}
