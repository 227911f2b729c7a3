import { labels } from '../../../../api/index.ts';
import type { Remember, TargetStage } from '../../observe/index.ts';
import type { Facts } from '../facts.ts';
import { cleanUp } from '../finish-rules.ts';
import { type Rule, rest, wait } from '../rule.ts';
import {
  hasLostItsMemory,
  isActive,
  isProvenAway,
  isSettled,
  migrationUidOf,
  rememberStage,
  stageOf,
} from './target-view.ts';

/** Nothing wakes the key when a socket appears. */
const socketRetryMs = 1_000;
/** Fallback: the launcher's own end wakes the key. */
const goneRetryMs = 5_000;
/**
 * A launcher that neither answers nor ends holds the label no longer than this: without the label the key is an orphan's,
 * whose rules go on waiting for its end.
 */
const lingerMs = 30_000;

/** This attempt is over: the VMI ends, no controller migrates it any more, or the migration has an outcome that is not "here". */
export function isAttemptOver(facts: Facts): boolean {
  return facts.final || facts.deleting || migrationUidOf(facts) === '' || isSettled(facts);
}

const isUnclear = ({ domainState, observation }: Facts) =>
  domainState.kind === 'unknown' || (domainState.kind === 'absent' && observation.launcher.kind === 'ready');

function hasWaitedLong(facts: Facts): boolean {
  const stage = stageOf(facts);
  return stage?.kind === 'over' && facts.observation.nowMs - stage.endedSeenMs >= lingerMs;
}

const isSignalled = (stage: TargetStage | undefined) => stage?.kind === 'over' && stage.signalled;

function rememberEnd(facts: Facts, signalled = isSignalled(stageOf(facts))): Remember {
  const stage = stageOf(facts);
  const endedSeenMs = stage?.kind === 'over' ? stage.endedSeenMs : facts.observation.nowMs;
  return rememberStage(facts, { kind: 'over', endedSeenMs, signalled });
}

/**
 * The launcher that waits for a guest that will not come may go; it decides by its own name
 * (pkg/handler-launcher-com/cmd/v1/cmd.proto).
 */
const isSignalDue = (facts: Facts) =>
  (facts.vmi?.status?.migrationState?.failed === true || facts.final) &&
  migrationUidOf(facts) !== '' &&
  !isSignalled(stageOf(facts));

const wantsSignal = (facts: Facts) => isSignalDue(facts) && facts.observation.launcher.kind === 'ready';

const hasSomethingHere = ({ observation }: Facts) =>
  !observation.memory.ending.cleaned && (observation.ghost !== undefined || observation.domain.kind !== 'absent');

const over = (name: string, why: string, when: Rule['when'], plan: Rule['plan']): Rule => ({
  name,
  why,
  when: (facts) => isAttemptOver(facts) && when(facts),
  plan,
});

/**
 * What was prepared for a guest that does not come is taken back: first the streams, then the launcher is notified, then the host's
 * side goes, then the label. A domain that lives here is never taken away, and a launcher that is gone or hangs holds nothing
 * up.
 */
