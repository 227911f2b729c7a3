import {
  controllerOf,
  finalizers,
  type Key,
  keyOf,
  labels,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachinePool,
} from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import { type Dependents, inBatches, releaseOperations, together } from '../owned/index.ts';
import type { PoolStepArgs } from './decide.ts';
import { freeNames, makeVm, updatedVm } from './make-vm.ts';
import type { Revisions, Template } from './revisions.ts';
import { keepStorageOf } from './storage.ts';
import { revisionOf } from './updates.ts';

type Vm = VirtualMachine;

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'delete' | 'patch' | 'update'>;
  readonly pools: ReadYourWrites<VirtualMachinePool>;
  readonly vms: ReadYourWrites<Vm>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly members: Pick<Dependents<Vm>, 'created'>;
  readonly revisions: Revisions;
  /** Of the VMs. */
  readonly templates: ReadonlyMap<string, Template>;
  readonly inUse: ReadonlySet<string>;
  readonly pruned: () => void;
  readonly key: Key;
  readonly pool: VirtualMachinePool;
}

const done: Outcome = { kind: 'done' };
const vmType = resources.virtualMachines;
/** By then the watch has shown what others wrote. */
const overtakenMs = 200;

export const executors: Executors<PoolStepArgs, ExecuteContext> = {
  addPoolFinalizer: (_, context) => setPoolFinalizers(context, (names) => [...names, finalizers.pool]),
  removePoolFinalizer: (_, context) => setPoolFinalizers(context, withoutOurs),
  releaseVms,
  keepStorage,
  keepRevision,
  createVms,
  deleteVms,
  updateVms,
  restartVmis,
  relabelVmis,
  pruneRevisions,
};

const withoutOurs = (names: readonly string[]) => names.filter((name) => name !== finalizers.pool);

async function setPoolFinalizers(
  { client, pools, key, pool, signal }: ExecuteContext,
  change: (names: readonly string[]) => readonly string[],
): Promise<Outcome> {
  const { resourceVersion, uid, finalizers: names = [] } = pool.metadata;
  const body = { metadata: { uid, resourceVersion, finalizers: change(names) } };
  try {
    const newer = await client.patch<VirtualMachinePool>(resources.pools, pool.metadata, body, 'merge', { signal });
    pools.saw(key, pool, newer);
  } catch (error) {
    if (!isKubeError(error, 'NOT_FOUND')) throw error;
  }
  return done;
}

/** Those that others changed meanwhile still have the finalizer: nothing that depends on it may be done yet. */
export async function releaseVms(
  { vms, disownFrom }: Step<PoolStepArgs, 'releaseVms'>,
  context: Pick<ExecuteContext, 'client' | 'vms' | 'signal'>,
): Promise<Outcome> {
  const { client, signal } = context;
  let overtaken = 0;
  const error = await together(vms, async (vm) => {
    const { finalizers: names = [] } = vm.metadata;
    const path = '/metadata/finalizers';
    const operations = [
      { op: 'test', path: '/metadata/uid', value: vm.metadata.uid },
      { op: 'test', path, value: names },
      { op: 'replace', path, value: withoutOurs(names) },
      ...(disownFrom === undefined ? [] : releaseOperations(vm, disownFrom)),
    ];
    try {
      context.vms.saw(keyOf(vm), vm, await client.patch<Vm>(vmType, vm.metadata, operations, 'json', { signal }));
    } catch (cause) {
      if (isKubeError(cause, 'NOT_FOUND')) return;
      if (!isKubeError(cause, 'CONFLICT', 'INVALID')) throw cause;
      overtaken++;
    }
  });
  if (error !== undefined) throw error;
  return overtaken === 0
    ? done
    : { kind: 'wait', afterMs: overtakenMs, reason: 'VMs were changed by others meanwhile' };
}

function keepStorage({ vms }: Step<PoolStepArgs, 'keepStorage'>, { client, signal }: ExecuteContext): Promise<Outcome> {
  return all(vms, (vm) => keepStorageOf(vm, client, signal));
}

async function keepRevision(_: object, { revisions, pool, signal }: ExecuteContext): Promise<Outcome> {
  try {
    await revisions.keep(pool, signal);
    return done;
  } catch (error) {
    if (signal.aborted) throw error;
    return failed('FailedScaleOut', `error during scale out: ${errorMessage(error)}`, []);
  }
}

/** The name of each is known before: a creation whose answer was lost is found by it. */
async function createVms({ count }: Step<PoolStepArgs, 'createVms'>, context: ExecuteContext): Promise<Outcome> {
  const { vms, pool, signal } = context;
  const { namespace } = pool.metadata;
  const names = freeNames(pool, count, (name) => vms.get(`${namespace}/${name}`) !== undefined);
  const events: ObjectEvent[] = [];
  const error = await inBatches(names, async (name) => {
    await createVm(name, context);
    events.push({ type: 'Normal', reason: 'SuccessfulCreate', message: `Created VM ${namespace}/${name}` });
  });
  if (error === undefined) return { kind: 'done', events };
  if (signal.aborted) throw error;
  return failed('FailedScaleOut', `error during scale out: ${errorMessage(error)}`, [
    ...events,
    { type: 'Warning', reason: 'FailedCreate', message: `Error creating VM: ${errorMessage(error)}` },
  ]);
}

