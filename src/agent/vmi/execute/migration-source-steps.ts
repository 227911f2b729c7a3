import { errorCode, errorMessage } from '../../../base/index.ts';
import type { Outcome, Step } from '../decide/index.ts';
import { migrationOptionsOf } from '../decide/index.ts';
import { sourceMemory } from '../observe/index.ts';
import type { ExecuteContext } from './context.ts';
import { replaceClaimsByHostDisks } from './host-disks.ts';
import { connect, currentVmi, ExecuteError } from './launcher-steps.ts';

/**
 * The launcher only takes the order; its progress is reported in its domain's metadata. A refusal is an answer, not a failure of
 * the step: the same order again would get the same answer, so a rule ends the migration with it.
 */
export async function migrateVirtualMachine(
  step: Step<'migrateVirtualMachine'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const vmi = migratingVmi(step, context);
  const options = migrationOptionsOf(vmi, ports.config.current().migrations);
  const calls = await connect(step.uid, context);
  migratingVmi(step, context);
  const memory = sourceMemory(observation.memory, step.migrationUid);
  const firstTryMs = memory.order.kind === 'none' ? observation.nowMs : memory.order.firstTryMs;
  try {
    await calls.migrateVirtualMachine(replaceClaimsByHostDisks(vmi), options, signal);
  } catch (error) {
    if (errorCode(error) !== 'REFUSED') throw error;
    // "Already done" is a refusal, too: the metadata tell it from the others.
    await ports.domains.refresh(observation.key, step.uid, signal);
    const refusal = errorMessage(error);
    return { kind: 'done', remember: { migration: { ...memory, order: { kind: 'refused', firstTryMs, refusal } } } };
  }
  const message = 'VirtualMachineInstance is migrating.';
  const order = { kind: 'sent', firstTryMs, sentMs: ports.clock.monotonicMs() } as const;
  const migration = { ...memory, order };
  return { kind: 'done', events: [{ type: 'Normal', reason: 'Migrating', message }], remember: { migration } };
}

export async function cancelMigration(step: Step<'cancelMigration'>, context: ExecuteContext): Promise<Outcome> {
  const { ports, signal } = context;
  const calls = await connect(step.uid, context);
  await calls.cancelVirtualMachineMigration(currentVmi(step.uid, context), signal);
  const memory = sourceMemory(context.observation.memory, step.migrationUid);
  const migration = { ...memory, cancelledMs: ports.clock.monotonicMs() };
  const message = 'VirtualMachineInstance is aborting migration.';
  return { kind: 'done', events: [{ type: 'Normal', reason: 'Migrating', message }], remember: { migration } };
}

/** Opening the streams and connecting take their time: the newest object must still want this very migration. */
function migratingVmi({ uid, migrationUid }: Step<'migrateVirtualMachine'>, context: ExecuteContext) {
  const vmi = currentVmi(uid, context);
  const newest = context.ports.vmis.get(context.observation.key) ?? vmi;
  const { migrationState: state } = newest.status ?? {};
  // In post-copy there is no way back: the order resumes it, also when it was to be aborted.
  const isAborted = state?.abortRequested === true && state.mode !== 'PostCopy';
  const isWanted = state?.migrationUid === migrationUid && !state.endTimestamp && !isAborted;
  if (isWanted && !newest.metadata.deletionTimestamp) return vmi;
  throw new ExecuteError('STALE', 'the migration was cancelled or replaced, or its VirtualMachineInstance is to end');
}
