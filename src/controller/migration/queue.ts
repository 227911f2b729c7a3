import {
  isBeingDeleted,
  isFinalMigration,
  isWaitingMigration,
  type Key,
  keyOf,
  labels,
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
    .filter((each) => !isFinalMigration(each) && (!isWaitingMigration(each) || withPods.has(each.metadata.uid)));
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
  const nodeOf = ({ metadata, spec }: Migration) =>
    deps.vmis.get(`${metadata.namespace}/${spec.vmiName}`)?.status?.nodeName ?? '';
  const leaving = new Map<string, number>();
  const count = (node: string) => leaving.get(node) ?? 0;
  for (const each of busy) leaving.set(nodeOf(each), count(nodeOf(each)) + 1);
  const isNext = (each: Migration) => each.metadata.uid === asking?.metadata.uid || isReady(each, deps, now);
  const waiting = deps.migrations.list().filter((each) => isWaitingMigration(each) && !busy.has(each) && isNext(each));
  const begins: Migration[] = [];
  for (const each of waiting.sort(inOrder)) {
    if (busy.size + begins.length >= perCluster) break;
    const node = nodeOf(each);
    if (count(node) >= perNode) continue;
    leaving.set(node, count(node) + 1);
    begins.push(each);
  }
  return begins;
}

const beginning: readonly string[] = ['not-admitted', 'accepted', 'no-target-yet'];

/** It waits for room, as far as is known: one that was not looked at yet counts, or a restart would turn the order round. */
function isReady(migration: Migration, { lastRuleOf }: QueueDeps, now: Date): boolean {
  if (isBeingDeleted(migration)) return false;
  const last = lastRuleOf(keyOf(migration), migration.metadata.uid ?? '');
  if (last === undefined || roomRules.includes(last.rule)) return true;
  return beginning.includes(last.rule) && now.getTime() - last.since.getTime() < beginMs;
}