async function createVm(name: string, { client, members, pool, signal }: ExecuteContext): Promise<void> {
  const vm = makeVm(name, pool);
  try {
    members.created(await client.create(vmType, vm, { signal }));
  } catch (error) {
    const existing = isKubeError(error, 'ALREADY_EXISTS')
      ? await getIfThere<Vm>(client, vmType, vm.metadata, { signal })
      : undefined;
    if (!existing) throw error;
    // Its name is taken from now on, whoever made it; another one's does not count.
    members.created(existing);
    if (controllerOf(existing)?.uid !== pool.metadata.uid) throw error;
  }
}

const whyDeleted = {
  surplus: 'from pool',
  failing: 'from pool, as it does not come to run',
  'other disks': 'from pool, as its disks are others now',
} as const;

async function deleteVms({ vms, why }: Step<PoolStepArgs, 'deleteVms'>, context: ExecuteContext): Promise<Outcome> {
  const { client, signal } = context;
  const propagation = why === 'other disks' ? ('Foreground' as const) : undefined;
  const events: ObjectEvent[] = [];
  const error = await together(vms, async (vm) => {
    const { namespace, name, uid } = vm.metadata;
    if (!(await writeIfThere(client.delete(vmType, vm.metadata, { uid, propagation, signal })))) return;
    context.vms.deleted(keyOf(vm), vm);
    const message = `Deleted VM ${namespace}/${name} with uid ${uid} ${whyDeleted[why]}`;
    events.push({ type: 'Normal', reason: 'SuccessfulDelete', message });
  });
  if (error === undefined) return { kind: 'done', events };
  if (signal.aborted) throw error;
  const words = `Error deleting virtual machine: ${errorMessage(error)}`;
  return failed('FailedScaleIn', `error during scale in: ${errorMessage(error)}`, [
    ...events,
    { type: 'Warning', reason: 'FailedDelete', message: words },
  ]);
}

async function updateVms({ vms }: Step<PoolStepArgs, 'updateVms'>, context: ExecuteContext): Promise<Outcome> {
  const { client, pool, templates } = context;
  return changed(vms, context, async (vm, signal) => {
    const wanted = updatedVm(vm, pool, templates.get(revisionOf(vm) ?? ''));
    context.vms.saw(keyOf(vm), vm, await client.update(vmType, wanted, { signal }));
    return `Updated VM ${keyOf(vm)}`;
  });
}

async function restartVmis({ vmis }: Step<PoolStepArgs, 'restartVmis'>, context: ExecuteContext): Promise<Outcome> {
  return changed(vmis, context, async (vmi, signal) => {
    const { uid } = vmi.metadata;
    await context.client.delete(resources.virtualMachineInstances, vmi.metadata, { uid, signal });
    context.vmis.deleted(keyOf(vmi), vmi);
    return `Restarting VM ${keyOf(vmi)} by deleting its VMI ${uid}, which runs by an earlier template`;
  });
}

function relabelVmis({ vmis }: Step<PoolStepArgs, 'relabelVmis'>, context: ExecuteContext): Promise<Outcome> {
  const { client, signal } = context;
  const type = resources.virtualMachineInstances;
  return all(vmis, async ({ vmi, revision }) => {
    const { uid, resourceVersion } = vmi.metadata;
    const body = { metadata: { uid, resourceVersion, labels: { [labels.poolRevision]: revision } } };
    await writeIfThere(
      client
        .patch<VirtualMachineInstance>(type, vmi.metadata, body, 'merge', { signal })
        .then((newer) => context.vmis.saw(keyOf(vmi), vmi, newer)),
    );
  });
}

async function pruneRevisions(_: object, { revisions, pool, inUse, pruned, signal }: ExecuteContext): Promise<Outcome> {
  try {
    await revisions.prune(pool, inUse, signal);
    pruned();
    return done;
  } catch (error) {
    if (signal.aborted) throw error;
    return failed('FailedRevisionPruning', `error while pruning vmpool revisions: ${errorMessage(error)}`, []);
  }
}

async function all<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<Outcome> {
  const error = await together(items, act);
  if (error !== undefined) throw error;
  return done;
}

/** `change` gives what was done, in words. What was changed by others meanwhile, or is gone, wakes the pool. */
async function changed<T>(
  items: readonly T[],
  { signal }: ExecuteContext,
  change: (item: T, signal: AbortSignal) => Promise<string>,
): Promise<Outcome> {
  const events: ObjectEvent[] = [];
  const error = await together(items, async (item) => {
    try {
      const message = await change(item, signal);
      events.push({ type: 'Normal', reason: 'SuccessfulUpdate', message });
    } catch (cause) {
      if (!isKubeError(cause, 'NOT_FOUND', 'CONFLICT')) throw cause;
    }
  });
  if (error === undefined) return { kind: 'done', events };
  if (signal.aborted) throw error;
  return failed('FailedUpdate', `error during VM update: ${errorMessage(error)}`, events);
}

/** `reason`: of the pool's condition, as upstream names it. */
function failed(reason: string, message: string, events: readonly ObjectEvent[]): Outcome {
  const error = { severity: 'retry', code: reason, message } as const;
  return { kind: 'failed', error, events: [...events, { type: 'Warning', reason, message }] };
}
