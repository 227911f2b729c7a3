import { hasDedicatedCpus, type VirtualMachineInstance, type VolumeStatus } from '../../../api/index.ts';
import { CodedError, errorCode, errorMessage, isRecord, listOf } from '../../../base/index.ts';
import type { Outcome, Step } from '../decide/index.ts';
import { prepareTries, type Remember, type TargetStage } from '../observe/index.ts';
import type { ExecuteContext } from './context.ts';
import { replaceClaimsByHostDisks } from './host-disks.ts';
import { runHooks, syncOptionsFor } from './host-steps.ts';
import { connect, currentVmi, done, targetFor } from './launcher-steps.ts';
import { hotPlug } from './migration-hot-plug.ts';

export class MigrationTargetError extends CodedError<'NO_CPU_SET'> {}

const remembered = (migrationUid: string, stage: TargetStage): Remember => ({
  migration: { role: 'target', migrationUid, stage },
});

/**
 * Hooks first, then the launcher. A refusal is remembered rather than thrown: whether it is asked again, and for how long, is a
 * rule's choice, and the words are what the user reads in the end.
 */
export async function prepareMigrationTarget(
  step: Step<'prepareMigrationTarget'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const { uid, migrationUid } = step;
  const calls = await connect(uid, context);
  const here = withTargetClaims(currentVmi(uid, context));
  const prepared = await runHooks('incoming', uid, here, context);
  if (prepared.kind !== 'done') return prepared;
  const { events = [], parts = [] } = prepared;
  const tries = prepareTries(observation.memory, observation.nowMs);
  const vmi = replaceClaimsByHostDisks(here);
  try {
    await calls.syncMigrationTarget(vmi, syncOptionsFor(uid, context), signal);
  } catch (error) {
    if (errorCode(error) !== 'REFUSED') throw error;
    const refusal = errorMessage(error);
    const isNews = refusalBefore(context) !== refusal;
    const refused = { type: 'Warning', reason: 'SyncFailed', message: refusal } as const;
    const remember = remembered(migrationUid, { kind: 'refused', refusal, ...tries });
    return { kind: 'done', events: isNews ? [...events, refused] : events, parts, remember };
  }
  const cpuSet = await dedicatedCpuSet(uid, context);
  const preparedMs = ports.clock.monotonicMs();
  const stage = { kind: 'prepared', preparedMs, ...tries, ...(cpuSet && { cpuSet }) } as const;
  return { kind: 'done', events, parts, remember: remembered(migrationUid, stage) };
}

/** CPUs of this pod, for a guest that has CPUs of its own; undefined: it has none. */
async function dedicatedCpuSet(uid: string, context: ExecuteContext): Promise<readonly number[] | undefined> {
  const { launchers, host } = context.ports;
  if (!hasDedicatedCpus(currentVmi(uid, context))) return undefined;
  if (!host.cpuSet) throw new MigrationTargetError('NO_CPU_SET', 'this node cannot tell which CPUs a pod may use');
  return host.cpuSet(await launchers.launcherPid(targetFor(uid, context), context.signal));
}

function refusalBefore({ observation: { memory } }: ExecuteContext): string | undefined {
  const { migration } = memory;
  return migration.role === 'target' && migration.stage.kind === 'refused' ? migration.stage.refusal : undefined;
}

export async function finalizeMigration(step: Step<'finalizeMigration'>, context: ExecuteContext): Promise<Outcome> {
  const { signal } = context;
  const { uid, migrationUid } = step;
  const vmi = currentVmi(uid, context);
  const calls = await connect(uid, context);
  const options = syncOptionsFor(uid, context);
  const { events, ...finalized } = await hotPlug(vmi, calls, options, signal);
  await calls.finalizeVirtualMachineMigration(vmi, options.interfaceMigration, signal);
  return { kind: 'done', events, remember: remembered(migrationUid, { kind: 'finalized', finalized }) };
}

/** A launcher that cannot be reached goes by itself, or has gone: nothing waits for it. */
export async function signalTargetPodCleanup(
  { uid }: Step<'signalTargetPodCleanup'>,
  context: ExecuteContext,
): Promise<Outcome> {
  try {
    const calls = await connect(uid, context);
    await calls.signalTargetPodCleanup(currentVmi(uid, context), context.signal);
    return done;
  } catch (error) {
    return { kind: 'wait', afterMs: 1, reason: errorMessage(error) };
  }
}

type Json = Readonly<Record<string, unknown>>;

/**
 * A copy in which volumes that change their claim with the migration carry the facts of the claim they move to: sizes and modes
 * of disks are made from these. Works on a copy: upstream rewrites the object that it writes back.
 */
export function withTargetClaims(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const { status } = vmi;
  const moved = movedClaims(status?.migratedVolumes);
  if (!status?.volumeStatus || moved.size === 0) return vmi;
  const volumeStatus = status.volumeStatus.map((volume) => withClaim(volume, moved.get(volume.name)));
  return { ...vmi, status: { ...status, volumeStatus } };
}

function withClaim(volume: VolumeStatus, claim: Json | undefined): VolumeStatus {
  return claim && volume.persistentVolumeClaimInfo ? { ...volume, persistentVolumeClaimInfo: claim } : volume;
}

/** `status.migratedVolumes`: volume name → facts of the destination's claim. Entries of a wrong shape are none. */
function movedClaims(migratedVolumes: unknown): ReadonlyMap<string, Json> {
  const entries = listOf(migratedVolumes).flatMap((item): [string, Json][] => {
    if (!isRecord(item) || typeof item.volumeName !== 'string') return [];
    return isRecord(item.destinationPVCInfo) ? [[item.volumeName, item.destinationPVCInfo]] : [];
  });
  return new Map(entries);
}
