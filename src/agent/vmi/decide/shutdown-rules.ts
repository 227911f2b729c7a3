import type { Facts } from './facts.ts';
import { signalPeriodMs } from './grace.ts';
import { type Plan, type Rule, wait } from './rule.ts';

/** A kill that brought no answer is repeated after this. */
const killPeriodMs = 5_000;

const isAlive = ({ domainState }: Facts) => domainState.kind === 'alive';
const isEnding = (facts: Facts) => facts.ending !== undefined && !facts.final && isAlive(facts);
const leftMs = ({ grace, observation }: Facts) => Math.max(0, grace.deadlineMs - observation.nowMs);
const within = (sinceMs: number | undefined, periodMs: number) => sinceMs !== undefined && sinceMs < periodMs;

function kill(facts: Facts): Plan {
  return { steps: [{ step: 'killDomain', uid: facts.uid }], requeueAfterMs: killPeriodMs, latestMs: killPeriodMs };
}

function signal(facts: Facts): Plan {
  const { observation, grace } = facts;
  const { nowMs, memory } = observation;
  const againMs = Math.max(1, Math.min(signalPeriodMs, leftMs(facts)));
  return {
    steps: [{ step: 'shutdownDomain', uid: facts.uid, graceSeconds: grace.seconds, firstSignal: grace.firstSignal }],
    requeueAfterMs: againMs,
    latestMs: againMs,
    remember: {
      ending: {
        shutdown: {
          firstMs: memory.ending.shutdown?.firstMs ?? nowMs,
          deadlineMs: grace.deadlineMs,
          lastSignalMs: nowMs,
        },
      },
    },
  };
}

/**
 * The end of a domain that still runs (pkg/virt-handler/vm.go). Each wait has a timer of its own: no guest outlives its grace.
 */
export const shutdownRules: readonly Rule[] = [
  {
    name: 'kill-awaited',
    why: 'The guest was stopped by force and the event that says so is awaited.',
    when: (facts) => (isEnding(facts) || (facts.final && isAlive(facts))) && within(facts.sinceKillMs, killPeriodMs),
    plan: (facts) => wait(killPeriodMs - (facts.sinceKillMs ?? 0)),
  },
  {
    name: 'final-domain-alive',
    why: 'The VMI has its final phase but its guest still runs, so the guest is stopped by force.',
    when: (facts) => facts.final && isAlive(facts),
    plan: kill,
  },
  {
    name: 'ending-post-copy-failed',
    why: 'The VMI is to end and its guest cannot be recovered after a failed post-copy migration, so it is stopped by force.',
    when: (facts) => isEnding(facts) && hasFailedPostCopy(facts),
    plan: kill,
  },
  {
    name: 'grace-over',
    why: 'The guest had its whole grace period to shut down and still runs, so it is stopped by force.',
    when: (facts) => isEnding(facts) && leftMs(facts) === 0,
    plan: kill,
  },
  {
    name: 'guest-shutting-down',
    why: 'The guest is shutting down by itself; it has until the end of its grace period.',
    when: (facts) => isEnding(facts) && statusOf(facts) === 'ShuttingDown',
    plan: (facts) => ({
      ...wait(leftMs(facts)),
      remember: rememberDeadline(facts),
    }),
  },
  {
    name: 'shutdown-signal-awaited',
    why: 'The guest was asked to shut down; it gets time to follow before it is asked again.',
    when: (facts) => isEnding(facts) && within(facts.sinceSignalMs, signalPeriodMs),
    plan: (facts) => wait(Math.min(signalPeriodMs - (facts.sinceSignalMs ?? 0), leftMs(facts))),
  },
  {
    name: 'shutdown-signal-due',
    why: 'The VMI is to end, so its guest is asked to shut down.',
    when: isEnding,
    plan: signal,
  },
];

export function hasFailedPostCopy({ domainState }: Facts): boolean {
  if (domainState.kind !== 'alive') return false;
  const { Status, Reason } = domainState.domain.Status;
  return Status === 'Paused' && Reason === 'PostcopyFailed';
}

function statusOf({ domainState }: Facts): string {
  return domainState.kind === 'alive' ? domainState.domain.Status.Status : '';
}

/** A guest that shuts down by itself while its VMI is deleted has no signal of ours, but its grace runs all the same. */
function rememberDeadline({ observation, grace }: Facts): NonNullable<Plan['remember']> {
  const { memory, nowMs } = observation;
  const began = memory.ending.shutdown ?? { firstMs: nowMs, lastSignalMs: nowMs };
  const shutdown = { firstMs: began.firstMs, deadlineMs: grace.deadlineMs, lastSignalMs: began.lastSignalMs };
  return { ending: { shutdown } };
}
