import type { Outcome, Step } from '../decide/index.ts';
import { migrationOptionsOf } from '../decide/index.ts';
import type { ExecuteContext } from './context.ts';
import { replaceClaimsByHostDisks } from './host-disks.ts';
import { connect } from './launcher-steps.ts';
import { migrationMemory } from './migration-target-steps.ts';
import { currentVmi } from './start-steps.ts';

export async function migrateVirtualMachine(
  step: Step<'migrateVirtualMachine'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { ports, signal } = context;
  const vmi = currentVmi(step.uid, context);
  const calls = await connect(step.uid, context);
  await calls.migrateVirtualMachine(replaceClaimsByHostDisks(vmi), migrationOptionsOf(vmi), signal);
  const migration = migrationMemory(step.migrationUid, context, { sentMs: ports.clock.monotonicMs() });
  const message = 'VirtualMachineInstance is migrating.';
  return { kind: 'done', events: [{ type: 'Normal', reason: 'Migrating', message }], remember: { migration } };
}

export async function cancelMigration(step: Step<'cancelMigration'>, context: ExecuteContext): Promise<Outcome> {
  const { ports, signal } = context;
  const calls = await connect(step.uid, context);
  await calls.cancelVirtualMachineMigration(currentVmi(step.uid, context), signal);
  const migration = migrationMemory(step.migrationUid, context, { cancelledMs: ports.clock.monotonicMs() });
  const message = 'VirtualMachineInstance is aborting migration.';
  return { kind: 'done', events: [{ type: 'Normal', reason: 'Migrating', message }], remember: { migration } };
}
