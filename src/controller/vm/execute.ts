import {
  annotations,
  finalizers,
  type Key,
  observedApiVersion,
  type ResourceType,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import { expandVm, inferReferences, keepReferences } from '../instancetypes/index.ts';
import type { VmStepArgs } from './decide.ts';
import { changed, type JsonPatchOperation } from './live-change.ts';
import { makeDataVolumes } from './make-data-volume.ts';
import { makeVmi, ownerReference } from './make-vmi.ts';
import { liveVmi } from './observe.ts';
import { dropStartSpec, keepStartSpec } from './start-revision.ts';

/** What is sent when a VMI is made, and what came of it. */
export interface NewVmis {
  prepare(vmi: VirtualMachineInstance): VirtualMachineInstance;
  learn(sent: VirtualMachineInstance, made: VirtualMachineInstance): void;
}

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'delete' | 'patch' | 'update'>;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly newVmis: NewVmis;
  readonly launchers: { madeVmi(vmi: VirtualMachineInstance): void };
  /** `namespace/name` of VM and VMI. */
  readonly key: string;
  readonly vm: VirtualMachine;
}

/** What the condition `Failure` says, by the code of a step's error. */
export const failureReasons: Readonly<Record<string, string>> = {
  CREATE_FAILED: 'FailedCreate',
  DELETE_FAILED: 'FailedDelete',
  INSTANCETYPE_MISSING: 'FailedFindInstancetype',
  PREFERENCE_MISSING: 'FailedFindPreference',
};

const done: Outcome = { kind: 'done' };
/** Until an object that others have changed is looked at again. */
const overtakenMs = 200;

export const executors: Executors<VmStepArgs, ExecuteContext> = {
  adoptVmi,
  addFinalizer,
  removeFinalizer,
  startVmi,
  stopVmi,
  plugVolumes,
  changeVolumes,
  plugInterfaces,
  changeVmi,
  changeStrategy,
  inferReferences: (_step, context) =>
    changeVm(({ vm, client, signal }) => inferReferences(vm, client, signal), context),
  keepReferences: ({ unkept }, context) =>
    changeVm(({ vm, client, signal }) => keepReferences(vm, unkept, client, signal), context),
  expandVm: ({ whole }, context) => changeVm(({ vm, client, signal }) => expandVm(vm, whole, client, signal), context),
  makeDataVolumes: async ({ names, whole }, { vm, client, signal }) => {
    const { events, problem } = await makeDataVolumes(whole ?? vm, names, client, signal);
    if (problem === undefined) return { kind: 'done', events };
    return { kind: 'failed', error: { severity: 'retry', code: 'CREATE_FAILED', message: problem }, events };
  },
  adoptDataVolumes,
  reportDataVolume: async ({ reason, message }) => ({
    kind: 'failed',
    error: { severity: 'retry', code: 'CREATE_FAILED', message },
    events: [{ type: 'Warning', reason, message }],
  }),
  refuseReferences: async ({ refusal: { code, message } }) => ({
    kind: 'failed',
    error: { severity: 'retry', code, message },
    events: [{ type: 'Warning', reason: failureReasons[code] ?? 'FailedCreate', message }],
  }),
};

function failed(reason: 'FailedCreate' | 'FailedDelete', message: string): Outcome {
  const code = reason === 'FailedDelete' ? 'DELETE_FAILED' : 'CREATE_FAILED';
  return {
    kind: 'failed',
    error: { severity: 'retry', code, message },
    events: [{ type: 'Warning', reason, message }],
  };
}

const normal = (reason: string, message: string): ObjectEvent => ({ type: 'Normal', reason, message });

/** Whether it is the VM that is wrong or something else that it needs, its user is told. */
async function changeVm(
  change: (context: ExecuteContext) => Promise<VirtualMachine>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { vms, key, vm, signal } = context;
  try {
    vms.saw(key, vm, await change(context));
    return done;
  } catch (error) {
    if (signal.aborted || isKubeError(error, 'CONFLICT')) throw error;
    return failed('FailedCreate', errorMessage(error));
  }
}

