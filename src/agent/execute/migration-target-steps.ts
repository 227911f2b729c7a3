import type { Outcome, Step } from '../decide/index.ts';
import type { MigrationMemory } from '../observe/index.ts';
import type { ExecuteContext } from './context.ts';
import { replaceClaimsByHostDisks } from './host-disks.ts';
import { connect, done } from './launcher-steps.ts';
import { currentVmi, prepareHost } from './start-steps.ts';

export function migrationMemory(
  migrationUid: string,
  { observation }: ExecuteContext,
  more: Omit<MigrationMemory, 'migrationUid'>,
): MigrationMemory {
  const { migration } = observation.memory;
  return { ...(migration?.migrationUid === migrationUid ? migration : {}), ...more, migrationUid };
}

export async function prepareMigrationTarget(
  step: Step<'prepareMigrationTarget'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const { uid, migrationUid } = step;
  const calls = await connect(uid, context);
  const prepared = await prepareHost({ step: 'prepareHost', uid }, context);
  if (prepared.kind !== 'done') return prepared;
  await calls.syncMigrationTarget(replaceClaimsByHostDisks(currentVmi(uid, context)), observation.syncOptions, signal);
  const migration = migrationMemory(migrationUid, context, { preparedMs: ports.clock.monotonicMs() });
  return { kind: 'done', ...(prepared.events && { events: prepared.events }), remember: { migration } };
}

export async function finalizeMigration(step: Step<'finalizeMigration'>, context: ExecuteContext): Promise<Outcome> {
  const { signal } = context;
  const { uid, migrationUid } = step;
  const calls = await connect(uid, context);
  await calls.finalizeVirtualMachineMigration(currentVmi(uid, context), {}, signal);
  return { kind: 'done', remember: { migration: migrationMemory(migrationUid, context, { finalized: {} }) } };
}

export async function signalTargetPodCleanup(
  { uid }: Step<'signalTargetPodCleanup'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const calls = await connect(uid, context);
  await calls.signalTargetPodCleanup(currentVmi(uid, context), context.signal);
  return done;
}
