import { isDecentralised, isMigrationTarget } from '../../../../api/index.ts';
import type { Facts } from '../facts.ts';
import { type Plan, type Rule, rest, wait } from '../rule.ts';
import { failedMigration, type MigrationFailure } from './failed-migration.ts';
import {
  hasArrived,
  hasFailedHere,
  isProvenAway,
  isSettled,
  isStarted,
  migrationUidOf,
  stateOf,
} from './target-view.ts';

/**
 * A migration between two VMI objects of two namespaces or clusters. Each has an agent of its own, and may be on nodes of the same name; a
 * synchronization controller carries what each writes into the other's `migrationState`. The VMI that receives belongs to its node
 * before the guest has come (pkg/virt-controller/watch/vmi/lifecycle.go).
 */
export type MigrationEnd = 'source' | 'target';

/**
 * Undefined: this VMI moves within its cluster, if at all. So does one whose guest runs already, also when its user has written the annotation of
 * those that receive one: its streams are not to be closed for that.
 */
export function endOf({ vmi, phase }: Facts): MigrationEnd | undefined {
  if (!vmi) return undefined;
  const state = vmi.status?.migrationState;
  if (!isDecentralised(state)) return isMigrationTarget(vmi) && phase !== 'Running' ? 'target' : undefined;
  const { sourceState, targetState } = state ?? {};
  // By addresses alone it cannot be told: a synchronization controller that starts anew writes its own beside the other one.
  const source = sourceState?.virtualMachineInstanceUID;
  const isSource = source ? source === vmi.metadata.uid : targetState?.syncAddress && !sourceState?.syncAddress;
  return isSource ? 'source' : 'target';
}

/** The guest of this VMI is on its way here, or what was made for it is to be taken back. */
export function isReceiving(facts: Facts): boolean {
  if (endOf(facts) !== 'target') return false;
  const state = stateOf(facts);
  if (isSettled(facts)) return state?.failed === true;
  if (facts.deleting || facts.final)
    return facts.observation.migrationProxies.targetPorts !== undefined || isHere(facts);
  return !(state?.endTimestamp && hasArrived(facts));
}

const isHere = ({ domainState }: Facts) => domainState.kind === 'alive' || domainState.kind === 'unknown';

/** The stream's sockets of a QEMU that receives carry the UID of the VMI that its guest leaves; undefined: its own. */
export function streamUidOf(facts: Facts): string | undefined {
  if (endOf(facts) !== 'target' || facts.vmi?.status?.migrationTransport !== 'Unix') return undefined;
  return stateOf(facts)?.sourceState?.virtualMachineInstanceUID;
}

const isUnsynchronized = (facts: Facts) => {
  if (endOf(facts) !== 'target') return false;
  const transport = facts.vmi?.status?.migrationTransport;
  return !stateOf(facts)?.sourceState || !transport || (transport === 'Unix' && streamUidOf(facts) === undefined);
};

const syncRetryMs = 5_000;
const unsynchronizedText =
  'the other side has not said yet where the guest comes from (sourceState, migrationTransport): look at virt-synchronization-controller of both sides';

export const unsynchronizedRule: Rule = {
  name: 'target-source-unknown',
  why: 'The guest comes from another namespace or cluster, whose part of the migration has not come yet; nothing is prepared without it.',
  when: (facts) => isUnsynchronized(facts) && !isStarted(facts),
  plan: () => ({ ...wait(syncRetryMs), problem: unsynchronizedText }),
};

/** What the source says of an end comes as a time alone (pkg/synchronization-controller). */
export function hasEndedAtSource(facts: Facts): boolean {
  return endOf(facts) === 'target' && Boolean(stateOf(facts)?.endTimestamp) && isProvenAway(facts);
}

const aborted: MigrationFailure = {
  reason: 'Live migration has been aborted',
  more: { abortStatus: 'Succeeded' },
};

const isToBeAborted = (facts: Facts) =>
  endOf(facts) === 'target' && stateOf(facts)?.abortRequested === true && isProvenAway(facts) && !hasFailedHere(facts);

/** Before it begins nobody else would end it; then its streams stay for what the source says of it. */
export const abortRules: readonly Rule[] = [
  {
    name: 'target-aborted-before-start',
    why: 'The migration from another namespace or cluster is cancelled and its guest has not begun to come, so it is over.',
    when: (facts) => isToBeAborted(facts) && !isStarted(facts),
    plan: (facts) => ({
      steps: [],
      patch: failedMigration(facts, aborted),
      requeueAfterMs: 0,
    }),
  },
  {
    name: 'target-abort-awaited',
    why: 'The migration from another namespace or cluster is cancelled; its source ends it, and its word is awaited.',
    when: isToBeAborted,
    plan: () => ({
      ...wait(syncRetryMs),
      problem: 'the migration is cancelled, and its source has not said yet that it has ended',
    }),
  },
];

/** A source that tries again may still have, or send anew, when its last try began: nothing was opened that it could have begun on. */
const hasOldStart = (facts: Facts) =>
  endOf(facts) === 'target' &&
  facts.phase === 'WaitingForSync' &&
  isStarted(facts) &&
  facts.observation.migrationProxies.targetPorts === undefined &&
  !stateOf(facts)?.targetNodeAddress &&
  !isHere(facts);

export const oldStartRule: Rule = {
  name: 'target-start-of-before',
  why: 'The VMI waits for a guest of another namespace or cluster and has the begin of an earlier migration, which is taken out.',
  when: hasOldStart,
  plan: () => ({ steps: [], patch: { status: { migrationState: { startTimestamp: null } } }, requeueAfterMs: 0 }),
};

/** The guest runs as another VMI's: this one has reached its end, and is not to be started again. */
const hasGone = (facts: Facts) => {
  const state = stateOf(facts);
  const isOver = state?.completed === true && state.failed !== true && Boolean(state.endTimestamp);
  return endOf(facts) === 'source' && isOver && migrationUidOf(facts) !== '' && !facts.final;
};

const stillHere =
  'the other side says that the guest has arrived there, and its domain is still here: nothing is done about it. Look at both guests, then delete the VirtualMachineInstance whose guest is not wanted';

export const sentAwayRules: readonly Rule[] = [
  {
    name: 'sent-away-still-here',
    why: 'The guest runs in another namespace or cluster by the word from there, and yet a domain lives here; the user is asked.',
    when: (facts) => hasGone(facts) && facts.domainState.kind === 'alive' && !facts.deleting,
    plan: () => ({ ...rest, problem: stillHere }),
  },
  {
    name: 'sent-away',
    why: 'The guest has moved to a VMI of another namespace or cluster, which has told that it runs there, so this VMI has succeeded.',
    when: (facts) => hasGone(facts) && isProvenAway(facts),
    plan: sentAway,
  },
];

function sentAway(): Plan {
  const because = 'the guest has moved to another VirtualMachineInstance';
  const finalPhase = { phase: 'Succeeded', because } as const;
  return { steps: [], phase: 'Succeeded', requeueAfterMs: 0, remember: { ending: { finalPhase } } };
}
