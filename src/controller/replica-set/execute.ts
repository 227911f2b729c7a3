import {
  controllerOf,
  isBeingDeleted,
  keyOf,
  observedApiVersion,
  resources,
  type VirtualMachineInstance,
  type VirtualMachineInstanceReplicaSet,
} from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import {
  controllerReference,
  type Dependents,
  inBatches,
  type NewNames,
  releaseOperations,
  together,
} from '../owned/index.ts';
import type { SetStepArgs } from './decide.ts';

type Vmi = VirtualMachineInstance;

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'delete' | 'patch'>;
  readonly sets: Pick<ReadYourWrites<VirtualMachineInstanceReplicaSet>, 'saw'>;
  readonly vmis: ReadYourWrites<Vmi>;
  readonly members: Pick<Dependents<Vmi>, 'created'>;
  readonly names: NewNames;
  /** Names of the set's VMIs that were observed. */
  readonly seen: ReadonlySet<string>;
  readonly key: string;
  readonly set: VirtualMachineInstanceReplicaSet;
}

const done: Outcome = { kind: 'done' };
const type = resources.virtualMachineInstances;

export const executors: Executors<SetStepArgs, ExecuteContext> = {
  noteVersions,
  releaseVmis,
  adoptVmis,
  createVmis,
  deleteVmis,
};

async function noteVersions(_step: object, { client, sets, key, set, signal }: ExecuteContext): Promise<Outcome> {
  const { uid, resourceVersion } = set.metadata;
  const body = { metadata: { uid, resourceVersion, annotations: observedApiVersion } };
  const type = resources.replicaSets;
  await writeIfThere(
    client.patch<VirtualMachineInstanceReplicaSet>(type, set.metadata, body, 'merge', { signal }).then((newer) => {
      sets.saw(key, set, newer);
    }),
  );
  return done;
}

async function releaseVmis(
  { vmis: strayed }: Step<SetStepArgs, 'releaseVmis'>,
  { client, vmis, set, signal }: ExecuteContext,
): Promise<Outcome> {
  const error = await together(strayed, async (vmi) => {
    const operations = releaseOperations(vmi, set.metadata.uid);
    await writeIfThere(
      client.patch<Vmi>(type, vmi.metadata, operations, 'json', { signal }).then((newer) => {
        vmis.saw(keyOf(vmi), vmi, newer);
      }),
    );
  });
  if (error !== undefined) throw error;
  return done;
}

/** Not for a set that was deleted meanwhile, or made anew: the API server is asked, as Kubernetes' own controllers do. */
async function adoptVmis(
  { vmis: orphans }: Step<SetStepArgs, 'adoptVmis'>,
  { client, vmis, set, signal }: ExecuteContext,
): Promise<Outcome> {
  const live = await getIfThere(client, resources.replicaSets, set.metadata, { signal });
  if (live?.metadata.uid !== set.metadata.uid || !live || isBeingDeleted(live)) return done;
  const reference = controllerReference(resources.replicaSets, set);
  const error = await together(orphans, async (vmi) => {
    const { uid, resourceVersion, ownerReferences = [] } = vmi.metadata;
    const body = { metadata: { uid, resourceVersion, ownerReferences: [...ownerReferences, reference] } };
    await writeIfThere(
      client.patch<Vmi>(type, vmi.metadata, body, 'merge', { signal }).then((newer) => {
        vmis.saw(keyOf(vmi), vmi, newer);
      }),
    );
  });
  if (error !== undefined) throw error;
  return done;
}

async function createVmis({ count }: Step<SetStepArgs, 'createVmis'>, context: ExecuteContext): Promise<Outcome> {
  const { names, seen, key, set, signal } = context;
  const events: ObjectEvent[] = [];
  const error = await inBatches(names.take(key, baseName(set), count, seen), async (name) => {
    const vmi = await createVmi(name, context);
    const message = `Started the virtual machine by creating the new virtual machine instance ${vmi.metadata.name}`;
    events.push({ type: 'Normal', reason: 'SuccessfulCreate', message });
  });
  if (error === undefined) return { kind: 'done', events };
  if (signal.aborted) throw error;
  return failed('FailedCreate', `Error creating virtual machine instance: ${errorMessage(error)}`, events);
}

async function createVmi(name: string, { client, members, names, key, set, signal }: ExecuteContext): Promise<Vmi> {
  const vmi = makeVmi(name, set);
  try {
    const created = await client.create(type, vmi, { signal });
    members.created(created);
    return created;
  } catch (error) {
    const existing = isKubeError(error, 'ALREADY_EXISTS') ? await ownVmi(vmi, set, client, signal) : undefined;
    if (existing) {
      members.created(existing);
      return existing;
    }
    if (isWithoutAnswer(error)) names.unanswered(key, name);
    throw error;
  }
}

/** Made by an earlier request, of which no answer came. */
async function ownVmi(
  { metadata }: Vmi,
  set: VirtualMachineInstanceReplicaSet,
  client: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<Vmi | undefined> {
  const vmi = await getIfThere<Vmi>(client, type, metadata, { signal });
  return vmi && controllerOf(vmi)?.uid === set.metadata.uid ? vmi : undefined;
}

/** The request may have been carried out, or may be yet. */
function isWithoutAnswer(error: unknown): boolean {
  return !isKubeError(error) || isKubeError(error, 'UNREACHABLE', 'TIMEOUT', 'SERVER_ERROR', 'BAD_RESPONSE');
}

/** Upstream's names: of the template, else of the set, and letters after it. */
function baseName({ metadata, spec }: VirtualMachineInstanceReplicaSet): string {
  const { name, generateName } = spec.template.metadata ?? {};
  return name || generateName || metadata.name;
}

function makeVmi(name: string, set: VirtualMachineInstanceReplicaSet): Vmi {
  const { metadata = {}, spec } = structuredClone(set.spec.template);
  const { namespace } = set.metadata;
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: type.kind,
    metadata: {
      ...(namespace && { namespace }),
      name,
      generateName: baseName(set),
      ...(metadata.labels && { labels: metadata.labels }),
      ...(metadata.annotations && { annotations: metadata.annotations }),
      ownerReferences: [controllerReference(resources.replicaSets, set)],
    },
    spec,
  };
}

async function deleteVmis(
  { vmis: surplus }: Step<SetStepArgs, 'deleteVmis'>,
  { client, vmis, signal }: ExecuteContext,
): Promise<Outcome> {
  const events: ObjectEvent[] = [];
  const error = await together(surplus, async (vmi) => {
    const { uid } = vmi.metadata;
    if (!(await writeIfThere(client.delete(type, vmi.metadata, { uid, signal })))) return;
    vmis.deleted(keyOf(vmi), vmi);
    const message = `Stopped the virtual machine by deleting the virtual machine instance ${uid}`;
    events.push({ type: 'Normal', reason: 'SuccessfulDelete', message });
  });
  if (error === undefined) return { kind: 'done', events };
  if (signal.aborted) throw error;
  return failed('FailedDelete', `Error deleting virtual machine instance: ${errorMessage(error)}`, events);
}

function failed(reason: 'FailedCreate' | 'FailedDelete', message: string, events: readonly ObjectEvent[]): Outcome {
  const code = reason === 'FailedDelete' ? 'DELETE_FAILED' : 'CREATE_FAILED';
  const error = { severity: 'retry', code, message } as const;
  return { kind: 'failed', error, events: [...events, { type: 'Warning', reason, message }] };
}
