import {
  finalizers,
  isReadyToUse,
  keyOf,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
} from '../../api/index.ts';
import { createOrFind, getIfThere, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import { markOf, setFinalizer, setMark, setSourceFinalizer, vmiOf } from '../snapshot-source/index.ts';
import type { StartSpecs } from '../vm/index.ts';
import { makeContent, startedSpec, withKeptRevisions } from './content.ts';
import type { SnapshotStepArgs } from './decide.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'delete' | 'patch'>;
  readonly snapshots: ReadYourWrites<VirtualMachineSnapshot>;
  readonly contents: ReadYourWrites<VirtualMachineSnapshotContent>;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'get'>;
  readonly startSpecs: Pick<StartSpecs, 'of'>;
  readonly key: string;
  /** Undefined: it is gone. */
  readonly snapshot: VirtualMachineSnapshot | undefined;
}

const done: Outcome = { kind: 'done' };
const contentType = resources.virtualMachineSnapshotContents;
/** Who has changed the object wakes the key; this is for a change that nobody tells of. */
const overtaken: Outcome = { kind: 'wait', afterMs: 1_000, reason: 'the object has changed meanwhile' };

export const executors: Executors<SnapshotStepArgs, ExecuteContext> = {
  protect: (_step, context) => finalize(true, context),
  release: (_step, context) => finalize(false, context),
  lockSource,
  unlockSource: ({ vm }, context) => unlock(vm, context),
  unlockVms,
  createContent,
  deleteContent,
};

async function finalize(isWanted: boolean, { client, snapshots, snapshot, signal }: ExecuteContext): Promise<Outcome> {
  if (!snapshot) return done;
  const wish = { name: finalizers.vmSnapshot, isWanted };
  const type = resources.virtualMachineSnapshots;
  return (await setFinalizer(type, snapshot, wish, { client, objects: snapshots }, signal)) ? done : overtaken;
}

/** The name first: whoever finds it there without the finalizer knows whose lock is half made. */
async function lockSource({ vm }: Step<SnapshotStepArgs, 'lockSource'>, context: ExecuteContext): Promise<Outcome> {
  const { snapshot, signal } = context;
  const name = snapshot?.metadata.name;
  if (name === undefined) return done;
  const isMarked = markOf(vm, 'snapshotInProgress') === name;
  const marked = isMarked ? vm : await setMark(vm, 'snapshotInProgress', name, context, signal);
  const locked = marked && (await setSourceFinalizer(marked, true, context, signal));
  return locked ? done : overtaken;
}

/** The other way round. */
async function unlock(vm: VirtualMachine, context: ExecuteContext): Promise<Outcome> {
  const free = await setSourceFinalizer(vm, false, context, context.signal);
  const unmarked = free && (await setMark(free, 'snapshotInProgress', undefined, context, context.signal));
  return unmarked ? done : overtaken;
}

/** The API server itself is asked whether the snapshot is gone. */
async function unlockVms({ vms }: Step<SnapshotStepArgs, 'unlockVms'>, context: ExecuteContext): Promise<Outcome> {
  const { client, signal } = context;
  for (const vm of vms) {
    const ref = { namespace: vm.metadata.namespace, name: markOf(vm, 'snapshotInProgress') ?? '' };
    if (await getIfThere(client, resources.virtualMachineSnapshots, ref, { signal })) return overtaken;
    const outcome = await unlock(vm, context);
    if (outcome.kind !== 'done') return outcome;
  }
  return done;
}

async function createContent(
  { vm, volumes }: Step<SnapshotStepArgs, 'createContent'>,
  { client, contents, vmis, startSpecs, snapshot, signal }: ExecuteContext,
): Promise<Outcome> {
  if (!snapshot) return done;
  const started = await startSpecs.of(vm, vmiOf(vm, vmis), signal);
  const spec = started ? startedSpec(vm, started) : vm.spec;
  const kept = await withKeptRevisions(snapshot, vm, spec, client, signal);
  const wanted = makeContent(snapshot, vm, kept, volumes);
  const isOwn = ({ spec }: VirtualMachineSnapshotContent) => spec.virtualMachineSnapshotName === snapshot.metadata.name;
  const { object: content, isNew } = await createOrFind(client, contentType, wanted, isOwn, { signal });
  contents.created(keyOf(content), content);
  if (!isNew) return done;
  const message = `Successfully created VirtualMachineSnapshotContent ${wanted.metadata.name}`;
  return {
    kind: 'done',
    events: [{ type: 'Normal', reason: 'SuccessfulVirtualMachineSnapshotContentCreate', message }],
  };
}

/** One that shall stay once it is complete may have become so. */
async function deleteContent(
  { content }: Step<SnapshotStepArgs, 'deleteContent'>,
  { client, contents, snapshot, signal }: ExecuteContext,
): Promise<Outcome> {
  const { uid } = content.metadata;
  const live = await getIfThere<VirtualMachineSnapshotContent>(client, contentType, content.metadata, { signal });
  if (!live || live.metadata.uid !== uid) return done;
  if (snapshot?.spec.deletionPolicy === 'Retain' && isReadyToUse(live)) return overtaken;
  const { resourceVersion } = live.metadata;
  if (!(await writeIfThere(client.delete(contentType, content.metadata, { uid, resourceVersion, signal }))))
    return overtaken;
  contents.deleted(keyOf(content), content);
  return done;
}
