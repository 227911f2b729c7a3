import { memberAt } from '../../../base/index.ts';
import { describeProblems, startTriesOf, syncedOf, withStartTries } from '../observe/index.ts';
import type { Facts } from './facts.ts';
import { isPlugging } from './hot-plug.ts';
import { hotPlugRules, startVolumesRule } from './hot-plug-rules.ts';
import { placementRule, placementWork } from './placement-rules.ts';
import { type Plan, type Rule, rest, wait } from './rule.ts';
import { arePlugged, missingInterfaces, sriovRule, sriovWork } from './sriov-rules.ts';
import { isPausedForNow, isSeenSinceSync, isWaitingForStart, needsSync, sinceSyncMs } from './sync-state.ts';
import { besides, oneMore, pauseLeftMs } from './tries.ts';

/** A start that left no trace of a domain is tried again after this. */
const startAgainMs = 10_000;
/** The launcher's own event comes first as a rule; after this it is asked. */
const startUnseenMs = 1_000;

/** Between tries of a start that fails: a domain that is defined and undefined again wakes the key each time. */
const startBackoff = { baseMs: 250, maxMs: 30_000 };

const ioRetryFirstMs = 10_000;
const ioRetryMaxMs = 180_000;
const ioRetryForgetMs = 30_000;

const startPauseLeftMs = (facts: Facts) => pauseLeftMs(startTriesOf(facts.observation.memory), startBackoff, facts);

function start(facts: Facts): Plan {
  const { uid, observation } = facts;
  const { syncFingerprint: fingerprint, memory } = observation;
  const startTries = oneMore(startTriesOf(memory), facts);
  return {
    steps: [
      { step: 'ensureLauncherConnection', uid },
      { step: 'prepareHost', uid },
      { step: 'syncVirtualMachine', uid, fingerprint, firstStart: true },
    ],
    requeueAfterMs: startUnseenMs,
    remember: { sync: withStartTries(memory, startTries) },
  };
}

function resync(facts: Facts): Plan {
  const { uid, observation } = facts;
  const { memory, nowMs } = observation;
  return {
    steps: [
      { step: 'adjustHost', uid },
      { step: 'syncVirtualMachine', uid, fingerprint: observation.syncFingerprint, firstStart: false },
    ],
    ...(isPausedForNow(facts) && { remember: { pause: { pausedSinceMs: memory.pause.pausedSinceMs ?? nowMs } } }),
  };
}

/** No sync has succeeded since this pause was first seen. */
function isPauseUnreported({ observation }: Facts): boolean {
  const { pausedSinceMs } = observation.memory.pause;
  const synced = syncedOf(observation.memory);
  return pausedSinceMs === undefined || synced === undefined || synced.atMs < pausedSinceMs;
}

/** The owner of such a guest brings session and certificate later, by a change of the VMI. */
function isSevSessionMissing({ vmi }: Facts): boolean {
  const sev = vmi?.spec?.domain?.launchSecurity?.sev;
  const isGiven = (name: string) => Boolean(memberAt(sev, name));
  return isGiven('attestation') && !(isGiven('session') && isGiven('dhCert'));
}

const isIoPaused = ({ domainState }: Facts) =>
  domainState.kind === 'alive' &&
  domainState.domain.Status.Status === 'Paused' &&
  domainState.domain.Status.Reason === 'IOError';

function ioLeftMs({ observation }: Facts): number {
  const { ioRetry } = observation.memory.pause;
  return ioRetry ? ioRetry.lastMs + ioRetry.waitMs - observation.nowMs : 0;
}

/** A sync resumes a guest paused by an I/O error; each failure in a row doubles the pause (pkg/virt-handler/vm.go). */
function retryIo(facts: Facts): Plan {
  const { nowMs, memory } = facts.observation;
  const { ioRetry } = memory.pause;
  const inARow = ioRetry !== undefined && nowMs - ioRetry.lastMs < ioRetry.waitMs + ioRetryForgetMs;
  const waitMs = inARow ? Math.min(ioRetryMaxMs, ioRetry.waitMs * 2) : ioRetryFirstMs;
  return { ...resync(facts), requeueAfterMs: waitMs, remember: { pause: { ioRetry: { lastMs: nowMs, waitMs } } } };
}

function reportProblems({ observation }: Facts): Plan {
  return observation.vmi.kind === 'present' ? { steps: [], problem: describeProblems(observation.vmi.problems) } : rest;
}

/** Status or metadata of a wrong type: ending and cleaning up still works, but no phase is computed from it. */
export const unreadableRule: Rule = {
  name: 'vmi-unreadable',
  why: 'Metadata or status of the VMI cannot be read, so nothing is computed from it until that is corrected.',
  when: ({ observation }) =>
    observation.vmi.kind === 'present' && observation.vmi.problems.some(({ part }) => part !== 'spec'),
  plan: reportProblems,
};

