import type { Facts } from './facts.ts';
import type { Plan } from './rule.ts';

/** When no answer wakes the key before. */
const answerMs = 1_000;

/** What would end a VMI and may be a mistake is asked for once more. */
export function askAgain({ uid, observation }: Facts): Plan {
  return {
    steps: [{ step: 'refreshDomain', uid }],
    requeueAfterMs: answerMs,
    remember: { askedAgainMs: observation.nowMs },
  };
}

/**
 * What is seen is the launcher's answer to that question. An event is no answer: it may be older than it looks. Nor is an
 * answer from before the last sync, which may have started the guest.
 */
export function isAnsweredAgain({ observation }: Facts): boolean {
  const { domain, memory } = observation;
  const askedMs = domain.kind === 'present' || domain.kind === 'gone' ? domain.askedMs : undefined;
  if (askedMs === undefined || memory.askedAgainMs === undefined) return false;
  return askedMs >= Math.max(memory.askedAgainMs, memory.synced?.atMs ?? 0);
}