async function startVmi(
  { paused, receives, whole, names, tracking }: Step<VmStepArgs, 'startVmi'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { client, vmis, newVmis, launchers, key, vm, signal } = context;
  const { name } = vm.metadata;
  try {
    const named = receives ? { ...names, [annotations.createMigrationTarget]: 'true' } : names;
    const wanted = newVmis.prepare(makeVmi(whole ?? vm, paused, named, tracking));
    const [vmi] = await Promise.all([
      client.create(resources.virtualMachineInstances, wanted, { signal }),
      keepStartSpec(vm, client, signal),
    ]);
    newVmis.learn(wanted, vmi);
    launchers.madeVmi(vmi);
    vmis.created(key, vmi);
    const message = `Started the virtual machine by creating the new virtual machine instance ${name}`;
    return { kind: 'done', events: [normal('SuccessfulCreate', message)] };
  } catch (error) {
    if (signal.aborted) throw error;
    const existing = isKubeError(error, 'ALREADY_EXISTS') ? await liveVmi(vm, client, signal) : undefined;
    if (!existing) return failed('FailedCreate', `Error creating virtual machine instance: ${errorMessage(error)}`);
    vmis.created(key, existing);
    return done;
  }
}

async function stopVmi({ vmi }: Step<VmStepArgs, 'stopVmi'>, context: ExecuteContext): Promise<Outcome> {
  const { client, vmis, key, signal } = context;
  const { uid } = vmi.metadata;
  try {
    await client.delete(resources.virtualMachineInstances, vmi.metadata, { uid, signal });
    vmis.deleted(key, vmi);
    const message = `Stopped the virtual machine by deleting the virtual machine instance ${uid}`;
    return { kind: 'done', events: [normal('SuccessfulDelete', message)] };
  } catch (error) {
    if (signal.aborted) throw error;
    if (isKubeError(error, 'NOT_FOUND', 'CONFLICT')) return done;
    return failed('FailedDelete', `Error deleting virtual machine instance: ${errorMessage(error)}`);
  }
}

/** Guarded by what was observed: a volume that another program has added meanwhile is not lost. */
function plugVolumes({ vmi, plugged }: Step<VmStepArgs, 'plugVolumes'>, context: ExecuteContext): Promise<Outcome> {
  const devices = vmi.spec.domain.devices;
  const operations = [
    ...madeUnless(devices, '/spec/domain/devices'),
    ...changed('/spec/volumes', vmi.spec.volumes, plugged.volumes),
    ...changed('/spec/domain/devices/disks', devices?.disks, plugged.disks),
  ];
  return patchVmi({ vmi, operations, what: 'the volumes' }, context);
}

/** Guarded in the same way. What the VMI has of it was plugged in before: the request is forgotten with this. */
async function changeVolumes(
  { template }: Step<VmStepArgs, 'changeVolumes'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { vm } = context;
  const devices = vm.spec.template.spec.domain?.devices;
  const at = '/spec/template/spec';
  const operations = [
    ...madeUnless(devices, `${at}/domain/devices`),
    ...changed(`${at}/volumes`, vm.spec.template.spec.volumes, template.volumes),
    ...changed(`${at}/domain/devices/disks`, devices?.disks, template.disks),
  ];
  try {
    return await patchVm(operations, context);
  } catch (error) {
    if (context.signal.aborted) throw error;
    const message = `Error encountered while handling volume hotplug requests: ${errorMessage(error)}`;
    return { kind: 'failed', error: { severity: 'retry', code: 'HOTPLUG_FAILED', message } };
  }
}

/** Guarded in the same way. */
function plugInterfaces(
  { vmi, plugged }: Step<VmStepArgs, 'plugInterfaces'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const devices = vmi.spec.domain.devices;
  const operations = [
    ...madeUnless(devices, '/spec/domain/devices'),
    ...changed('/spec/networks', vmi.spec.networks, plugged.networks),
    ...changed('/spec/domain/devices/interfaces', devices?.interfaces, plugged.interfaces),
  ];
  return patchVmi({ vmi, operations, what: 'the interfaces' }, context);
}

