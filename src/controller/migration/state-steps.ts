import { keptState, resources } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { writeIfThere } from '../../kube/index.ts';
import type { ObjectEvent, Outcome, Step } from '../../reconcile/index.ts';
import { createStateClaim as create } from '../kept-state/index.ts';
import type { ExecuteContext, MigrationStepArgs } from './steps.ts';

const type = resources.persistentVolumeClaims;
const done: Outcome = { kind: 'done' };

export async function createStateClaim(
  _: Step<MigrationStepArgs, 'createStateClaim'>,
  { client, observation: { vmi, migration, config }, signal }: ExecuteContext,
): Promise<Outcome> {
  if (!vmi) return done;
  try {
    const deps = { client, storageClass: config.vmStateStorageClass, signal };
    const { claim, isNew } = await create(vmi, { kind: 'migration', migration }, deps);
    const message = `Created claim ${claim.metadata.name} for the state of the virtual machine on the target`;
    return isNew ? { kind: 'done', events: [{ type: 'Normal', reason: 'SuccessfulCreate', message }] } : done;
  } catch (error) {
    if (signal.aborted) throw error;
    const message = `Error creating the claim for the state of the VM: ${errorMessage(error)}`;
    const event: ObjectEvent = { type: 'Warning', reason: 'FailedBackendStorageCreate', message };
    return { kind: 'failed', error: { severity: 'retry', code: 'STATE_CLAIM_FAILED', message }, events: [event] };
  }
}

/** The label first: of two claims that both have it the newer one counts. */
export async function handStateOver(
  { claim, sources }: Step<MigrationStepArgs, 'handStateOver'>,
  { client, observation: { migration }, signal }: ExecuteContext,
): Promise<Outcome> {
  const { metadata } = claim;
  const labels = { [keptState.label]: migration.spec.vmiName, [keptState.migrationLabel]: null };
  const body = { metadata: { uid: metadata.uid, labels } };
  const isThere = await writeIfThere(client.patch(type, metadata, body, 'merge', { signal }));
  if (!isThere) return done;
  for (const { metadata: source } of sources) {
    await writeIfThere(client.delete(type, source, { uid: source.uid, signal }));
  }
  return done;
}

export async function deleteStateClaim(
  { claim: { metadata } }: Step<MigrationStepArgs, 'deleteStateClaim'>,
  { client, signal }: ExecuteContext,
): Promise<Outcome> {
  await writeIfThere(client.delete(type, metadata, { uid: metadata.uid, signal }));
  return done;
}
