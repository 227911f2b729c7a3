import { type ProxyRole, proxyRoles } from '../../../migration-proxy/ports.ts';
import type { Remember } from '../../observe/index.ts';
import type { Facts } from '../facts.ts';
import { type Plan, type Rule, rest, wait } from '../rule.ts';
import { endOf, streamUidOf, unsynchronizedRule } from './decentralised.ts';
import { failedMigration, isRefusedForGood, proxyRefusal } from './failed-migration.ts';
import { publishPatch } from './target-patches.ts';
import { isProvenAway, isStarted, refusalOf, rememberStage, stageOf, stateOf, triesOf } from './target-view.ts';

const socketRetryMs = 1_000;
const launcherRetryMs = 5_000;
/** A launcher that refuses is asked again: its disks may not be there yet. */
const refusalRetryMs = 5_000;
const refusalLimitMs = 20_000;
/** Upstream tries for ever, and the user's migration stands still without a word. */
const prepareLimitMs = 180_000;

/** Before the source may begin, that is before ports are published, a failure costs nothing. */
const isUnprepared = (facts: Facts) => facts.observation.migrationProxies.targetPorts === undefined;

/**
 * The migration may be failed from here: no agent of this node ever published where to send the guest, or it is proven
 * not to be here. A guest that came through an earlier agent's streams is never failed.
 */
const isSafeToFail = (facts: Facts) =>
  isUnprepared(facts) && !isStarted(facts) && (!stateOf(facts)?.targetNodeAddress || isProvenAway(facts));

/** Roles that this VMI's migration needs (pkg/virt-handler/migration-proxy). */
function rolesOf({ vmi }: Facts): readonly ProxyRole[] {
  const copiesDisks =
    vmi?.status?.migrationMethod === 'BlockMigration' ||
    (Array.isArray(vmi?.status?.migratedVolumes) && vmi.status.migratedVolumes.length > 0);
  const { libvirt, direct, block } = proxyRoles;
  return copiesDisks ? [libvirt, direct, block] : [libvirt, direct];
}

const sinceFirstTryMs = (facts: Facts): number => sinceMs(facts, triesOf(facts)?.firstTryMs);
const sinceLastTryMs = (facts: Facts): number => sinceMs(facts, triesOf(facts)?.lastTryMs);

function sinceMs({ observation }: Facts, atMs: number | undefined): number {
  return atMs === undefined ? 0 : observation.nowMs - atMs;
}

const isGivenUp = (facts: Facts) =>
  sinceFirstTryMs(facts) >= (refusalOf(facts) === undefined ? prepareLimitMs : refusalLimitMs);

function giveUp(facts: Facts): Plan {
  const why = refusalOf(facts) ?? facts.observation.memory.reports.reportedProblem;
  const reason = `node ${facts.observation.nodeName} could not prepare for the guest${why ? `: ${why}` : ''}`;
  const isRefusal = refusalOf(facts) !== undefined;
  return { steps: [], patch: failedMigration(facts, { reason, isRefusal }), requeueAfterMs: 0 };
}

/** Each try counts from the first one on, whatever it is that fails. */
function rememberTry(facts: Facts): Remember {
  const { nowMs } = facts.observation;
  const tries = { firstTryMs: triesOf(facts)?.firstTryMs ?? nowMs, lastTryMs: nowMs };
  const stage = stageOf(facts);
  const isFurther = stage?.kind === 'refused' || stage?.kind === 'prepared';
  return rememberStage(facts, isFurther ? { ...stage, ...tries } : { kind: 'trying', ...tries });
}

function reportUnclear({ observation }: Facts): Partial<Plan> {
  return observation.launcher.kind === 'unclear' ? { problem: observation.launcher.reason } : {};
}

function prepare(facts: Facts): Plan {
  const { uid } = facts;
  const migrationUid = stateOf(facts)?.migrationUid ?? '';
  return {
    steps: [{ step: 'prepareMigrationTarget', uid, migrationUid }],
    requeueAfterMs: 0,
    latestMs: launcherRetryMs,
    remember: rememberTry(facts),
  };
}

export function openStreams(facts: Facts): Plan {
  const streamUid = streamUidOf(facts);
  return {
    steps: [{ step: 'openTargetProxies', uid: facts.uid, roles: rolesOf(facts), ...(streamUid && { streamUid }) }],
    requeueAfterMs: 0,
    latestMs: launcherRetryMs,
  };
}

export function publish(facts: Facts): Plan {
  const patch = publishPatch(facts);
  if (!patch) return rest;
  // Of another VMI's guest the wait has an end in words, which begins now.
  return endOf(facts) === 'target' ? { steps: [], patch, requeueAfterMs: 0 } : { steps: [], patch };
}

