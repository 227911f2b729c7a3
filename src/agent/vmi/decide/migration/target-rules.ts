import { forgetStay } from '../../observe/index.ts';
import type { Facts } from '../facts.ts';
import { deleteDomain, hasStoppedDomain } from '../finish-rules.ts';
import { predecessorDeadRule } from '../look-rules.ts';
import { type Plan, type Rule, rest, wait } from '../rule.ts';
import { abortRules, hasEndedAtSource, oldStartRule } from './decentralised.ts';
import { failedMigration } from './failed-migration.ts';
import { targetEndRules } from './target-end-rules.ts';
import { handOverPatch, progressPatch, publishPatch } from './target-patches.ts';
import { openStreams, prepareRules, publish } from './target-prepare-rules.ts';
import {
  hasArrived,
  hasFailedHere,
  isInPostCopy,
  isProvenAway,
  isSettled,
  isStarted,
  isWaitingForMemory,
  migrationUidOf,
  notesOf,
  rememberStage,
  stageOf,
  stateOf,
  timeOr,
} from './target-view.ts';

const predecessorRetryMs = 5_000;
/** Fallback when nothing wakes the key; a launcher that answers again does it by an event. */
const unknownRetryMs = 10_000;

/** The launcher's events report the arrival; those that are lost must not cost the guest its VMI. */
const lookAgainMs = 15_000;

function lookOrWait({ uid, domainState, observation }: Facts): Plan {
  const { domain, nowMs } = observation;
  const isKnown = domain.kind === 'present' || (domain.kind === 'gone' && domain.proof === 'launcher-says-none');
  if (!isKnown || domainState.kind === 'stopped') return rest;
  const leftMs = domain.seenMs + lookAgainMs - nowMs;
  return leftMs > 0 ? wait(leftMs) : { steps: [{ step: 'refreshDomain', uid }], requeueAfterMs: lookAgainMs };
}

/** From here on the guest is this node's: nothing may come between that and its arrival, not even its deletion. */
const handOverRule: Rule = {
  name: 'target-hand-over',
  why: 'The guest has arrived and runs on this node, so the VMI is handed over to it.',
  when: (facts) => !facts.final && !isSettled(facts) && hasMigration(facts) && hasArrived(facts),
  plan: (facts) => ({ steps: [], patch: handOverPatch(facts), requeueAfterMs: 0 }),
};

/** Without a migration there is no source to take the guest over from. */
const hasMigration = (facts: Facts) => migrationUidOf(facts) !== '';

/** An earlier agent of this node has opened the streams of this very migration, and the source may be sending already. */
const isTakenUp = (facts: Facts) => facts.observation.migrationProxies.targetMigration === migrationUidOf(facts);

/** Something of an earlier stay or attempt: a launcher of a migration that failed, a domain that migrated away once. */
const isLeftFromBefore = (facts: Facts) =>
  stageOf(facts) === undefined &&
  !isTakenUp(facts) &&
  !facts.observation.memory.ending.cleaned &&
  !isStarted(facts) &&
  isProvenAway(facts) &&
  (facts.observation.domain.kind !== 'absent' || facts.observation.ghost !== undefined);

/** What is reported of the guest on its way. */
const progressRules: readonly Rule[] = [
  {
    name: 'target-arrival-failed',
    why: 'The launcher says that the migration is over, and no guest runs here: the migration has failed.',
    when: (facts) => hasFailedHere(facts) || hasEndedElsewhere(facts) || hasEndedAtSource(facts),
    plan: (facts) => {
      const notes = notesOf(facts);
      const { now } = facts.observation;
      const patch = failedMigration(facts, {
        reason: notes?.FailureReason || 'the guest did not run on the target node when the migration was over',
        ...(notes?.EndTimestamp && { endTimestamp: timeOr(notes.EndTimestamp, now) }),
        ...(notes?.StartTimestamp && { startTimestamp: timeOr(notes.StartTimestamp, now) }),
      });
      return { steps: [], patch, requeueAfterMs: 0 };
    },
  },
  {
    name: 'target-progress',
    why: 'The guest is seen on this node, which is written for the migration controller.',
    when: (facts) => facts.domainState.kind === 'alive' && progressPatch(facts) !== undefined,
    plan: (facts) => {
      const patch = progressPatch(facts);
      return patch ? { steps: [], patch, requeueAfterMs: 0 } : rest;
    },
  },
];

/**
 * Began and ended by the VMI's own times without an outcome, and the guest is proven not to be here
 * (pkg/virt-handler/migration-target.go).
 */
function hasEndedElsewhere(facts: Facts): boolean {
  const state = stateOf(facts);
  return Boolean(state?.startTimestamp && state.endTimestamp) && isProvenAway(facts);
}

