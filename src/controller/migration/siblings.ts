import {
  annotations,
  isBeingDeleted,
  isFinalMigration,
  labels,
  migrationEnd,
  type Pod,
  retriedBy,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import { podFacts } from '../pod/index.ts';
import type { MigrationFacts, Rival, Superseded } from './observation.ts';
import { leftNode, type QueueDeps, underWay } from './queue.ts';

type Migration = VirtualMachineInstanceMigration;

/** Final migrations of one VMI that are kept, the newest ones. */
const keptMigrations = 5;
const firstBackoffMs = 20_000;

const createdMs = ({ metadata }: Migration) => Date.parse(metadata.creationTimestamp ?? '') || 0;
const isSame = (one: Migration, other: Migration) => one.metadata.uid === other.metadata.uid;
const isOfSameVmi = (one: Migration, other: Migration) => one.spec.vmiName === other.spec.vmiName;

/** Newest first; of the same second the one with the later name. */
function newestFirst(one: Migration, other: Migration): number {
  return createdMs(other) - createdMs(one) || (one.metadata.name < other.metadata.name ? 1 : -1);
}

/** One that the VMI speaks of, or that was there first. */
export function rivalOf(
  migration: Migration,
  vmi: VirtualMachineInstance | undefined,
  siblings: readonly Migration[],
): Rival | undefined {
  const open = siblings.filter(
    (each) => isOfSameVmi(each, migration) && !isSame(each, migration) && !isFinalMigration(each),
  );
  const owner = open.find(({ metadata }) => metadata.uid === vmi?.status?.migrationState?.migrationUid);
  const first = owner ?? open.find((each) => newestFirst(each, migration) > 0);
  return first && { name: first.metadata.name, hasState: first === owner };
}

/** One that somebody asked for after this one, other than the one that tries it again. */
export function newerOne(migration: Migration, siblings: readonly Migration[]): string | undefined {
  const newer = siblings.find(
    (each) =>
      isOfSameVmi(each, migration) &&
      newestFirst(each, migration) < 0 &&
      !isRetryOf(each, migration) &&
      !isSame(each, migration),
  );
  return newer?.metadata.name;
}

const isRetryOf = (one: Migration, other: Migration) => retriedBy(one) === other.metadata.name;

/** Other migrations that have, or had, a target pod and are not over; `ofVmi`: of the same VMI. */
export function runningBeside(
  migration: Migration,
  vmi: VirtualMachineInstance | undefined,
  deps: Pick<QueueDeps, 'migrations' | 'vmis' | 'ownPods'>,
): MigrationFacts['running'] & { readonly ofVmi: number } {
  const running = underWay(deps).filter((each) => !isSame(each, migration));
  const isOfVmi = (each: Migration) =>
    each.metadata.namespace === migration.metadata.namespace && isOfSameVmi(each, migration);
  const node = migrationEnd(migration) === 'target' ? undefined : (vmi?.status?.nodeName ?? '');
  const outbound = node === undefined ? [] : running.filter((each) => leftNode(each, deps) === node);
  return { cluster: running.length, outbound: outbound.length, ofVmi: running.filter(isOfVmi).length };
}

/**
 * Time until a migration may try. An automatic one: doubled for each of its kind that failed directly before it, from the end of the last one
 * (upstream: handleMigrationBackoff in pkg/virt-controller/watch/migration/migration.go). What tries a failed one again: the first of these
 * pauses after that one's end, whatever else has failed. A person who asks waits for nothing.
 */
export function backoffMs(migration: Migration, siblings: readonly Migration[], now: Date): number {
  const older = siblings
    .filter((each) => isOfSameVmi(each, migration) && newestFirst(each, migration) > 0 && !isBeingDeleted(each))
    .sort(newestFirst);
  if (!isAutomatic(migration)) return pauseLeftMs(older.filter((each) => isRetryOf(migration, each)).slice(0, 1), now);
  const automatic = older.filter(isAutomatic);
  const succeeded = automatic.findIndex(({ status }) => status?.phase === 'Succeeded');
  return pauseLeftMs(succeeded < 0 ? automatic : automatic.slice(0, succeeded), now);
}

/** Never more than the pause: the stamp may be of another machine, whose clock is ahead. */
function pauseLeftMs(before: readonly Migration[], now: Date): number {
  const failed = before.filter(({ status }) => status?.phase === 'Failed');
  const [last] = failed;
  if (!last) return 0;
  const stamp = last.status?.phaseTransitionTimestamps?.find(({ phase }) => phase === 'Failed');
  const failedMs = Date.parse(stamp?.phaseTransitionTimestamp ?? '') || createdMs(last);
  const pauseMs = firstBackoffMs * 2 ** (failed.length - 1);
  return Math.min(pauseMs, Math.max(0, failedMs + pauseMs - now.getTime()));
}

/** Who made it makes another one when it has failed. */
export function isAutomatic({ metadata }: Migration): boolean {
  const { evacuationMigration, workloadUpdateMigration } = annotations;
  return [evacuationMigration, workloadUpdateMigration].some((name) => metadata.annotations?.[name] !== undefined);
}

/** Those beyond the newest ones, each with the pod that it left and that has ended: its target, or where the guest came from. */
export function olderOnes(migration: Migration, siblings: readonly Migration[], own: readonly Pod[]): Superseded[] {
  const over = siblings.filter((each) => isOfSameVmi(each, migration) && isFinalMigration(each));
  return over
    .sort(newestFirst)
    .slice(keptMigrations)
    .filter((each) => !isBeingDeleted(each))
    .map((each) => ({ migration: each, pod: own.find((pod) => isLeftBy(each, pod)) }));
}

function isLeftBy({ status, metadata }: Migration, pod: Pod): boolean {
  if (!podFacts.isFinal(pod)) return false;
  if (status?.phase === 'Failed') return pod.metadata.labels?.[labels.migrationJobUid] === metadata.uid;
  return pod.metadata.name === status?.migrationState?.sourcePod;
}
