import { startTriesOf, syncedOf } from '../observe/index.ts';
import type { Facts } from './facts.ts';
import type { Plan } from './rule.ts';

/** When no answer wakes the key before. */
const answerMs = 1_000;

/** An answer by which a guest may be ended is no older: a question has 5 s (GetDomain). */
const justNowMs = 6_000;

/** What would end a VMI and may be a mistake is asked for once more. */
export function askAgain({ uid, observation }: Facts): Plan {
  return {
    steps: [{ step: 'refreshDomain', uid }],
    requeueAfterMs: answerMs,
    remember: { doubts: { askedAgainMs: observation.nowMs } },
  };
}

/**
 * As `askAgain`, and decided in the same breath as the answer comes: a second later another agent of this node (one that is
 * being replaced and does not end) may have started the guest, and its events go to that one.
 */
export function askAtOnce(facts: Facts): Plan {
  const { askedAgainMs } = facts.observation.memory.doubts;
  const isRepeated = askedAgainMs !== undefined && facts.observation.nowMs - askedAgainMs < answerMs;
  return { ...askAgain(facts), requeueAfterMs: isRepeated ? answerMs : 0 };
}

/**
 * What is seen is the launcher's answer to that question. An event is no answer: it may be older than it looks. Nor is an
 * answer from before the last sync, which may have started the guest.
 */
export function isAnsweredAgain({ observation }: Facts): boolean {
  const { domain, memory } = observation;
  const askedMs = domain.kind === 'present' || domain.kind === 'gone' ? domain.askedMs : undefined;
  if (askedMs === undefined || memory.doubts.askedAgainMs === undefined) return false;
  return askedMs >= Math.max(memory.doubts.askedAgainMs, orderedToStartMs(observation));
}

/** The same, and not about an earlier question either. */
export function isAnsweredJustNow(facts: Facts): boolean {
  const { domain, nowMs } = facts.observation;
  const askedMs = domain.kind === 'present' || domain.kind === 'gone' ? (domain.askedMs ?? 0) : 0;
  return isAnsweredAgain(facts) && nowMs - askedMs < justNowMs;
}

/** "No domain" as it was before the launcher was ordered to start the guest: it may run by now. */
export function isFromBeforeStart({ observation }: Facts): boolean {
  const { domain, memory } = observation;
  if (domain.kind !== 'gone' || domain.proof !== 'launcher-says-none') return false;
  return domain.seenMs <= Math.max(orderedToStartMs(observation), syncedOf(memory)?.endedMs ?? 0);
}

/** When the launcher was last ordered to run the guest, with or without success; 0: never. */
function orderedToStartMs({ memory }: Facts['observation']): number {
  return Math.max(syncedOf(memory)?.atMs ?? 0, startTriesOf(memory)?.lastMs ?? 0);
}