/** What is there from before goes first: streams and connections of an earlier attempt lead to another pod. */
const beginRules: readonly Rule[] = [
  {
    name: 'target-earlier-streams',
    why: 'Streams of an earlier migration of this VMI are still open; they are closed before this one is prepared.',
    when: (facts) =>
      facts.observation.migrationProxies.targetPorts !== undefined && stageOf(facts) === undefined && !isTakenUp(facts),
    plan: ({ uid }) => ({ steps: [{ step: 'closeTargetProxies', uid }], requeueAfterMs: 0 }),
  },
  {
    name: 'target-earlier-domain',
    why: 'The VMI was on this node before and left a stopped domain; it is deleted before the guest comes back.',
    when: (facts) => isLeftFromBefore(facts) && hasStoppedDomain(facts) && facts.sinceDeleteMs === undefined,
    plan: deleteDomain,
  },
  {
    name: 'target-earlier-attempt',
    why: 'Something is left of an earlier stay or migration of this VMI; it is taken away before this one is prepared.',
    when: isLeftFromBefore,
    plan: ({ uid }) => ({ steps: [{ step: 'cleanUp', uid }], requeueAfterMs: 0 }),
  },
  {
    name: 'target-begun',
    why: 'This node is asked to receive the guest; what was remembered of an earlier stay counts no more.',
    when: (facts) => stageOf(facts) === undefined,
    plan: (facts) => ({
      steps: [],
      requeueAfterMs: 0,
      remember: { ...forgetStay(), ...rememberStage(facts, { kind: 'begun' }) },
    }),
  },
];

/** Written by this rule and taken back by its neighbour: the source's agent knows by it what the end of its launcher means. */
export const memoryMissing =
  'post-copy broke: the guest on the target node waits for memory that is still on the source node. Its streams are opened anew';

const underWayRules: readonly Rule[] = [
  {
    name: 'target-domain-unknown',
    why: 'The launcher here gives no answer about its domain; it is asked again, and nothing is done until it can tell.',
    when: ({ domainState }) => domainState.kind === 'unknown',
    plan: ({ uid }) => ({ steps: [{ step: 'refreshDomain', uid }], requeueAfterMs: unknownRetryMs }),
  },
  ...beginRules,
  {
    name: 'target-streams-lost',
    why: 'The guest runs here in post-copy and its streams are gone: they are opened anew, so that the rest of its memory can come.',
    when: (facts) => isInPostCopy(facts) && facts.observation.migrationProxies.targetPorts === undefined,
    plan: openStreams,
  },
  {
    name: 'target-publish-again',
    why: 'The streams of a guest in post-copy were opened anew; the source is told at which address and ports.',
    when: (facts) => isInPostCopy(facts) && publishPatch(facts) !== undefined,
    plan: publish,
  },
  {
    name: 'target-memory-missing',
    why: 'The streams of a guest in post-copy broke, which is written: should the source launcher end now, the guest is lost.',
    when: (facts) => isWaitingForMemory(facts) && stateOf(facts)?.failureReason !== memoryMissing,
    plan: () => ({
      steps: [],
      patch: { status: { migrationState: { mode: 'PostCopy', failureReason: memoryMissing } } },
      requeueAfterMs: 0,
    }),
  },
  {
    name: 'target-memory-comes',
    why: 'A post-copy that broke goes on, so the VMI does not say any more that memory is missing.',
    when: (facts) =>
      isInPostCopy(facts) && !isWaitingForMemory(facts) && stateOf(facts)?.failureReason === memoryMissing,
    plan: () => ({
      steps: [],
      patch: { status: { migrationState: { failureReason: null } } },
      requeueAfterMs: 0,
    }),
  },
  {
    name: 'target-under-way',
    why: 'The guest is on its way to this node; its arrival or the end of the migration is awaited.',
    when: (facts) => facts.domainState.kind === 'alive' || (isStarted(facts) && facts.domainState.kind !== 'absent'),
    plan: lookOrWait,
  },
];

/**
 * This node is asked to receive a guest, and does not own its VMI (pkg/virt-handler/migration-target.go). It prepares,
 * publishes, reports progress and takes the VMI over; it never writes a phase. Whatever ends the attempt is met before
 * anything new is begun.
 */
export const targetRules: readonly Rule[] = [
  handOverRule,
  ...targetEndRules,
  predecessorDeadRule,
  {
    name: 'target-predecessor-in-the-way',
    why: 'An earlier VMI of this name still has a domain on this node; the guest can come when that is gone.',
    when: ({ observation }) => observation.predecessor !== undefined,
    plan: () => wait(predecessorRetryMs),
  },
  ...progressRules,
  ...abortRules,
  oldStartRule,
  ...underWayRules,
  ...prepareRules,
];
