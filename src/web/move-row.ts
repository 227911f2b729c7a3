import {
  findCondition,
  isFinalMigration,
  type MigrationStatus,
  publishedProgress,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../api/index.ts';
import { isRecord } from '../base/index.ts';
import type { MoveRow } from './rows.ts';

/** The newest migration of an instance, as its line shows it. Undefined: there is none. */
export function moveRow(
  migrations: readonly VirtualMachineInstanceMigration[],
  vmi: VirtualMachineInstance,
): MoveRow | undefined {
  const [newest] = [...migrations].sort(newestFirst);
  if (!newest) return undefined;
  // It says which nodes before the migration does, which has a copy in the end only.
  const own: unknown = vmi.status?.migrationState;
  const isOwn = isRecord(own) && own.migrationUid === newest.metadata.uid;
  const state = (isOwn ? vmi.status : newest.status)?.migrationState ?? {};
  const nodes = {
    ...(state.sourceNode && { from: String(state.sourceNode) }),
    ...(state.targetNode && { to: String(state.targetNode) }),
  };
  return isFinalMigration(newest) ? endedMove(newest, nodes) : moveUnderWay(newest, nodes, vmi);
}

interface Nodes {
  readonly from?: string;
  readonly to?: string;
}

function moveUnderWay(
  { metadata, status }: VirtualMachineInstanceMigration,
  nodes: Nodes,
  vmi: VirtualMachineInstance,
): MoveRow {
  const progress = publishedProgress(vmi);
  const waitsFor = waitingText(status);
  return {
    ...{ kind: 'under-way', phase: status?.phase || 'Pending', ...nodes },
    isCancelled: metadata.deletionTimestamp !== undefined,
    ...(waitsFor !== undefined && { waitsFor }),
    ...(progress && progress.migration === metadata.uid && { progress }),
  };
}

/** Conditions of a migration that does not go on (src/controller/migration). */
const waits = ['migrationTargetPodUnschedulable', 'migrationRejectedByResourceQuota', 'UtilityVolumesPresent'];

function waitingText(status: MigrationStatus | undefined): string | undefined {
  const found = waits.map((type) => findCondition(status?.conditions, type)).find((each) => each?.status === 'True');
  return found && String(found.message || found.reason || found.type);
}

function endedMove({ metadata, status }: VirtualMachineInstanceMigration, { from, to }: Nodes): MoveRow {
  const { phase, phaseTransitionTimestamps = [], migrationState, conditions } = status ?? {};
  const at = timeOf(phaseTransitionTimestamps, phase) ?? metadata.creationTimestamp ?? '';
  if (phase === 'Failed') {
    const failed = findCondition(conditions, 'migrationFailed');
    const reason = failed?.message || migrationState?.failureReason || failed?.reason || 'nobody says why';
    return { kind: 'failed', at, reason: String(reason), ...(to && { to }) };
  }
  const tookMs = Date.parse(String(migrationState?.endTimestamp)) - Date.parse(String(migrationState?.startTimestamp));
  return {
    ...{ kind: 'arrived', at },
    ...(from && { from }),
    ...(to && { to }),
    ...(tookMs >= 0 && { tookMs }),
  };
}

function timeOf(times: NonNullable<MigrationStatus['phaseTransitionTimestamps']>, phase: string | undefined) {
  return Array.isArray(times) ? times.find((each) => each?.phase === phase)?.phaseTransitionTimestamp : undefined;
}

/** One that is not over is the newest, whatever clocks say. */
function newestFirst(one: VirtualMachineInstanceMigration, other: VirtualMachineInstanceMigration): number {
  const rank = (each: VirtualMachineInstanceMigration) => (isFinalMigration(each) ? 1 : 0);
  const made = ({ metadata }: VirtualMachineInstanceMigration) => metadata.creationTimestamp ?? '';
  return rank(one) - rank(other) || made(other).localeCompare(made(one));
}
