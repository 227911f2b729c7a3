import {
  apiVersionOf,
  controllerOf,
  type KubeObject,
  keyOf,
  type ResourceType,
  resources,
  type VirtualMachineClone,
  type VirtualMachineRestore,
  type VirtualMachineSnapshot,
} from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { createOrFind, getIfThere, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, ReadYourWrites, StepContext } from '../../reconcile/index.ts';
import { controllerReference } from '../owned/index.ts';
import type { CloneStepArgs } from './decide.ts';
import type { PresentClone } from './observe.ts';
import { clonePatches } from './patches.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'delete'>;
  readonly snapshots: ReadYourWrites<VirtualMachineSnapshot>;
  readonly restores: ReadYourWrites<VirtualMachineRestore>;
  readonly observation: PresentClone;
}

const done: Outcome = { kind: 'done' };
const overtaken: Outcome = { kind: 'wait', afterMs: 1_000, reason: 'the object has changed meanwhile' };
const types = { snapshot: resources.virtualMachineSnapshots, restore: resources.virtualMachineRestores };

export const executors: Executors<CloneStepArgs, ExecuteContext> = {
  createSnapshot: async (_step, context) => {
    const { clone, names } = context.observation;
    const { name } = clone.spec.source;
    const snapshot: VirtualMachineSnapshot = {
      ...made(types.snapshot, names.snapshot, clone),
      spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name } },
    };
    const isNew = await create(types.snapshot, snapshot, context.snapshots, context);
    const message = `created snapshot ${names.snapshot} for clone ${clone.metadata.name}`;
    return isNew ? { kind: 'done', events: [{ type: 'Normal', reason: 'SnapshotCreated', message }] } : done;
  },
  createRestore,
  deleteHelpers,
  deleteClone: async (_step, { client, observation: { clone, names }, signal }) => {
    const target = { namespace: clone.metadata.namespace, name: names.target };
    if (await getIfThere(client, resources.virtualMachines, target, { signal })) return overtaken;
    const { uid } = clone.metadata;
    await writeIfThere(client.delete(resources.virtualMachineClones, clone.metadata, { uid, signal }));
    return done;
  },
};

async function createRestore(_step: object, context: ExecuteContext): Promise<Outcome> {
  const { clone, names, content } = context.observation;
  const kept = content?.spec.source.virtualMachine;
  if (!kept) return overtaken;
  const patches = clonePatches(kept, clone);
  const { volumeNamePolicy } = clone.spec;
  const restore: VirtualMachineRestore = {
    ...made(types.restore, names.restore, clone),
    spec: {
      target: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: names.target },
      virtualMachineSnapshotName: names.snapshot,
      ...(patches.length > 0 && { patches }),
      ...(volumeNamePolicy && { volumeRestorePolicy: volumeNamePolicy }),
    },
  };
  try {
    const isNew = await create(types.restore, restore, context.restores, context);
    const isReady = `snapshot ${names.snapshot} for clone ${clone.metadata.name} is ready to use`;
    const isMade = `created restore ${names.restore} for clone ${clone.metadata.name}`;
    const events: ObjectEvent[] = [
      { type: 'Normal', reason: 'SnapshotReady', message: isReady },
      { type: 'Normal', reason: 'RestoreCreated', message: isMade },
    ];
    return isNew ? { kind: 'done', events } : done;
  } catch (error) {
    if (context.signal.aborted) throw error;
    const message = `failed creating restore ${names.restore} for clone ${clone.metadata.name}: ${errorMessage(error)}`;
    const event = { type: 'Warning', reason: 'RestoreCreationFailed', message } as const;
    return { kind: 'failed', error: { severity: 'retry', code: 'CREATE_FAILED', message }, events: [event] };
  }
}

function made(type: ResourceType, name: string, clone: VirtualMachineClone): KubeObject {
  const { namespace } = clone.metadata;
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    metadata: {
      name,
      ...(namespace && { namespace }),
      ownerReferences: [controllerReference(resources.virtualMachineClones, clone)],
    },
  };
}

/** False: it was there already. One of that name which is another's is an error. */
async function create<T extends KubeObject>(
  type: ResourceType,
  wanted: T,
  objects: ReadYourWrites<T>,
  { client, observation, signal }: ExecuteContext,
): Promise<boolean> {
  const isOwn = (existing: T) => controllerOf(existing)?.uid === observation.uid;
  const { object, isNew } = await createOrFind(client, type, wanted, isOwn, { signal });
  objects.created(keyOf(object), object);
  return isNew;
}

/** Only what the clone has made: a snapshot that it was told to use is its user's. */
async function deleteHelpers(_step: object, context: ExecuteContext): Promise<Outcome> {
  const { client, observation, signal } = context;
  const { clone, names, isOfVm } = observation;
  const helpers = [
    [types.restore, names.restore] as const,
    ...(isOfVm ? ([[types.snapshot, names.snapshot]] as const) : []),
  ];
  for (const [type, name] of helpers) {
    const ref = { namespace: clone.metadata.namespace, name };
    const found = await getIfThere<KubeObject>(client, type, ref, { signal });
    if (!found || controllerOf(found)?.uid !== observation.uid) continue;
    const { uid } = found.metadata;
    await writeIfThere(client.delete(type, ref, { uid, signal }));
  }
  return done;
}
