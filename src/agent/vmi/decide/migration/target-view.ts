import type { MigrationMetadata, MigrationState } from '../../../../api/index.ts';
import { isRecord, rfc3339 } from '../../../../base/index.ts';
import type { PrepareTries, Remember, TargetStage } from '../../observe/index.ts';
import type { Facts } from '../facts.ts';

/** What a node that is asked to receive a guest reads off an observation. All of it may be missing or odd. */
export function stateOf({ vmi }: Facts): MigrationState | undefined {
  return vmi?.status?.migrationState;
}

/** Empty: there is no migration that could be told from another. */
export function migrationUidOf(facts: Facts): string {
  const uid: unknown = stateOf(facts)?.migrationUid;
  return typeof uid === 'string' ? uid : '';
}

/** Between two VMI objects each side has a migration object of its own, and launchers go by the source's. */
function isOfThisMigration(facts: Facts, uid: string): boolean {
  const { sourceState } = stateOf(facts) ?? {};
  return uid === migrationUidOf(facts) || (uid !== '' && uid === sourceState?.migrationUID);
}

/** How far this process came for exactly this migration; undefined: nothing yet. */
export function stageOf(facts: Facts): TargetStage | undefined {
  const { migration } = facts.observation.memory;
  return migration.role === 'target' && migration.migrationUid === migrationUidOf(facts) ? migration.stage : undefined;
}

export function triesOf(facts: Facts): PrepareTries | undefined {
  const stage = stageOf(facts);
  return stage && 'firstTryMs' in stage ? stage : undefined;
}

export function refusalOf(facts: Facts): string | undefined {
  const stage = stageOf(facts);
  return stage?.kind === 'refused' ? stage.refusal : undefined;
}

export function rememberStage(facts: Facts, stage: TargetStage): Remember {
  return { migration: { role: 'target', migrationUid: migrationUidOf(facts), stage } };
}

/** The source has begun, by the times in the VMI. */
export function isStarted(facts: Facts): boolean {
  const state = stateOf(facts);
  return Boolean(state?.startTimestamp) && !state?.endTimestamp;
}

export function isSettled(facts: Facts): boolean {
  const state = stateOf(facts);
  return state?.failed === true || state?.completed === true;
}

/** The launcher's own notes about the migration. */
export function notesOf({ observation }: Facts): MigrationMetadata | undefined {
  if (observation.domain.kind !== 'present') return undefined;
  return observation.domain.domain.Spec?.Metadata?.KubeVirt?.Migration ?? undefined;
}

/** The guest runs here, or its user paused it (pkg/virt-handler/migration-target.go). */
export function isActive({ domainState }: Facts): boolean {
  if (domainState.kind !== 'alive') return false;
  const { Status, Reason } = domainState.domain.Status;
  return Status === 'Running' || (Status === 'Paused' && Reason === 'User');
}

/** Paused by the migration itself: the guest is still on its way, or lost on it. */
const onTheWay = new Set(['StartingUp', 'Migration', 'Postcopy', 'PostcopyFailed']);
/** Ends that a guest comes to by itself: it has run here. Anything else is how libvirt takes an incoming domain away. */
const ownEnds = new Set(['Shutdown', 'Crashed', 'Panicked']);

/**
 * The launcher says that the migration is over, and the guest is here; one that is seen running here has arrived, also when the launcher calls
 * it failed. Upstream knows only Running and Paused/User, and takes a
 * guest for failed that arrives with an I/O error, or that is shut down between its arrival and the next reconcile.
 */
export function hasArrived(facts: Facts): boolean {
  const notes = notesOf(facts);
  if (!notes?.EndTimestamp) return false;
  if (notes.Failed) return isOfThisMigration(facts, notes.UID) && isStarted(facts) && isActive(facts);
  const { domainState } = facts;
  if (domainState.kind === 'alive') {
    const { Status, Reason } = domainState.domain.Status;
    return !(Status === 'Paused' && onTheWay.has(Reason));
  }
  return domainState.kind === 'stopped' && ownEnds.has(domainState.domain.Status.Reason);
}

/** The launcher says that it is over, and what it has is no guest that runs. */
export function hasFailedHere(facts: Facts): boolean {
  const notes = notesOf(facts);
  if (!notes?.EndTimestamp || hasArrived(facts)) return false;
  // A guest that once left from here has such notes, too, and they are no word about this migration.
  if (notes.UID !== '' && !isOfThisMigration(facts, notes.UID)) return false;
  return notes.Failed || facts.domainState.kind !== 'alive' || hasLostItsMemory(facts);
}

/** It is proven that no guest lives here: without a word of the launcher, or with one that is no word, nothing is. */
export function isProvenAway({ domainState }: Facts): boolean {
  return domainState.kind !== 'alive' && domainState.kind !== 'unknown' && domainState.kind !== 'absent';
}

/** Post-copy broke: the guest has half of its memory here and half of it on the source. */
export function hasLostItsMemory({ domainState }: Facts): boolean {
  if (domainState.kind !== 'alive') return false;
  const { Status, Reason } = domainState.domain.Status;
  return Status === 'Paused' && Reason === 'PostcopyFailed';
}

/** The guest runs here already, and the source still has a part of its memory. */
export function isInPostCopy(facts: Facts): boolean {
  const isSwitched = stateOf(facts)?.mode === 'PostCopy' || notesOf(facts)?.Mode === 'PostCopy';
  return facts.domainState.kind === 'alive' && isStarted(facts) && isSwitched && !notesOf(facts)?.EndTimestamp;
}

/** Its streams broke: libvirt from 8.5 on shows such a guest as running, and its launcher notes it. */
export function isWaitingForMemory(facts: Facts): boolean {
  return isInPostCopy(facts) && (hasLostItsMemory(facts) || Boolean(notesOf(facts)?.FailureReason));
}

/** A launcher's time as the API server takes it; now when it is none. */
export function timeOr(text: string | null | undefined, now: Date): string {
  const ms = Date.parse(text ?? '');
  return rfc3339(Number.isNaN(ms) ? now : new Date(ms));
}

/** `status.migrationState.targetState`, which repeats some fields and exists in some migrations only. */
export function targetStateOf(facts: Facts): Readonly<Record<string, unknown>> | undefined {
  const targetState: unknown = stateOf(facts)?.targetState;
  return isRecord(targetState) ? targetState : undefined;
}
