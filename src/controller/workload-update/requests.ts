import {
  annotations,
  keyOf,
  type Pod,
  resources,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { ObjectEvent, ReadYourWrites } from '../../reconcile/index.ts';
import { podFacts } from '../pod/index.ts';
import { isChangeAwaited, type UpdatePlan } from './plan.ts';

export interface RequestDeps {
  readonly client: Pick<KubeClient, 'create' | 'createSubresource' | 'delete'>;
  readonly migrations: Pick<ReadYourWrites<VirtualMachineInstanceMigration>, 'created'>;
  readonly ownPods: { list(): readonly Pod[] };
  readonly noteOnVmi: (vmi: VirtualMachineInstance, event: ObjectEvent) => void;
}

/** All of it side by side. What went wrong; each VMI has an event about it. */
export async function carryOut(plan: UpdatePlan, deps: RequestDeps, signal: AbortSignal): Promise<string[]> {
  const ends = await Promise.all([
    ...plan.migrate.map((vmi) => migrate(vmi, deps, signal)),
    ...plan.evict.map((vmi) => evict(vmi, deps, signal)),
    ...plan.abort.map((one) => abort(one, deps, signal)),
  ]);
  return ends.filter((problem) => problem !== undefined);
}

async function migrate(
  vmi: VirtualMachineInstance,
  { client, migrations, noteOnVmi }: RequestDeps,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const created = await client.create(resources.migrations, migrationOf(vmi), { signal });
    migrations.created(keyOf(created), created);
    const message = `Created Migration ${created.metadata.name} for automated workload update`;
    noteOnVmi(vmi, { type: 'Normal', reason: 'SuccessfulCreate', message });
    return undefined;
  } catch (error) {
    if (signal.aborted) throw error;
    const message = `Error creating a Migration for automated workload update: ${errorMessage(error)}`;
    noteOnVmi(vmi, { type: 'Warning', reason: 'FailedCreate', message });
    return message;
  }
}

function migrationOf(vmi: VirtualMachineInstance): VirtualMachineInstanceMigration {
  const { namespace = 'default', name } = vmi.metadata;
  const migration: Omit<VirtualMachineInstanceMigration, 'metadata'> & { metadata: object } = {
    apiVersion: 'kubevirt.io/v1',
    kind: resources.migrations.kind,
    metadata: {
      namespace,
      generateName: 'kubevirt-workload-update-',
      annotations: { [annotations.workloadUpdateMigration]: '' },
    },
    spec: { vmiName: name, priority: isChangeAwaited(vmi) ? 'user-triggered' : 'system-critical' },
  };
  // The API server makes the name.
  return migration as VirtualMachineInstanceMigration;
}

async function evict(
  vmi: VirtualMachineInstance,
  { client, ownPods, noteOnVmi }: RequestDeps,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { activePods = {} } = vmi.status ?? {};
  const own = ownPods.list().filter(({ metadata }) => activePods[metadata.uid ?? ''] !== undefined);
  const pod = podFacts.currentPod(vmi, own);
  if (!pod) return undefined;
  const { namespace, name } = pod.metadata;
  const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace, name } };
  try {
    await client.createSubresource(resources.pods, pod.metadata, 'eviction', body, { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    if (isKubeError(error, 'NOT_FOUND')) return undefined;
    const message = `Error deleting VMI during automated workload update: ${errorMessage(error)}`;
    noteOnVmi(vmi, { type: 'Warning', reason: 'FailedEvict', message });
    return message;
  }
  const message = 'Initiated eviction of VMI as part of automated workload update';
  noteOnVmi(vmi, { type: 'Normal', reason: 'SuccessfulEvict', message });
  return undefined;
}

async function abort(
  { vmi, migration: { metadata } }: UpdatePlan['abort'][number],
  { client, noteOnVmi }: RequestDeps,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { name } = vmi.metadata;
  try {
    await writeIfThere(client.delete(resources.migrations, metadata, { uid: metadata.uid, signal }));
    const message = `Aborted change for vmi: ${name}`;
    noteOnVmi(vmi, { type: 'Normal', reason: 'SuccessfulChangeAbortion', message });
    return undefined;
  } catch (error) {
    if (signal.aborted) throw error;
    const message = `Failed to abort change for vmi: ${name}: ${errorMessage(error)}`;
    noteOnVmi(vmi, { type: 'Warning', reason: 'FailedChangeAbortion', message });
    return message;
  }
}
