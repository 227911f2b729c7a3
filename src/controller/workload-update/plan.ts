import {
  annotations,
  findCondition,
  isBeingDeleted,
  isFinalMigration,
  isMigratable,
  isMigrating,
  isWaitingMigration,
  keyOf,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import type { Strategy } from './strategy.ts';

export interface UpdateFacts {
  readonly vmis: readonly VirtualMachineInstance[];
  readonly migrations: readonly VirtualMachineInstanceMigration[];
  readonly strategy: Strategy;
  readonly launcherImage: string;
  readonly migrationsPerCluster: number;
  /** Of the last evictions; undefined: there were none. */
  readonly sinceBatchMs: number | undefined;
  /** 0 to 1. */
  readonly random: () => number;
}

export interface UpdatePlan {
  readonly migrate: readonly VirtualMachineInstance[];
  readonly evict: readonly VirtualMachineInstance[];
  /** Migrations whose reason is gone, with their VMIs. */
  readonly abort: readonly {
    readonly vmi: VirtualMachineInstance;
    readonly migration: VirtualMachineInstanceMigration;
  }[];
  /** There is more to do than what is done now. */
  readonly hasMore: boolean;
}

/** What is to be done now, so that no more migrations wait than can begin (upstream: getUpdateData and sync of the workload updater). Pure. */
export function planUpdates(facts: UpdateFacts): UpdatePlan {
  const { vmis, migrations, strategy, migrationsPerCluster } = facts;
  const open = migrations.filter((each) => !isFinalMigration(each));
  const running = vmis.filter((vmi) => vmi.status?.phase === 'Running' && !isBeingDeleted(vmi));
  const openOf = (vmi: VirtualMachineInstance) => open.filter((each) => isOf(each, vmi));
  const abort = running.flatMap((vmi) => needlessOf(vmi, openOf(vmi), facts).map((migration) => ({ vmi, migration })));
  const due = running.filter((vmi) => !isMigrating(vmi) && openOf(vmi).length === 0 && isDue(vmi, facts));
  const movable = due.filter((vmi) => strategy.mayMigrate && isMigratable(vmi));
  const others = due.filter((vmi) => strategy.mayEvict && !movable.includes(vmi) && isOutdated(vmi, facts));
  const room = migrationsPerCluster - open.filter((each) => !isWaitingMigration(each) || isOurs(each)).length;
  const isBatchDue = facts.sinceBatchMs === undefined || facts.sinceBatchMs >= strategy.batchIntervalMs;
  const migrate = inRandomOrder(movable, facts.random).slice(0, Math.max(0, room));
  const evict = isBatchDue ? others.slice(0, strategy.batchSize) : [];
  return { migrate, evict, abort, hasMore: migrate.length < movable.length || evict.length < others.length };
}

function isOurs({ metadata }: VirtualMachineInstanceMigration): boolean {
  return metadata.annotations?.[annotations.workloadUpdateMigration] !== undefined;
}

function isOf({ metadata, spec }: VirtualMachineInstanceMigration, vmi: VirtualMachineInstance): boolean {
  return `${metadata.namespace}/${spec.vmiName}` === keyOf(vmi);
}

/** What comes to the guest with a migration is urgent for its user; an older image is not, and those that fail must not block the rest. */
function inRandomOrder(vmis: readonly VirtualMachineInstance[], random: () => number): VirtualMachineInstance[] {
  const ranked = vmis.map((vmi) => ({ vmi, rank: (isChangeAwaited(vmi) ? 0 : 1) + random() }));
  return ranked.sort((one, other) => one.rank - other.rank).map(({ vmi }) => vmi);
}

function isDue(vmi: VirtualMachineInstance, facts: UpdateFacts): boolean {
  return isOutdated(vmi, facts) || (!isAbortAsked(vmi) && isChangeAwaited(vmi));
}

/** Unknown while a launcher is new: the VMI controller says it when the guest runs, or has arrived. */
function isOutdated({ status }: VirtualMachineInstance, { launcherImage }: UpdateFacts): boolean {
  const image = status?.launcherContainerImageVersion;
  return image !== undefined && image !== '' && image !== launcherImage;
}

/** The VMI has a change that comes into effect with a migration: CPUs, memory, networks, or volumes. */
export function isChangeAwaited({ status }: VirtualMachineInstance): boolean {
  const condition = (type: string) => findCondition(status?.conditions, type);
  const isTrue = (type: string) => condition(type)?.status === 'True';
  const isResized = condition('HotVCPUChange') !== undefined || isTrue('HotMemoryChange');
  return isResized || isTrue('MigrationRequired') || isTrue('VolumesChange');
}

function isAbortAsked({ metadata }: VirtualMachineInstance): boolean {
  return metadata.annotations?.[annotations.workloadUpdateAbort] !== undefined;
}

/** Its reason is gone, and the guest has not arrived yet. */
function needlessOf(
  vmi: VirtualMachineInstance,
  open: readonly VirtualMachineInstanceMigration[],
  facts: UpdateFacts,
): VirtualMachineInstanceMigration[] {
  const own = open.filter((each) => isOurs(each) && !isBeingDeleted(each));
  if (isOutdated(vmi, facts)) return [];
  if (isAbortAsked(vmi)) return own;
  return isChangeAwaited(vmi) || vmi.status?.migrationState?.targetNodeDomainReadyTimestamp ? [] : own;
}