function changeVmi({ vmi, operations }: Step<VmStepArgs, 'changeVmi'>, context: ExecuteContext): Promise<Outcome> {
  return patchVmi({ vmi, operations, what: 'what the template changes' }, context);
}

interface VmiPatch {
  readonly vmi: VirtualMachineInstance;
  readonly operations: readonly JsonPatchOperation[];
  readonly what: string;
}

async function patchVmi({ vmi, operations, what }: VmiPatch, context: ExecuteContext): Promise<Outcome> {
  const { client, vmis, key, signal } = context;
  const type = resources.virtualMachineInstances;
  try {
    const newer = await change(vmi, type, operations, client, signal);
    if (newer) vmis.saw(key, vmi, newer);
    return done;
  } catch (error) {
    const newest = await newestAfter<VirtualMachineInstance>(error, vmi, type, context);
    if (newest) return overtakenBy(newest, vmi, vmis, key);
    const message = `Error encountered while trying to patch ${what} of the VMI: ${errorMessage(error)}`;
    return { kind: 'failed', error: { severity: 'retry', code: 'HOTPLUG_FAILED', message } };
  }
}

async function patchVm(operations: readonly JsonPatchOperation[], context: ExecuteContext): Promise<Outcome> {
  const { client, vms, key, vm, signal } = context;
  const type = resources.virtualMachines;
  try {
    const newer = await change(vm, type, operations, client, signal);
    if (newer) vms.saw(key, vm, newer);
    return done;
  } catch (error) {
    const newest = await newestAfter<VirtualMachine>(error, vm, type, context);
    if (newest) return overtakenBy(newest, vm, vms, key);
    throw error;
  }
}

/** What the object has become where a patch was refused because others have changed it; undefined: the patch itself is not taken. */
async function newestAfter<T extends VirtualMachine | VirtualMachineInstance>(
  error: unknown,
  { metadata }: T,
  type: ResourceType,
  { client, signal }: ExecuteContext,
): Promise<T | undefined> {
  if (signal.aborted) throw error;
  if (!isKubeError(error, 'CONFLICT', 'INVALID')) return undefined;
  const newest = await getIfThere<T>(client, type, metadata, { signal });
  return newest?.metadata.resourceVersion === metadata.resourceVersion ? undefined : newest;
}

/** No error of anybody: it is decided anew on the newest object. */
function overtakenBy<T extends VirtualMachine | VirtualMachineInstance>(
  newest: T,
  observed: T,
  objects: Pick<ReadYourWrites<T>, 'saw'>,
  key: Key,
): Outcome {
  objects.saw(key, observed, newest);
  return { kind: 'wait', afterMs: overtakenMs, reason: 'others have changed the object meanwhile' };
}

const madeUnless = (present: object | undefined, path: string) => (present ? [] : changed(path, undefined, {}));

/** The deprecated field stays where it says as much. */
async function changeStrategy(
  { strategy }: Step<VmStepArgs, 'changeStrategy'>,
  { client, vms, key, vm, signal }: ExecuteContext,
): Promise<Outcome> {
  const wanted = structuredClone(vm);
  if (vm.spec.running === undefined || vm.spec.running === null) wanted.spec.runStrategy = strategy;
  else wanted.spec.running = strategy !== 'Halted';
  try {
    vms.saw(key, vm, await client.update(resources.virtualMachines, wanted, { signal }));
    return done;
  } catch (error) {
    if (signal.aborted) throw error;
    const message = `the run strategy could not be set: ${errorMessage(error)}`;
    return { kind: 'failed', error: { severity: 'retry', code: 'CREATE_FAILED', message } };
  }
}

