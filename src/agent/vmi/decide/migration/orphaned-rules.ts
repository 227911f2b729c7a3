import type { Facts } from '../facts.ts';
import { cleanUp, deleteDomain, hasStoppedDomain } from '../finish-rules.ts';
import { type Rule, rest, wait } from '../rule.ts';

/** The hand-over may take as long as the migration: the domain's own events wake the key, this is the fallback. */
const handOverRetryMs = 30_000;

/** The VMI belongs to another node: only what is dead here is taken away, a living domain never. */
export const orphanedRules: readonly Rule[] = [
  {
    name: 'orphan-nothing-here',
    why: 'The VMI belongs to another node and nothing of it is here.',
    when: hasNothingHere,
    plan: () => rest,
  },
  {
    name: 'orphan-unknown',
    why: 'The VMI belongs to another node and nobody can say how its domain here is, so it is asked for again.',
    when: ({ domainState }) => domainState.kind === 'unknown',
    plan: ({ uid }) => ({ steps: [{ step: 'refreshDomain', uid }], requeueAfterMs: handOverRetryMs }),
  },
  {
    name: 'orphan-not-probed',
    why: 'The VMI belongs to another node; its launcher here has not been asked since this agent started, so that comes first.',
    when: ({ domainState, observation }) => domainState.kind === 'absent' && observation.launcher.kind === 'ready',
    plan: ({ uid }) => ({ steps: [{ step: 'ensureLauncherConnection', uid }], requeueAfterMs: 0 }),
  },
  {
    name: 'orphan-alive',
    why: 'The VMI belongs to another node but its guest still runs here, so it is left alone.',
    when: ({ domainState }) => domainState.kind === 'alive',
    plan: () => wait(handOverRetryMs),
  },
  {
    name: 'orphan-stopped',
    why: 'The VMI belongs to another node and its domain here has stopped, so the domain is deleted.',
    when: (facts) => hasStoppedDomain(facts) && facts.sinceDeleteMs === undefined,
    plan: deleteDomain,
  },
  {
    name: 'orphan-unclear',
    why: 'The VMI belongs to another node and its launcher here is not proven dead, so it is left alone.',
    when: ({ domainState, observation }) => domainState.kind === 'absent' && observation.launcher.kind !== 'dead',
    plan: () => wait(handOverRetryMs),
  },
  {
    name: 'orphan-clean-up',
    why: 'The VMI belongs to another node, so what this agent keeps for it here is taken away.',
    when: () => true,
    // Once more at the end: then nothing is known here, and what is remembered of it goes, too.
    plan: (facts) => ({ ...cleanUp(facts), requeueAfterMs: 0 }),
  },
];

function hasNothingHere({ observation }: Facts): boolean {
  const { domain, ghost, memory, migrationProxies } = observation;
  if (migrationProxies.hasSource || migrationProxies.targetPorts) return false;
  return memory.ending.cleaned || (domain.kind === 'absent' && ghost === undefined);
}
