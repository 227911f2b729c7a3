import type { Observation } from '../observe/index.ts';
import type { Facts } from './facts.ts';
import { type Plan, type Rule, wait } from './rule.ts';

/** Fallback when nothing wakes the key; a launcher that answers again does it by an event. */
const unknownRetryMs = 10_000;
const predecessorRetryMs = 5_000;
/** From here on the problem is reported to the user. */
const reportAfterMs = 15_000;

/** A VMI that is missing is looked for again after this, before its guest is ended. */
const missingAgainMs = 2_000;
/** An older first sight of its absence is another story: it was there meanwhile. */
const missingStaleMs = 30_000;

const isNotStarted = ({ phase, final, observation }: Facts) =>
  phase !== 'Running' && !final && observation.domain.kind !== 'present';

function isPredecessorDead({ observation }: Facts): boolean {
  const { predecessor } = observation;
  if (!predecessor) return false;
  const { domain, launcher } = predecessor;
  if (launcher.kind === 'dead' || domain.kind === 'gone') return true;
  return domain.kind === 'present' && ['Shutoff', 'Crashed'].includes(domain.domain.Status.Status);
}

/** Milliseconds since the VMI was first missed; 0 when that is now. */
function missingForMs({ memory, nowMs }: Observation): number {
  const { missingSinceMs } = memory.doubts;
  if (missingSinceMs === undefined || nowMs - missingSinceMs > missingStaleMs) return 0;
  return nowMs - missingSinceMs;
}

/** What has begun goes on: its own proof was enough. */
const hasBegunToEnd = ({ memory }: Observation) =>
  memory.ending.shutdown !== undefined ||
  memory.ending.killedMs !== undefined ||
  memory.ending.deletedMs !== undefined ||
  memory.ending.cleaned;

function blockedSinceMs({ memory, nowMs }: Observation): number {
  const { blocked } = memory.doubts;
  return blocked && nowMs - blocked.lastMs <= 3 * predecessorRetryMs ? blocked.sinceMs : nowMs;
}

function waitForPredecessor({ observation }: Facts): Plan {
  const { nowMs, predecessor } = observation;
  const sinceMs = blockedSinceMs(observation);
  const problem =
    `an older VirtualMachineInstance of this name (UID ${predecessor?.uid}) still has a guest or a launcher on this node; ` +
    'this one starts when that has ended. If it does not end, delete its pod: ' +
    `kubectl get pods -l kubevirt.io/created-by=${predecessor?.uid}`;
  return {
    ...wait(predecessorRetryMs),
    remember: { doubts: { blocked: { sinceMs, lastMs: nowMs } } },
    ...(nowMs - sinceMs >= reportAfterMs && { problem }),
  };
}

export const predecessorDeadRule: Rule = {
  name: 'predecessor-dead',
  why: 'An older VMI of the same name left traces of a dead guest here, which are taken away first.',
  when: isPredecessorDead,
  plan: ({ observation }) => ({
    steps: [{ step: 'cleanUp', uid: observation.predecessor?.uid ?? '' }],
    requeueAfterMs: 0,
  }),
};

/** Whatever the VMI is, nothing is done about it while its domain is unknown. */
export const lookRules: readonly Rule[] = [
  {
    name: 'vmi-missing',
    why: 'The API server says that this VMI is no more; it is asked once more before anything of its guest is ended.',
    when: ({ ending, uid, observation }) =>
      ending === 'vmi-gone' && uid !== '' && !hasBegunToEnd(observation) && missingForMs(observation) < missingAgainMs,
    plan: ({ observation }) => ({
      ...wait(missingAgainMs - missingForMs(observation)),
      remember: { doubts: { missingSinceMs: observation.nowMs - missingForMs(observation) } },
    }),
  },
  predecessorDeadRule,
  {
    name: 'predecessor-in-the-way',
    why: 'An older VMI of the same name still has a guest here; this one waits until that guest has ended.',
    when: (facts) => facts.observation.predecessor !== undefined && facts.vmi !== undefined && isNotStarted(facts),
    plan: waitForPredecessor,
  },
  {
    name: 'domain-unknown',
    why: 'Nobody can say at the moment how the guest is, so it is asked for again and nothing is done with it.',
    when: ({ domainState }) => domainState.kind === 'unknown',
    plan: ({ uid, observation }) => {
      const problem = unknownForLong(observation);
      return {
        steps: [{ step: 'refreshDomain', uid }],
        requeueAfterMs: unknownRetryMs,
        ...(problem !== undefined && { problem }),
      };
    },
  },
];

/** A short silence (a busy launcher, a libvirt daemon that is started again) is not reported. */
function unknownForLong({ domain, nowMs }: Observation): string | undefined {
  if (domain.kind !== 'unknown' || nowMs - domain.sinceMs < reportAfterMs) return undefined;
  return (
    `the launcher cannot tell how the guest is (${domain.reason}), and nothing is done with the guest until it can. It is ` +
    'asked again by itself; if this stays, look at the log of its launcher pod, and at libvirt and the load of the node'
  );
}

/** Nothing is decided about a VMI before its own launcher was asked once in the life of this process. */
export const probeRules: readonly Rule[] = [
  {
    name: 'launcher-not-probed',
    why: 'The launcher of this VMI has not been asked since this agent started, so that comes before any decision.',
    when: ({ domainState, observation }) =>
      domainState.kind === 'absent' && observation.launcher.kind === 'ready' && !observation.memory.ending.cleaned,
    plan: ({ uid }) => ({ steps: [{ step: 'ensureLauncherConnection', uid }], requeueAfterMs: 0 }),
  },
  {
    name: 'launcher-unclear',
    why: 'This agent cannot tell which launcher belongs to the VMI or whether it lives, so it looks again and does nothing.',
    when: ({ domainState, observation, final }) =>
      domainState.kind === 'absent' &&
      observation.launcher.kind === 'unclear' &&
      !observation.memory.ending.cleaned &&
      !final,
    plan: ({ observation }) => ({
      ...wait(predecessorRetryMs),
      problem: observation.launcher.kind === 'unclear' ? observation.launcher.reason : '',
    }),
  },
];
