import { hasDedicatedCpus } from '../../../api/index.ts';
import type { Facts } from './facts.ts';
import type { Plan, Rule } from './rule.ts';
import { isPausedForNow, needsSync } from './sync-state.ts';
import { type OpenWork, oneMore, pauseLeftMs } from './tries.ts';

/** Between tries to place threads that cannot be placed: the guest runs on, so there is no haste. */
const placementBackoff = { baseMs: 1_000, maxMs: 120_000 };
/** Another part of the same step may fail: the other rules wait no longer for it. */
const placementLatestMs = 1_000;

/** Its CPUs are its own, or its vCPUs come first: its threads are put in place after each sync, by what its domain then is. */
function isUnplaced(facts: Facts): boolean {
  const { phase, domainState, vmi, observation } = facts;
  if (phase !== 'Running' || domainState.kind !== 'alive' || needsSync(facts)) return false;
  if (!domainState.runs && !isPausedForNow(facts)) return false;
  const isWanted = hasDedicatedCpus(vmi) || Boolean(vmi?.spec?.domain?.cpu?.realtime);
  return isWanted && observation.hostFacts.limits?.isPlaced === false;
}

const triesOf = ({ observation }: Facts) => observation.memory.placement.placementTries;

const placementPauseLeftMs = (facts: Facts) => pauseLeftMs(triesOf(facts), placementBackoff, facts);

function place(facts: Facts): Plan {
  return {
    steps: [{ step: 'settleHost', uid: facts.uid }],
    requeueAfterMs: 0,
    latestMs: placementLatestMs,
    remember: { placement: { placementTries: oneMore(triesOf(facts), facts) } },
  };
}

export const placementRule: Rule = {
  name: 'placement-due',
  why: 'The guest has CPUs of its own or runs in real time, so its threads are put where they belong.',
  when: (facts) => isUnplaced(facts) && placementPauseLeftMs(facts) <= 0,
  plan: place,
};

/**
 * As upstream resumes such a guest and plugs its volumes (pkg/virt-handler/vm.go, `vmUpdateHelperDefault`).
 */
export const placementWork: OpenWork = {
  isOpen: isUnplaced,
  pauseLeftMs: placementPauseLeftMs,
  problem: unplacedProblem,
};

function unplacedProblem({ observation }: Facts): string {
  const { hostFacts, memory } = observation;
  const why = hostFacts.limits?.unplaced ?? memory.placement.unplaced ?? 'the last try did not come to its end';
  return `threads of the guest are not on the CPUs or of the priority that it asks for: ${why}. It is tried again by itself.`;
}