/** Of a guest that runs and was given the VMI. */
const afterPlacement: readonly Rule[] = [
  {
    name: 'guest-paused',
    why: 'The guest is paused; its launcher is given the VMI once more, which resumes it unless a user paused it.',
    when: (facts) => facts.phase === 'Running' && isPausedForNow(facts) && isPauseUnreported(facts),
    plan: resync,
  },
  ...hotPlugRules,
  {
    name: 'steady',
    why: 'The guest runs as the VMI asks for; there is nothing to do.',
    when: ({ phase, domainState }) => phase === 'Running' && domainState.kind === 'alive',
    plan: (facts) => {
      const { ending, pause } = facts.observation.memory;
      const isOver = pause.pausedSinceMs !== undefined && !isPausedForNow(facts);
      const remember = {
        ...(ending.finalPhase && { ending: { finalPhase: undefined } }),
        ...(isOver && { pause: { pausedSinceMs: undefined } }),
        ...(arePlugged(facts) && { hostDevices: { plugTries: undefined, plugRefusal: undefined } }),
      };
      return { steps: [], healthy: true, ...(Object.keys(remember).length > 0 && { remember }) };
    },
  },
];

/** Bringing a VMI into its domain. A sync is sent only when what it carries has changed, so once per start. */
export const syncRules: readonly Rule[] = [
  {
    name: 'vmi-malformed',
    why: 'The specification of the VMI cannot be read, so it is not given to the launcher until that is corrected.',
    when: ({ observation }) => observation.vmi.kind === 'present' && observation.vmi.problems.length > 0,
    plan: reportProblems,
  },
  {
    name: 'sev-session-awaited',
    why: 'The guest asks for SEV attestation and its session or its certificate is not there yet: it starts when its owner brings them.',
    when: (facts) => isWaitingForStart(facts) && isSevSessionMissing(facts),
    plan: () => rest,
  },
  {
    name: 'start-backing-off',
    why: 'The last attempt to start the guest failed; the next one waits, longer after each failure.',
    when: (facts) => isWaitingForStart(facts) && startPauseLeftMs(facts) > 0,
    plan: (facts) => wait(startPauseLeftMs(facts)),
  },
  startVolumesRule,
  {
    name: 'start-due',
    why: 'The guest is to run and does not run yet, so its launcher is told to start it.',
    when: (facts) =>
      isWaitingForStart(facts) && (needsSync(facts) || (isSeenSinceSync(facts) && sinceSyncMs(facts) >= startAgainMs)),
    plan: start,
  },
  {
    name: 'start-unseen',
    why: 'The launcher was told to start the guest and no event came, so it is asked how the domain is.',
    when: (facts) => isWaitingForStart(facts) && sinceSyncMs(facts) >= startUnseenMs,
    plan: ({ uid }) => ({ steps: [{ step: 'refreshDomain', uid }], requeueAfterMs: 2_000 }),
  },
  {
    name: 'start-awaited',
    why: 'The launcher was told to start the guest; its first event is awaited.',
    when: isWaitingForStart,
    plan: (facts) => wait(startUnseenMs - sinceSyncMs(facts)),
  },
  {
    name: 'domain-not-yet-running',
    why: 'The domain exists but does not run yet; its next event is awaited.',
    when: ({ phase, domainState }) => domainState.kind === 'alive' && phase !== 'Running',
    plan: ({ uid, observation }) =>
      observation.domain.kind === 'present' && observation.nowMs - observation.domain.seenMs >= startUnseenMs
        ? { steps: [{ step: 'refreshDomain', uid }], requeueAfterMs: 2_000 }
        : wait(startUnseenMs),
  },
  {
    name: 'io-error-pause',
    why: 'The guest is paused by an I/O error; it is resumed again after a pause that grows.',
    when: (facts) => isIoPaused(facts) && ioLeftMs(facts) > 0,
    plan: (facts) => wait(ioLeftMs(facts)),
  },
  {
    name: 'io-error-retry',
    why: 'The guest is paused by an I/O error, so its launcher is told to resume it.',
    when: isIoPaused,
    plan: retryIo,
  },
  {
    name: 'vmi-changed',
    why: 'The VMI has changed since the launcher was last given it, so it is given again.',
    when: (facts) =>
      facts.phase === 'Running' && facts.domainState.kind === 'alive' && facts.domainState.runs && needsSync(facts),
    plan: (facts) => {
      // What follows a sync, and no event of its own.
      const goesOn = isPlugging(facts) || missingInterfaces(facts).length > 0;
      return { ...resync(facts), ...(goesOn && { requeueAfterMs: 0 }) };
    },
  },
  placementRule,
  ...[sriovRule, ...afterPlacement.map((rule) => besides(sriovWork, rule))].map((rule) => besides(placementWork, rule)),
];