async function adoptVmi({ vmi }: Step<VmStepArgs, 'adoptVmi'>, context: ExecuteContext): Promise<Outcome> {
  const { client, vmis, key, vm, signal } = context;
  const { uid = '', name } = vm.metadata;
  const { resourceVersion, ownerReferences = [] } = vmi.metadata;
  const body = { metadata: { resourceVersion, ownerReferences: [...ownerReferences, ownerReference(name, uid)] } };
  const type = resources.virtualMachineInstances;
  vmis.saw(key, vmi, await client.patch<VirtualMachineInstance>(type, vmi.metadata, body, 'merge', { signal }));
  return done;
}

/** Guarded by what was observed: another program may have taken them meanwhile. */
async function adoptDataVolumes(
  { adopted }: Step<VmStepArgs, 'adoptDataVolumes'>,
  { client, vm, signal }: ExecuteContext,
): Promise<Outcome> {
  const { uid = '', name } = vm.metadata;
  for (const { metadata } of adopted) {
    const { resourceVersion, ownerReferences = [] } = metadata;
    const body = { metadata: { resourceVersion, ownerReferences: [...ownerReferences, ownerReference(name, uid)] } };
    await writeIfThere(client.patch(resources.dataVolumes, metadata, body, 'merge', { signal }));
  }
  return done;
}

/** The first write of a VM: what upstream's first write says is in it. */
async function addFinalizer(_step: object, context: ExecuteContext): Promise<Outcome> {
  const { vm } = context;
  const names = [...(vm.metadata.finalizers ?? []), finalizers.vm];
  const { annotations } = vm.metadata;
  const noted = changed('/metadata/annotations', annotations, { ...annotations, ...observedApiVersion });
  return patchVm([...changed('/metadata/finalizers', vm.metadata.finalizers, names), ...noted], context);
}

async function removeFinalizer(_step: object, { client, vm, signal }: ExecuteContext): Promise<Outcome> {
  await setFinalizers(vm, resources.virtualMachines, withoutOurs(vm), client, signal);
  return done;
}

/** The VMI may go, as far as its VM is concerned. */
export async function releaseVmi(
  vmi: VirtualMachineInstance,
  client: Pick<KubeClient, 'patch' | 'delete'>,
  signal: AbortSignal,
): Promise<void> {
  await dropStartSpec(vmi, client, signal);
  await setFinalizers(vmi, resources.virtualMachineInstances, withoutOurs(vmi), client, signal);
}

function withoutOurs({ metadata }: VirtualMachine | VirtualMachineInstance): string[] {
  return (metadata.finalizers ?? []).filter((name) => name !== finalizers.vm);
}

function setFinalizers<T extends VirtualMachine | VirtualMachineInstance>(
  object: T,
  type: typeof resources.virtualMachines | typeof resources.virtualMachineInstances,
  names: string[],
  client: Pick<KubeClient, 'patch'>,
  signal: AbortSignal,
): Promise<T | undefined> {
  return change(object, type, changed('/metadata/finalizers', object.metadata.finalizers, names), client, signal);
}

/**
 * Undefined: the object is gone. What is not there cannot be tested, and what came there meanwhile would be overwritten: who adds something
 * tests the version.
 */
async function change<T extends VirtualMachine | VirtualMachineInstance>(
  object: T,
  type: typeof resources.virtualMachines | typeof resources.virtualMachineInstances,
  changes: readonly JsonPatchOperation[],
  client: Pick<KubeClient, 'patch'>,
  signal: AbortSignal,
): Promise<T | undefined> {
  const { uid, resourceVersion } = object.metadata;
  const adds = changes.some(({ op }) => op === 'add');
  const operations = [
    { op: 'test', path: '/metadata/uid', value: uid },
    ...(adds ? [{ op: 'test', path: '/metadata/resourceVersion', value: resourceVersion }] : []),
    ...changes,
  ];
  try {
    return await client.patch<T>(type, object.metadata, operations, 'json', { signal });
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND')) return undefined;
    throw error;
  }
}
