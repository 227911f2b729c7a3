import {
  isBeingDeleted,
  isFinalMigration,
  isWaitingMigration,
  type Key,
  keyOf,
  labels,
  migrationEnd,
  type Pod,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import type { MigrationLimits } from '../../cluster-config/index.ts';
import type { Observed } from '../../reconcile/index.ts';

type Migration = VirtualMachineInstanceMigration;

export interface QueueDeps {
  readonly migrations: { list(): readonly Migration[] };
  readonly vmis: { get(key: Key): VirtualMachineInstance | undefined };
  readonly ownPods: { list(): readonly Pod[] };
  /** What was decided on a migration last. */
  readonly lastRuleOf: (key: Key, uid: string) => Observed['lastRule'];
}

export type QueueLimits = Pick<MigrationLimits, 'perCluster' | 'perNode'>;

/** Names of the rules that wait for nothing but room. */
export const roomRules: readonly string[] = ['cluster-limit', 'node-limit', 'others-first'];
/** A migration that has not begun after this time though it could is held up by something else: others pass it. */
const beginMs = 10_000;

/** The most urgent first, then the oldest; upstream's numbers (pkg/util/migrations/migrations.go) have the same order. */
const priorities = ['system-critical', 'user-triggered', 'system-maintenance'];

function inOrder(one: Migration, other: Migration): number {
  return rankOf(one) - rankOf(other) || createdMs(one) - createdMs(other) || (keyOf(one) < keyOf(other) ? -1 : 1);
}

function rankOf({ spec }: Migration): number {
  const rank = priorities.indexOf(spec.priority ?? '');
  return rank < 0 ? priorities.length : rank;
}

function createdMs({ metadata }: Migration): number {
  return Date.parse(metadata.creationTimestamp ?? '') || 0;
}

/** Migrations that have, or had, a target pod and are not over. */
export function underWay({ migrations, ownPods }: Pick<QueueDeps, 'migrations' | 'ownPods'>): Migration[] {
  const withPods = new Set(ownPods.list().map(({ metadata }) => metadata.labels?.[labels.migrationJobUid]));
  return migrations
    .list()
    .filter((each) => !isFinalMigration(each) && (!isBeforeTarget(each) || withPods.has(each.metadata.uid)));
}

/** A source whose target is on another side counts only when that one has its pod: it may wait for room itself. */
function isBeforeTarget(migration: Migration): boolean {
  return (
    isWaitingMigration(migration) || (migrationEnd(migration) === 'source' && migration.status?.phase === 'Scheduling')
  );
}

/** Undefined: its guest comes from elsewhere. */
export function leftNode(migration: Migration, { vmis }: Pick<QueueDeps, 'vmis'>): string | undefined {
  const { metadata, spec } = migration;
  if (migrationEnd(migration) === 'target') return undefined;
  return vmis.get(`${metadata.namespace}/${spec.vmiName}`)?.status?.nodeName ?? '';
}

/**
 * The migrations that may begin now: as many as limits leave room for, without those that wait for something else than room. `asking` is
 * looked at right now, and waits for nothing else.
 */
export function nextInLine(
  deps: QueueDeps,
  { perCluster, perNode }: QueueLimits,
  now: Date,
  asking?: Migration,
): Migration[] {
  // A pod that says it is its target, and that nobody recorded, does not make `asking` one that has begun.
  const busy = new Set(underWay(deps).filter(({ metadata }) => metadata.uid !== asking?.metadata.uid));
  const leaving = new Map<string, number>();
  const count = (node: string | undefined) => (node === undefined ? 0 : (leaving.get(node) ?? 0));
  const leaves = (node: string | undefined) => {
    if (node !== undefined) leaving.set(node, count(node) + 1);
  };
  for (const each of busy) leaves(leftNode(each, deps));
  const isNext = (each: Migration) => each.metadata.uid === asking?.metadata.uid || isReady(each, deps, now);
  const needsRoom = (each: Migration) => isWaitingMigration(each) && migrationEnd(each) !== 'source';
  const waiting = deps.migrations.list().filter((each) => needsRoom(each) && !busy.has(each) && isNext(each));
  const begins: Migration[] = [];
  for (const each of waiting.sort(inOrder)) {
    if (busy.size + begins.length >= perCluster) break;
    const node = leftNode(each, deps);
    if (count(node) >= perNode) continue;
    leaves(node);
    begins.push(each);
  }
  return begins;
}

const beginning: readonly string[] = ['not-admitted', 'accepted', 'halves-joined', 'no-target-yet'];

/** It waits for room, as far as is known: one that was not looked at yet counts, or a restart would turn the order round. */
function isReady(migration: Migration, { lastRuleOf }: QueueDeps, now: Date): boolean {
  if (isBeingDeleted(migration)) return false;
  const last = lastRuleOf(keyOf(migration), migration.metadata.uid ?? '');
  if (last === undefined || roomRules.includes(last.rule)) return true;
  return beginning.includes(last.rule) && now.getTime() - last.since.getTime() < beginMs;
}
