import type { Facts } from '../facts.ts';
import { type Plan, type Rule, rest, wait } from '../rule.ts';
import { endOf } from './decentralised.ts';
import { failedMigration } from './failed-migration.ts';
import { firstTryMs, rememberMigration, type SourceView, sourceView } from './source-view.ts';

/**
 * How long the target node may stay silent after the source has sent its guest. Upstream waits without end for a migration
 * within one cluster. A phase Failed ends the guest wherever it arrived, so an agent that is being updated
 * on the target node, image pull and all, gets its time.
 */
const silentLimitMs = 600_000;
/** The guest of a VMI that is deleted is not needed: it is waited for so that it ends in peace, and not the user. */
const deletedLimitMs = 180_000;
/** The user gets a report after this, at the latest at half time. */
const reportAfterMs = 90_000;
/** A guest that ended unseen, and of which only little says that it may have left: the target reports one within seconds. */
const doubtLimitMs = 30_000;
/** What the source showed last of a guest that ran at the target while its memory was still here. */
const halfWay = new Set(['Postcopy', 'PostcopyFailed']);
/** A domain that has lost its reason may find it again. */
const askAgainMs = 10_000;

/** The guest has left, or may have, and the API server does not say yet where it is; also while the VMI is being deleted. */
function handedOver(facts: Facts): SourceView | undefined {
  const view = facts.final ? undefined : sourceView(facts);
  if (!view || hasLeft(facts)) return view;
  if (!isLostOnTheWay(facts, view)) return undefined;
  // What is left of the doubt then is for the rules of any guest that ended.
  return isDoubtful(facts, view) && waitOf(facts, view).leftMs <= 0 ? undefined : view;
}

/** By the last word of its domain, also when its launcher has ended since. */
function hasLeft({ domainState, observation: { domain } }: Facts): boolean {
  if (domainState.kind === 'migrated') return true;
  return domainState.kind === 'gone' && domain.kind === 'gone' && domain.lastDomain?.Status.Reason === 'Migrated';
}

/**
 * It ended in the middle of the migration and it is not known how: in the last moments of it, and in post-copy, the guest may
 * live on the target node. An order that the launcher got may have no answer: it was tried.
 */
function isLostOnTheWay({ domainState }: Facts, view: SourceView): boolean {
  const isLost =
    domainState.kind === 'shutoff-unexplained' ||
    (domainState.kind === 'gone' && domainState.finalPhase.guessed === true);
  return isLost && (view.begun || firstTryMs(view) !== undefined || isSeenOnTarget(view));
}

/**
 * Its launcher ended in post-copy, and the target says that memory is missing there, which nobody can bring any more. The target's
 * word may be older than a resume: it has its time to say that the guest has arrived.
 */
function isHalved({ observation: { domain } }: Facts, { state }: SourceView): boolean {
  const lastReason = domain.kind === 'gone' && domain.proof === 'launcher-dead' && domain.lastDomain?.Status.Reason;
  return Boolean(lastReason && halfWay.has(lastReason) && state.mode === 'PostCopy' && state.failureReason);
}

const isSeenOnTarget = ({ state }: SourceView) =>
  state.targetNodeDomainDetected === true || Boolean(state.targetNodeDomainReadyTimestamp);

/** A VMI that is deleted ends its guest: an end on the way is likely the one that was asked for. */
const isDoubtful = (facts: Facts, view: SourceView) =>
  !hasLeft(facts) && !isSeenOnTarget(view) && (facts.deleting || !view.begun);

/** While this node cannot write, the target node can hardly do so: its time begins when the API server is back. */
function waitOf(facts: Facts, view: SourceView) {
  const { observation } = facts;
  const { nowMs } = observation;
  const { memory } = view;
  const limitMs = limitOf(facts, view);
  const sinceMs = Math.max(memory.overSeenMs ?? nowMs, observation.memory.writes.writeFailedMs ?? 0);
  const forMs = nowMs - sinceMs;
  return { leftMs: limitMs - forMs, reportInMs: Math.min(limitMs / 2, reportAfterMs) - forMs };
}

function limitOf(facts: Facts, view: SourceView): number {
  if (isElsewhere(facts)) return Number.POSITIVE_INFINITY;
  if (isDoubtful(facts, view) || isHalved(facts, view)) return doubtLimitMs;
  return facts.deleting && !isSeenOnTarget(view) ? deletedLimitMs : silentLimitMs;
}

/** It lives as another VMI's: with a phase Failed here a VM would start it a second time. */
const isElsewhere = (facts: Facts) => endOf(facts) === 'source' && hasLeft(facts) && !facts.deleting;

const halvedReason =
  'the launcher on the source node ended in post-copy, and with it the memory that the guest on the target waits for';

const whereToLook = 'Look at virt-handler and the launcher pod on the target node';

function giveUp(facts: Facts): Plan {
  const view = handedOver(facts);
  if (view && isHalved(facts, view)) {
    const patch = failedMigration(facts, { reason: halvedReason });
    const problem = `${halvedReason}. Look at the launcher pod on the source node, then start the VM again.`;
    return { steps: [], phase: 'Failed', patch, problem, requeueAfterMs: 0 };
  }
  const reason =
    "The VirtualMachineInstance's domain was never observed on the target after the migration completed within the " +
    'timeout period.';
  const problem = `${reason} ${whereToLook}, then start the VM again.`;
  return { steps: [], phase: 'Failed', patch: failedMigration(facts, { reason }), problem, requeueAfterMs: 0 };
}

/** Reported in the middle: also a write that shows whether the API server can be reached at all. */
function awaitHandOver(facts: Facts, view: SourceView): Plan {
  const { leftMs, reportInMs } = waitOf(facts, view);
  const overSeenMs = view.memory.overSeenMs ?? facts.observation.nowMs;
  const outcome = isElsewhere(facts)
    ? 'it is in another namespace or cluster, whose word is awaited for as long as that takes. Look at virt-synchronization-controller of both sides; when the guest runs there, delete this VirtualMachineInstance'
    : `the VirtualMachineInstance fails if that does not come. ${whereToLook}`;
  const problem = `the guest was sent to node ${view.state.targetNode ?? ''}, which has not told yet that it runs there; ${outcome}.`;
  const restMs = Math.min(reportInMs > 0 ? reportInMs : leftMs, silentLimitMs);
  const { domainState, uid } = facts;
  return {
    ...(domainState.kind === 'shutoff-unexplained'
      ? { steps: [{ step: 'refreshDomain', uid }], requeueAfterMs: Math.min(restMs, askAgainMs) }
      : wait(restMs)),
    remember: rememberMigration(view, { overSeenMs }),
    ...(reportInMs <= 0 && { problem }),
  };
}

/** Nothing of the source is touched before the hand-over is visible: its domain is all that proves where the guest went. */
export const handOverRules: readonly Rule[] = [
  {
    name: 'hand-over-never-came',
    why: 'The guest was sent away and the target node never reported it, or waits for memory that is lost, so the VMI has failed.',
    when: (facts) => {
      const view = handedOver(facts);
      return view !== undefined && waitOf(facts, view).leftMs <= 0;
    },
    plan: giveUp,
  },
  {
    name: 'hand-over-awaited',
    why: 'The guest has left, or its launcher ended on the way; the word of the target node that it runs there is awaited.',
    when: (facts) => handedOver(facts) !== undefined,
    plan: (facts) => {
      const view = handedOver(facts);
      return view ? awaitHandOver(facts, view) : rest;
    },
  },
];
