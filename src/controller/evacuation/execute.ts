import {
  annotations,
  keyOf,
  resources,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import { together } from '../owned/index.ts';
import type { EvacuationStepArgs } from './decide.ts';
import { cordonNote } from './observe.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'delete' | 'patch'>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'saw'>;
  readonly migrations: Pick<ReadYourWrites<VirtualMachineInstanceMigration>, 'created'>;
  readonly node: string;
  readonly noteOnVmi: (vmi: VirtualMachineInstance, event: ObjectEvent) => void;
}

const done: Outcome = { kind: 'done' };

export const executors: Executors<EvacuationStepArgs, ExecuteContext> = {
  createMigrations,
  clearMarks,
  cancelWaiting,
  noteCordon: (_, context) => setNote('true', context),
  forgetCordon: (_, context) => setNote(null, context),
};

async function setNote(value: 'true' | null, { client, node, signal }: ExecuteContext): Promise<Outcome> {
  const body = { metadata: { annotations: { [cordonNote]: value } } };
  try {
    await writeIfThere(client.patch(resources.nodes, { name: node }, body, 'merge', { signal }));
  } catch (error) {
    // Where the controller has no right to it, guests leave all the same.
    if (!isKubeError(error, 'FORBIDDEN')) throw error;
  }
  return done;
}

/** A few side by side, so that a full node does not take all connections; how many move at once is for the controller of migrations. */
async function createMigrations(
  { vmis }: Step<EvacuationStepArgs, 'createMigrations'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const error = await together(vmis, (vmi) => createMigration(vmi, context));
  if (error === undefined) return done;
  context.signal.throwIfAborted();
  const message = `Error creating a Migration: ${errorMessage(error)}`;
  return { kind: 'failed', error: { severity: 'retry', code: 'CREATE_FAILED', message } };
}

async function createMigration(
  vmi: VirtualMachineInstance,
  { client, migrations, node, noteOnVmi, signal }: ExecuteContext,
): Promise<void> {
  signal.throwIfAborted();
  try {
    const created = await client.create(resources.migrations, migrationOf(vmi, node), { signal });
    migrations.created(keyOf(created), created);
    const message = `Created Migration ${created.metadata.name}`;
    noteOnVmi(vmi, { type: 'Normal', reason: 'SuccessfulCreate', message });
  } catch (error) {
    const message = `Error creating a Migration: ${errorMessage(error)}`;
    if (!signal.aborted) noteOnVmi(vmi, { type: 'Warning', reason: 'FailedCreate', message });
    throw error;
  }
}

/** Upstream: GenerateNewMigration in pkg/virt-controller/watch/drain/evacuation/evacuation.go. */
function migrationOf({ metadata }: VirtualMachineInstance, node: string) {
  const { namespace = 'default', name } = metadata;
  const isDescheduler = metadata.annotations?.[annotations.evictionSource] === 'descheduler';
  const migration: Omit<VirtualMachineInstanceMigration, 'metadata'> & { metadata: object } = {
    apiVersion: 'kubevirt.io/v1',
    kind: resources.migrations.kind,
    metadata: {
      namespace,
      generateName: 'kubevirt-evacuation-',
      annotations: { [annotations.evacuationMigration]: node },
    },
    spec: { vmiName: name, priority: isDescheduler ? 'system-maintenance' : 'system-critical' },
  };
  // The API server makes the name.
  return migration as VirtualMachineInstanceMigration;
}

async function clearMarks(
  { vmis: marked }: Step<EvacuationStepArgs, 'clearMarks'>,
  { client, vmis, node, signal }: ExecuteContext,
): Promise<Outcome> {
  const path = '/status/evacuationNodeName';
  for (const vmi of marked) {
    const operations = [
      { op: 'test', path: '/metadata/uid', value: vmi.metadata.uid },
      { op: 'test', path, value: node },
      { op: 'remove', path },
    ];
    try {
      const type = resources.virtualMachineInstances;
      vmis.saw(
        keyOf(vmi),
        vmi,
        await client.patch<VirtualMachineInstance>(type, vmi.metadata, operations, 'json', { signal }),
      );
    } catch (error) {
      // Another client has cleared it, or the VMI is gone.
      if (!isKubeError(error, 'NOT_FOUND', 'CONFLICT', 'INVALID')) throw error;
    }
  }
  return done;
}

async function cancelWaiting(
  { migrations }: Step<EvacuationStepArgs, 'cancelWaiting'>,
  { client, signal }: ExecuteContext,
): Promise<Outcome> {
  for (const { metadata } of migrations) {
    await writeIfThere(client.delete(resources.migrations, metadata, { uid: metadata.uid, signal }));
  }
  return done;
}