export const targetEndRules: readonly Rule[] = [
  over(
    'target-deleted-on-arrival',
    'The VMI is deleted while its guest is about to run here; it is adopted first, and then shut down in peace.',
    (facts) => !facts.final && !isSettled(facts) && isArriving(facts),
    () => wait(goneRetryMs),
  ),
  over(
    'target-streams-over',
    'The migration to this node is over or its VMI ends, so the streams that were opened for it are closed.',
    (facts) => facts.observation.migrationProxies.targetPorts !== undefined && !mayBeArriving(facts),
    (facts) => ({
      steps: [{ step: 'closeTargetProxies', uid: facts.uid }],
      requeueAfterMs: 0,
      remember: rememberEnd(facts),
    }),
  ),
  over(
    'target-post-copy-failed',
    'The guest was lost half-way between two nodes; the node that owns the VMI must see that before anything is cleaned up here.',
    (facts) => !facts.final && hasLostItsMemory(facts),
    () => wait(goneRetryMs),
  ),
  over(
    'target-end-launcher-awaited',
    'The migration to this node is over and its launcher here has no socket yet; it is awaited, for else its pod would stay and block the next migration.',
    // Without an end of its own here: a launcher that opens no socket in its time counts as dead.
    (facts) =>
      isSignalDue(facts) && facts.domainState.kind === 'absent' && facts.observation.launcher.kind === 'not-ready',
    (facts) => ({
      ...wait(socketRetryMs),
      // Its time to answer begins when it can be asked.
      remember: rememberStage(facts, { kind: 'over', endedSeenMs: facts.observation.nowMs, signalled: false }),
    }),
  ),
  over(
    'target-end-not-probed',
    'The migration to this node is over; its launcher here has not been asked yet, so that comes first.',
    (facts) =>
      facts.domainState.kind === 'absent' &&
      facts.observation.launcher.kind === 'ready' &&
      !facts.observation.memory.ending.cleaned &&
      (facts.observation.ghost !== undefined || wantsSignal(facts)) &&
      !hasWaitedLong(facts),
    (facts) => ({
      steps: [{ step: 'ensureLauncherConnection', uid: facts.uid }],
      requeueAfterMs: 0,
      latestMs: lingerMs,
      remember: rememberEnd(facts),
    }),
  ),
  over(
    'target-end-unknown',
    'The migration to this node is over and its launcher here gives no answer; it is asked again before anything is cleaned up.',
    (facts) => facts.domainState.kind === 'unknown' && !hasWaitedLong(facts),
    (facts) => ({
      steps: [{ step: 'refreshDomain', uid: facts.uid }],
      requeueAfterMs: goneRetryMs,
      remember: rememberEnd(facts),
    }),
  ),
  over(
    'target-pod-may-go',
    'The guest will not come to this node, so the launcher that was waiting for it is told that it may go.',
    (facts) => wantsSignal(facts) && !isUnclear(facts),
    (facts) => ({
      steps: [{ step: 'signalTargetPodCleanup', uid: facts.uid }],
      requeueAfterMs: 0,
      remember: rememberEnd(facts, true),
    }),
  ),
  over(
    'target-domain-still-there',
    'The migration to this node is over and its domain is still here; its end is awaited, it is never taken away alive.',
    (facts) => facts.domainState.kind === 'alive' && !hasWaitedLong(facts),
    (facts) => ({ ...wait(goneRetryMs), remember: rememberEnd(facts) }),
  ),
  over(
    'target-cleaned-up',
    'The migration to this node is over, so what this agent prepared for it on this host is taken away.',
    (facts) => hasSomethingHere(facts) && isProvenAway(facts),
    (facts) => ({ ...cleanUp(facts), requeueAfterMs: 0 }),
  ),
  over(
    'target-label-dropped',
    'The migration to this node has failed and everything of it here is gone, so the VMI no longer asks for this node.',
    isSettled,
    () => ({ steps: [], patch: { labels: { [labels.migrationTargetNodeName]: null } }, requeueAfterMs: 0 }),
  ),
  over(
    'target-nothing-left',
    'The VMI ends or is not migrated any more, and nothing is left to do about it on this node.',
    () => true,
    (facts) => (hasSomethingHere(facts) ? wait(lingerMs) : rest),
  ),
];

/** It is not known whether its guest runs here: of a VMI that is deleted, not of a migration that has an outcome. */
const mayBeArriving = (facts: Facts) => facts.domainState.kind === 'unknown' && !facts.final && !isSettled(facts);

/** In post-copy and right before its end the guest runs here already: without its streams it would be lost. */
function isArriving(facts: Facts): boolean {
  const { domainState, vmi } = facts;
  return domainState.kind === 'alive' && (isActive(facts) || vmi?.status?.migrationState?.mode === 'PostCopy');
}
