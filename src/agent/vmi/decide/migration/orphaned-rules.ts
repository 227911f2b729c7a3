import { type SourceMemory, sourceMemory } from '../../observe/index.ts';
import type { Facts } from '../facts.ts';
import { cleanUp, deleteDomain, hasStoppedDomain } from '../finish-rules.ts';
import { type Plan, type Rule, rest, wait } from '../rule.ts';
import { hasFailedPostCopy } from '../shutdown-rules.ts';

/** The hand-over may take as long as the migration: the domain's own events wake the key, this is the fallback. */
const handOverRetryMs = 30_000;
/** libvirt may still hear from the target how the migration ended. */
const remainderMs = 30_000;

/**
 * The guest has left in post-copy, and its migration is over by the word of the target's agent, so nobody resumes it. Where libvirt at the
 * target ends before it has said so, the domain here may wait for that, with all that the guest had, and its pod with it. Not seen in a
 * real loss so far: there libvirt at the source found by itself that the guest had gone.
 */
function remainder(facts: Facts): SourceMemory | undefined {
  const { vmi, observation } = facts;
  const { status } = vmi ?? {};
  const { migrationUid, sourceNode, targetNode, completed, failed, endTimestamp } = status?.migrationState ?? {};
  const isOver = completed === true && failed !== true && Boolean(endTimestamp);
  const hasMoved = sourceNode === observation.nodeName && targetNode === status?.nodeName && targetNode !== sourceNode;
  if (!migrationUid || !isOver || !hasMoved || status?.phase !== 'Running' || !hasFailedPostCopy(facts))
    return undefined;
  const noted = facts.domainState.kind === 'alive' && facts.domainState.domain.Spec?.Metadata?.KubeVirt?.Migration;
  return noted && noted.UID === migrationUid ? sourceMemory(observation.memory, migrationUid) : undefined;
}

function endRemainder(facts: Facts): Plan {
  const own = remainder(facts);
  if (!own) return rest;
  const { nowMs } = facts.observation;
  const overSeenMs = own.overSeenMs ?? nowMs;
  const leftMs = overSeenMs + remainderMs - nowMs;
  const remember = { migration: { ...own, overSeenMs } };
  if (leftMs > 0) return { ...wait(leftMs), remember };
  return {
    steps: [{ step: 'killDomain', uid: facts.uid }],
    requeueAfterMs: remainderMs,
    latestMs: remainderMs,
    remember,
  };
}

/** The VMI belongs to another node: only what is dead here is taken away, and what a guest has left behind; a living one never. */
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
    name: 'orphan-left-behind',
    why: 'The guest lives on the node that its VMI belongs to; what it left behind here waits for the end of a migration that is over, and is ended.',
    when: (facts) => remainder(facts) !== undefined,
    plan: endRemainder,
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