/** For a guest that is not on its way yet: make ready, open the streams, publish where they are. */
export const prepareRules: readonly Rule[] = [
  {
    name: 'target-refused',
    why: 'This node cannot receive the guest, so the migration fails and the guest goes on where it runs.',
    when: (facts) => isSafeToFail(facts) && proxyRefusal(facts) !== undefined,
    plan: (facts) => ({
      steps: [],
      patch: failedMigration(facts, { reason: proxyRefusal(facts) ?? '', isRefusal: isRefusedForGood(facts) }),
      requeueAfterMs: 0,
    }),
  },
  {
    name: 'target-given-up',
    why: 'This node could not be made ready for the guest in the time it has, so the migration fails.',
    when: (facts) => isSafeToFail(facts) && isGivenUp(facts),
    plan: giveUp,
  },
  {
    ...unsynchronizedRule,
    plan: (facts) => ({ ...unsynchronizedRule.plan(facts), remember: rememberTry(facts) }),
  },
  {
    name: 'target-not-probed',
    why: 'The launcher that waits for the guest has not been asked yet, so that comes first.',
    when: ({ domainState, observation }) => domainState.kind === 'absent' && observation.launcher.kind === 'ready',
    plan: (facts) => ({
      steps: [{ step: 'ensureLauncherConnection', uid: facts.uid }],
      requeueAfterMs: 0,
      latestMs: launcherRetryMs,
      remember: rememberTry(facts),
    }),
  },
  {
    name: 'target-started-unseen',
    why: 'The guest is on its way by the word of the source, and the launcher here cannot be asked yet.',
    when: isStarted,
    plan: () => wait(launcherRetryMs),
  },
  {
    name: 'target-launcher-not-ready',
    why: 'The launcher that is to receive the guest has not opened its socket yet; it gets a little time.',
    when: ({ observation }) => observation.launcher.kind === 'not-ready',
    plan: () => wait(socketRetryMs),
  },
  {
    name: 'target-launcher-gone',
    why: 'The launcher that was to receive the guest is gone, so its streams are closed; the migration controller ends the rest.',
    when: ({ observation }) =>
      observation.launcher.kind === 'dead' && observation.migrationProxies.targetPorts !== undefined,
    plan: ({ uid }) => ({ steps: [{ step: 'closeTargetProxies', uid }], requeueAfterMs: launcherRetryMs }),
  },
  {
    name: 'target-launcher-awaited',
    why: 'No launcher that could receive the guest can be told here, so nothing is prepared until there is one.',
    when: ({ observation }) => observation.launcher.kind !== 'ready',
    plan: (facts) => ({
      ...wait(launcherRetryMs),
      remember: rememberTry(facts),
      ...reportUnclear(facts),
    }),
  },
  {
    name: 'target-abort-requested',
    why: 'The migration is to be cancelled before it began, so nothing is prepared for it.',
    when: (facts) => isUnprepared(facts) && stateOf(facts)?.abortRequested === true,
    plan: () => rest,
  },
  {
    name: 'target-refusal-awaited',
    why: 'The launcher has just refused to prepare for the guest; it is asked again in a moment.',
    when: (facts) => isUnprepared(facts) && refusalOf(facts) !== undefined && sinceLastTryMs(facts) < refusalRetryMs,
    plan: (facts) => wait(refusalRetryMs - sinceLastTryMs(facts)),
  },
  {
    name: 'target-prepare',
    why: 'The guest is to come to this node: the host and the launcher are made ready for it.',
    when: (facts) => stageOf(facts)?.kind !== 'prepared',
    plan: prepare,
  },
  {
    name: 'target-streams-due',
    why: 'The launcher is ready for the guest; the streams that it comes through are opened.',
    when: isUnprepared,
    plan: openStreams,
  },
  {
    name: 'target-publish',
    why: 'The streams are open; the source is told at which address and ports.',
    when: (facts) => publishPatch(facts) !== undefined,
    plan: publish,
  },
  {
    name: 'target-waits',
    why: 'Everything is ready for the guest; the source begins by itself.',
    when: () => true,
    plan: waitForSource,
  },
];

/** Nobody of this side knows whether another cluster has forgotten it. */
const silentSourceMs = 600_000;

function waitForSource(facts: Facts): Plan {
  const stage = stageOf(facts);
  if (endOf(facts) !== 'target' || stage?.kind !== 'prepared') return rest;
  const leftMs = stage.preparedMs + silentSourceMs - facts.observation.nowMs;
  if (leftMs > 0) return wait(leftMs);
  const problem =
    'this node has been ready for the guest for ten minutes and its source has not begun: look at the migration there, or delete the one here';
  return { ...rest, problem };
}
