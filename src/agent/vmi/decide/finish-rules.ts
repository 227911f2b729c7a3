import { askAtOnce, isAnsweredJustNow, isFromBeforeStart } from './ask-again.ts';
import type { Facts } from './facts.ts';
import { type Plan, type Rule, rest, wait } from './rule.ts';

/** How long the launcher may take to report that the domain it deleted is gone; then the clean-up goes on without. */
const deleteConfirmMs = 10_000;

/** Shut off or absent as before a start: it may run by now, if a sync was under way when the end was decided. */
const isUnconfirmed = (facts: Facts) =>
  (facts.domainState.kind === 'not-started' || isFromBeforeStart(facts)) && !isAnsweredJustNow(facts);

/** Nothing will run any more: the final phase is written, or there is no VMI. */
const isOver = (facts: Facts) => facts.final || facts.ending === 'vmi-gone';

export const hasStoppedDomain = ({ domainState }: Facts): boolean =>
  domainState.kind === 'stopped' ||
  domainState.kind === 'not-started' ||
  domainState.kind === 'shutoff-unexplained' ||
  domainState.kind === 'migrated';

export function deleteDomain(facts: Facts): Plan {
  return { steps: [{ step: 'deleteDomain', uid: facts.uid }], requeueAfterMs: deleteConfirmMs };
}

export function cleanUp(facts: Facts): Plan {
  return { steps: [{ step: 'cleanUp', uid: facts.uid }] };
}

const isDeleteAwaited = (facts: Facts) =>
  hasStoppedDomain(facts) && facts.sinceDeleteMs !== undefined && facts.sinceDeleteMs < deleteConfirmMs;

/** Before `nothingLeftRule`: its guest has not ended. */
export const movedRule: Rule = {
  name: 'moved-nothing-left',
  why: 'The VMI has moved to another node and nothing of it is left on this one, so there is nothing more to do.',
  when: ({ observation: { vmi } }) => vmi.kind === 'deleted' && vmi.moved !== undefined,
  plan: () => rest,
};

export const nothingLeftRule: Rule = {
  name: 'finished-nothing-left',
  why: 'The guest has ended, nothing of it is left on this node, and there is nothing more to do.',
  when: (facts) => isOver(facts) && (facts.uid === '' || facts.observation.memory.ending.cleaned),
  plan: () => rest,
};

/**
 * After the end, in the classic order: the phase is written (it was, or there is no VMI), then the domain is deleted, then
 * everything else of that UID goes. Upstream deletes first, and a lost write turns Succeeded into Failed.
 */
export const finishRules: readonly Rule[] = [
  {
    name: 'finished-delete-awaited',
    why: 'The guest has ended; its launcher was told to delete the domain and has not confirmed it yet.',
    when: (facts) => isOver(facts) && isDeleteAwaited(facts),
    plan: (facts) => wait(deleteConfirmMs - (facts.sinceDeleteMs ?? 0)),
  },
  {
    name: 'finished-domain-unconfirmed',
    why: 'The VMI is over while its guest was being started; the launcher is asked whether it runs by now.',
    when: (facts) => isOver(facts) && facts.sinceDeleteMs === undefined && isUnconfirmed(facts),
    plan: askAtOnce,
  },
  {
    name: 'finished-domain-stopped',
    why: 'The guest has ended and its final phase is written, so its launcher is told to delete the stopped domain.',
    when: (facts) => isOver(facts) && hasStoppedDomain(facts) && facts.sinceDeleteMs === undefined,
    plan: deleteDomain,
  },
  {
    name: 'finished-clean-up',
    why: 'The guest has ended, so everything this agent keeps for it on the node is taken away.',
    when: isOver,
    plan: cleanUp,
  },
];

/** A VMI deleted before its guest ever ran: its phase stays, its pods are the controller's. */
export const neverRanRules: readonly Rule[] = [
  {
    name: 'deleted-nothing-left',
    why: "The VMI was deleted before its guest ran and nothing of it is left here; removing the object is the controller's part.",
    when: (facts) => facts.deleting && facts.phase !== 'Running' && facts.observation.memory.ending.cleaned,
    plan: () => rest,
  },
  {
    name: 'deleted-before-start-unconfirmed',
    why: 'The VMI was deleted while its guest was being started; the launcher is asked whether it runs by now.',
    when: (facts) => facts.deleting && facts.sinceDeleteMs === undefined && isUnconfirmed(facts),
    plan: askAtOnce,
  },
  {
    name: 'deleted-before-start',
    why: 'The VMI was deleted before its guest was started, so the domain that is only defined is deleted.',
    when: (facts) => facts.deleting && facts.domainState.kind === 'not-started' && facts.sinceDeleteMs === undefined,
    plan: deleteDomain,
  },
  {
    name: 'deleted-before-start-awaited',
    why: 'The VMI was deleted before its guest was started; the launcher has not confirmed yet that the domain is gone.',
    when: (facts) => facts.deleting && facts.domainState.kind === 'not-started' && isDeleteAwaited(facts),
    plan: (facts) => wait(deleteConfirmMs - (facts.sinceDeleteMs ?? 0)),
  },
  {
    name: 'deleted-without-domain',
    why: 'The VMI is being deleted and has no domain here, so what this agent keeps for it is taken away.',
    when: ({ deleting, phase, domainState }) =>
      deleting && phase !== 'Running' && ['gone', 'absent', 'not-started'].includes(domainState.kind),
    plan: cleanUp,
  },
];
