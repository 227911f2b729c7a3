import type { Facts } from '../facts.ts';
import { heldUpByMigration } from '../hot-plug.ts';
import { type Plan, type Rule, rest, wait } from '../rule.ts';
import { giveUp, planLeaving, type SourceTest, whenLeaving } from './source-rule.ts';
import { rememberMigration, type SourceView } from './source-view.ts';

/** An abort that failed may be asked for again, but not in a hot loop. */
const abortPeriodMs = 5_000;
/** The launcher's event about the migration that was ordered comes within this; then it is asked. */
const unheardAskMs = 1_000;
const unheardRetryMs = 10_000;
/** A launcher that was asked several times and knows of nothing has lost it, with its memory. */
const unheardLimitMs = 60_000;

/** A guest that runs here so long after its launcher called it sent has not left; one that stands still may be about to. */
const deniedLimitMs = { runs: 60_000, stands: 300_000 };

const isUnheard: SourceTest = (_facts, { begun, reported }) => begun && reported === undefined;

const sentMs = ({ order }: SourceView['memory']) => (order.kind === 'sent' ? order.sentMs : undefined);

function unheardMs({ observation }: Facts, { memory }: SourceView): number {
  return observation.nowMs - (memory.unheardSinceMs ?? sentMs(memory) ?? observation.nowMs);
}

/** The launcher was asked meanwhile. At times it reports a domain without content: that is no answer. */
function hasAnswered({ observation }: Facts, { memory }: SourceView): boolean {
  const { domain } = observation;
  if (domain.kind !== 'present' || !domain.domain.Spec?.Metadata?.KubeVirt?.UID) return false;
  return memory.unheardSinceMs !== undefined && domain.seenMs > memory.unheardSinceMs;
}

function listen(facts: Facts, view: SourceView): Plan {
  const { observation } = facts;
  const sinceMs = unheardMs(facts, view);
  const remember = rememberMigration(view, { unheardSinceMs: observation.nowMs - sinceMs });
  const answeredMs = answerAgeMs(facts);
  const hasAsked = answeredMs < sinceMs;
  const pauseMs = hasAsked ? unheardRetryMs - answeredMs : unheardAskMs - sinceMs;
  return { ...(pauseMs > 0 ? wait(pauseMs) : askAgain(facts)), remember };
}

/** Each answer wakes the key: without a pause of its own a question would follow at once. */
function askAgain({ uid }: Facts): Plan {
  return { steps: [{ step: 'refreshDomain', uid }], requeueAfterMs: unheardRetryMs };
}

function answerAgeMs({ observation }: Facts): number {
  const { domain, nowMs } = observation;
  return domain.kind === 'present' ? nowMs - domain.seenMs : Number.POSITIVE_INFINITY;
}

function heardAgain(view: SourceView): NonNullable<Plan['remember']> {
  return rememberMigration(view, { unheardSinceMs: undefined });
}

/**
 * Also against what is written down: an abort that is under way or done is not asked for again
 * (pkg/virt-handler/migration-source.go).
 */
const wantsAbort: SourceTest = (_facts, { state, reported, running }) => {
  const settled: readonly unknown[] = ['Aborting', 'Succeeded'];
  const isSettled = settled.includes(reported?.AbortStatus) || settled.includes(state.abortStatus);
  return state.abortRequested === true && running && reported?.Mode !== 'PostCopy' && !isSettled;
};

function sinceCancelMs({ observation }: Facts, { memory }: SourceView): number {
  return memory.cancelledMs === undefined ? Number.POSITIVE_INFINITY : observation.nowMs - memory.cancelledMs;
}

const isOver: SourceTest = (_facts, { reported }) => Boolean(reported?.EndTimestamp);

/** By an answer of that time, and not by an old one. */
const isDenied: SourceTest = ({ domainState, observation }, { memory }) => {
  const { domain } = observation;
  if (domainState.kind !== 'alive' || domain.kind !== 'present' || memory.overSeenMs === undefined) return false;
  const { Status, Reason } = domainState.domain.Status;
  const stands = Status === 'Paused' && Reason !== 'User';
  return domain.seenMs - memory.overSeenMs >= (stands ? deniedLimitMs.stands : deniedLimitMs.runs);
};

/** A migration that the launcher has an order for. */
export const sourceRunningRules: readonly Rule[] = [
  {
    name: 'migration-lost',
    why: 'The launcher knows nothing any more of a migration that was begun, so it counts as failed.',
    when: whenLeaving((facts, view) => {
      return isUnheard(facts, view) && unheardMs(facts, view) >= unheardLimitMs && hasAnswered(facts, view);
    }),
    plan: giveUp(() => 'the launcher on the source node knows nothing of the migration it was told to do'),
  },
  {
    name: 'migration-unheard',
    why: 'The launcher was told to migrate the guest and its word about it is awaited, then asked for.',
    when: whenLeaving(isUnheard),
    plan: planLeaving(listen),
  },
  {
    name: 'migration-abort-due',
    why: 'The migration is cancelled: the launcher is told to abort it.',
    when: whenLeaving((facts, view) => wantsAbort(facts, view) && sinceCancelMs(facts, view) >= abortPeriodMs),
    plan: planLeaving(({ uid }, { migrationUid }) => ({
      steps: [{ step: 'cancelMigration', uid, migrationUid }],
      requeueAfterMs: abortPeriodMs,
    })),
  },
  {
    name: 'migration-abort-awaited',
    why: 'The launcher was just told to abort the migration; it gets time before it is told again.',
    when: whenLeaving(wantsAbort),
    plan: planLeaving((facts, view) => wait(abortPeriodMs - sinceCancelMs(facts, view))),
  },
  {
    name: 'migration-running',
    why: 'The guest is being migrated; nothing is changed about it until the launcher tells how it ended.',
    when: whenLeaving((_facts, { running }) => running),
    plan: planLeaving((facts, view) => {
      const problem = heldUpByMigration(facts);
      return {
        ...rest,
        ...(view.memory.unheardSinceMs !== undefined && { remember: heardAgain(view) }),
        ...(problem === undefined ? { healthy: true } : { problem }),
      };
    }),
  },
  {
    name: 'migration-over-denied',
    why: 'The launcher says that the guest has left, and still shows it here after a while: the migration has failed, and the guest goes on here.',
    when: whenLeaving((facts, view) => isOver(facts, view) && isDenied(facts, view)),
    plan: giveUp(() => 'the launcher on the source node says that the guest has left, and its domain is still there', {
      isRefusal: true,
    }),
  },
  {
    name: 'migration-over-unexplained',
    why: 'The launcher says that the migration is done, and yet shows the guest running here; it is asked again.',
    when: whenLeaving(isOver),
    plan: planLeaving((facts, view) => {
      const pauseMs = unheardRetryMs - answerAgeMs(facts);
      const remember = rememberMigration(view, { overSeenMs: view.memory.overSeenMs ?? facts.observation.nowMs });
      return { ...(pauseMs > 0 ? wait(pauseMs) : askAgain(facts)), remember };
    }),
  },
];
