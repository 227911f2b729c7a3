import type { MigrationMetadata } from '../../api/index.ts';
import { errorMessage, memberAt, rfc3339 } from '../../base/index.ts';
import { DomainState, formatLibvirtError, isLibvirtError } from '../../libvirt/index.ts';
import { LauncherError } from '../errors.ts';
import type { DomainStateNumbers } from '../ports.ts';

/** How a migration that began has ended, as the source knows it. */
export type MigrationOutcome =
  | { readonly kind: 'arrived' }
  | { readonly kind: 'failed'; readonly reason: string }
  /** Its streams broke in post-copy: it is open, and the same order resumes it. */
  | { readonly kind: 'broken'; readonly reason: string }
  /** By our own order: the words of libvirt's error are different ones when the streams hang. */
  | { readonly kind: 'aborted'; readonly reason: string };

/** `VIR_DOMAIN_PAUSED_POSTCOPY_FAILED`: the guest waits for memory that the other node has. */
const postCopyFailed = 13;
const userPause = 1;
const migrationPause = 2;
const migratedAway = 4;

export const isStranded = ({ state, reason }: DomainStateNumbers) =>
  state === DomainState.PAUSED && reason === postCopyFailed;
export const isPausedByUser = ({ state, reason }: DomainStateNumbers) =>
  state === DomainState.PAUSED && reason === userPause;
export const isPausedForMigration = ({ state, reason }: DomainStateNumbers) =>
  state === DomainState.PAUSED && reason === migrationPause;
export const hasLeft = ({ state, reason }: DomainStateNumbers) =>
  state === DomainState.SHUTOFF && reason === migratedAway;
export const isUp = ({ state }: DomainStateNumbers) => state === DomainState.RUNNING || state === DomainState.PAUSED;

/** The daemon went away, or does not answer: what it was asked for may go well once more. */
export const isDaemonLost = (error: unknown) =>
  isLibvirtError(error, 'CONNECTION_LOST', 'CONNECT_FAILED', 'CALL_TIMEOUT', 'CALL_ABORTED');

export const wordsOf = (error: unknown) => (isLibvirtError(error) ? formatLibvirtError(error) : errorMessage(error));

/** The migration's own UID; a migration between clusters has it at the source's state. Throws INVALID_REQUEST. */
export function migrationUidOf(vmi: { readonly status?: unknown }): string {
  const state = memberAt(vmi, 'status', 'migrationState');
  const uid = memberAt(state, 'sourceState', 'migrationUID') || memberAt(state, 'migrationUid');
  if (typeof uid === 'string' && uid !== '') return uid;
  throw new LauncherError('INVALID_REQUEST', 'cannot migrate VMI until migrationState is ready');
}

export function begunMigration(uid: string, now: Date): MigrationMetadata {
  return {
    UID: uid,
    StartTimestamp: rfc3339(now),
    EndTimestamp: null,
    Failed: false,
    FailureReason: '',
    AbortStatus: '',
    Mode: 'PreCopy',
    Resumable: true,
  };
}

/** A migration whose post-copy broke goes on: its begin and its mode stay. */
export function resumedMigration(before: MigrationMetadata | null, uid: string, now: Date): MigrationMetadata {
  const { StartTimestamp } = before ?? begunMigration(uid, now);
  return { ...begunMigration(uid, now), StartTimestamp, Mode: 'PostCopy' };
}

export function endedMigration(before: MigrationMetadata, outcome: MigrationOutcome, now: Date): MigrationMetadata {
  const ended = { ...before, EndTimestamp: rfc3339(now) };
  switch (outcome.kind) {
    case 'arrived':
      // An abort that came too late had no effect.
      return { ...ended, FailureReason: '', AbortStatus: before.AbortStatus === '' ? '' : 'Failed' };
    case 'broken':
      return { ...before, Mode: 'PostCopy' };
    case 'failed':
      return { ...ended, Failed: true, FailureReason: outcome.reason };
    case 'aborted':
      return { ...ended, Failed: true, FailureReason: outcome.reason, AbortStatus: 'Succeeded' };
    default:
      return outcome satisfies never;
  }
}

export const isOpen = (migration: MigrationMetadata | null): migration is MigrationMetadata =>
  migration !== null && Boolean(migration.StartTimestamp) && !migration.EndTimestamp;

export function alreadyOver({ UID, EndTimestamp, Failed, AbortStatus }: MigrationMetadata): LauncherError {
  return new LauncherError(
    'INVALID_REQUEST',
    `migration job ${UID} already executed, finished at ${EndTimestamp}, failed: ${Failed}, abortStatus: ${AbortStatus}`,
  );
}

export type OrderDecision = 'begin' | 'resume' | 'is-under-way';

/** What an order to migrate means. Throws `LauncherError` when it is refused. */
export function decideOrder(
  uid: string,
  {
    recorded,
    runningUid,
    state,
  }: {
    readonly recorded: MigrationMetadata | null;
    /** Of the migration that this process carries out. */
    readonly runningUid: string | undefined;
    readonly state: DomainStateNumbers;
  },
): OrderDecision {
  if (runningUid === uid) return 'is-under-way';
  if (runningUid !== undefined) throw anotherUnderWay(runningUid);
  if (isStranded(state)) return 'resume';
  if (recorded?.UID === uid && recorded.EndTimestamp) throw alreadyOver(recorded);
  if (state.state === DomainState.RUNNING || isPausedByUser(state)) return 'begin';
  throw new LauncherError(
    'INVALID_REQUEST',
    'only a guest that runs, or is paused by its user, can migrate: look at the state of the VMI',
  );
}

export function anotherUnderWay(uid: string): LauncherError {
  return new LauncherError(
    'MIGRATING',
    `the guest is migrated already (migration ${uid}): wait for its end, or cancel it`,
  );
}
