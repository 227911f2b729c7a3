import type { Facts } from '../facts.ts';
import { cleanUp, deleteDomain, hasStoppedDomain } from '../finish-rules.ts';
import { type Rule, rest, wait } from '../rule.ts';

/** The hand-over may take as long as the migration: the domain's own events wake the key, this is the fallback. */
const handOverRetryMs = 30_000;

/** The VMI belongs to another node: only what is dead here is taken away, a living domain never. */
export const orphanedRules: readonly Rule[] = [
  { name: 'orphan-nothing-here', when: hasNothingHere, plan: () => rest },
  {
    name: 'orphan-unknown',
    when: ({ situation }) => situation.kind === 'unknown',
    plan: ({ uid }) => ({ steps: [{ step: 'refreshDomain', uid }], requeueAfterMs: handOverRetryMs }),
  },
  {
    name: 'orphan-not-probed',
    when: ({ situation, observation }) => situation.kind === 'absent' && observation.launcher.kind === 'ready',
    plan: ({ uid }) => ({ steps: [{ step: 'ensureLauncherConnection', uid }], requeueAfterMs: 0 }),
  },
  { name: 'orphan-alive', when: ({ situation }) => situation.kind === 'alive', plan: () => wait(handOverRetryMs) },
  {
    name: 'orphan-stopped',
    when: (facts) => hasStoppedDomain(facts) && facts.sinceDeleteMs === undefined,
    plan: deleteDomain,
  },
  {
    name: 'orphan-unclear',
    when: ({ situation, observation }) => situation.kind === 'absent' && observation.launcher.kind !== 'dead',
    plan: () => wait(handOverRetryMs),
  },
  { name: 'orphan-clean-up', when: () => true, plan: cleanUp },
];

function hasNothingHere({ observation }: Facts): boolean {
  const { domain, ghost, memory } = observation;
  return memory.cleaned === true || (domain.kind === 'absent' && ghost === undefined);
}
