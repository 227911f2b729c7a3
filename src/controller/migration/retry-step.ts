import { keyOf, resources, retriedBy, type VirtualMachineInstanceMigration } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { isKubeError } from '../../kube/index.ts';
import type { ObjectEvent, Outcome, Step } from '../../reconcile/index.ts';
import { retryOf } from './retry.ts';
import type { ExecuteContext, MigrationStepArgs } from './steps.ts';

/** Of a retry that the API server does not take: it is not asked again. */
export const retryRefusedCode = 'RETRY_REFUSED';

/** Whether it is there is not known, or it may be taken later. */
const unclear = [
  'UNREACHABLE',
  'TIMEOUT',
  'SERVER_ERROR',
  'TOO_MANY_REQUESTS',
  'BAD_RESPONSE',
  'UNAUTHORIZED',
] as const;

/** Makes the one migration that tries this one again. */
export async function tryAgain(_: Step<MigrationStepArgs, 'tryAgain'>, context: ExecuteContext): Promise<Outcome> {
  const { migration, vmi } = context.observation;
  const wanted = retryOf(migration);
  try {
    const made = await createOrFind(wanted, context);
    if (!made) return refused(`another migration ${wanted.metadata.name} exists`);
    context.migrations.created(keyOf(made), made);
  } catch (error) {
    if (context.signal.aborted) throw error;
    if (!isKubeError(error, ...unclear)) return refused(errorMessage(error));
    const message = `Error creating migration ${wanted.metadata.name}: ${errorMessage(error)}`;
    return { kind: 'failed', error: { severity: 'retry', code: 'CREATE_FAILED', message } };
  }
  const { name } = migration.metadata;
  const message = `Migration ${name} ended by a loss before the guest had moved. It is tried again as ${wanted.metadata.name}`;
  const event: ObjectEvent = { type: 'Normal', reason: 'MigrationRetried', message };
  if (vmi) context.noteOnVmi(vmi, event);
  return { kind: 'done', events: [event] };
}

/** One of this name that says it tries this one again is ours, from a try whose answer was lost. */
async function createOrFind(
  wanted: VirtualMachineInstanceMigration,
  { client, signal }: ExecuteContext,
): Promise<VirtualMachineInstanceMigration | undefined> {
  try {
    return await client.create(resources.migrations, wanted, { signal });
  } catch (error) {
    if (signal.aborted || !isKubeError(error, 'ALREADY_EXISTS')) throw error;
  }
  const found = await client.get<VirtualMachineInstanceMigration>(resources.migrations, wanted.metadata, { signal });
  const isOurs = retriedBy(found) === retriedBy(wanted) && found.spec.vmiName === wanted.spec.vmiName;
  return isOurs ? found : undefined;
}

function refused(why: string): Outcome {
  const message = `not tried again: ${why}`;
  return { kind: 'failed', error: { severity: 'retry', code: retryRefusedCode, message } };
}
