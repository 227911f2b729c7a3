import {
  annotations,
  apiVersionOf,
  controllerOf,
  type DataVolume,
  finalizers,
  type KubeObject,
  keptState,
  keyOf,
  type PersistentVolumeClaim,
  type Pod,
  resources,
  type VirtualMachine,
  type VirtualMachineRestore,
  type VirtualMachineSnapshotContent,
} from '../../api/index.ts';
import { errorMessage, isRecord, memberAt } from '../../base/index.ts';
import { createOrFind, getIfThere, isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import { formerStateMark } from '../kept-state/index.ts';
import { controllerReference } from '../owned/index.ts';
import { holdOf, markOf, setFinalizer, setMark } from '../snapshot-source/index.ts';
import { makeClaim } from './claims.ts';
import { isHeldBy, isMadeBy, targetOf } from './names.ts';
import type { PresentRestore, VolumeFacts } from './observation.ts';
import { hasVolumeOn, othersOf } from './others.ts';
import type { RestoreStepArgs } from './plan.ts';
import { templateNames } from './restored-vm.ts';
import { ownRevisions, withRevisions } from './revisions.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list' | 'update' | 'delete' | 'patch' | 'raw'>;
  readonly restores: ReadYourWrites<VirtualMachineRestore>;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly contents: ReadYourWrites<VirtualMachineSnapshotContent>;
  /** Of the snapshot; undefined: there is none. */
  readonly content: VirtualMachineSnapshotContent | undefined;
  /** Undefined: the restore is gone. */
  readonly observation: PresentRestore | undefined;
}

const done: Outcome = { kind: 'done' };
const claimType = resources.persistentVolumeClaims;
const overtaken: Outcome = { kind: 'wait', afterMs: 1_000, reason: 'the object has changed meanwhile' };
const running: Outcome = { kind: 'wait', afterMs: 5_000, reason: 'the VM has a VMI again: it has to be stopped' };

export const executors: Executors<RestoreStepArgs, ExecuteContext> = {
  protect,
  release,
  lockTarget: async ({ vm }, context) => {
    const name = context.observation?.restore.metadata.name ?? '';
    return (await setMark(vm, 'restoreInProgress', name, context, context.signal)) ? done : overtaken;
  },
  unlockTarget: ({ vm }, context) => unlock(vm, context),
  unlockVms,
  stopTarget: async ({ vm: { metadata } }, { client, signal }) => {
    const path = `/apis/subresources.kubevirt.io/v1/namespaces/${metadata.namespace}/virtualmachines/${metadata.name}/stop`;
    try {
      await client.raw({ method: 'PUT', path, body: {}, signal });
    } catch (error) {
      // It ends already.
      if (!isKubeError(error, 'CONFLICT', 'NOT_FOUND')) throw error;
    }
    return done;
  },
  replaceClaims,
  letGo,
  createClaims,
  markPopulated,
  createDataVolumes,
  switchState,
  putStateBack,
  writeTarget,
  ownClaims,
  ownRevisions: async ({ vm }, { client, signal }) => {
    await ownRevisions(vm, client, signal);
    return done;
  },
  deleteDataVolumes,
  deleteFormerState,
};

/** As upstream: a restore goes with the VM that it was for. */
async function protect(_step: object, { client, restores, observation, signal }: ExecuteContext): Promise<Outcome> {
  if (!observation) return done;
  const { restore, target } = observation;
  const { uid, resourceVersion, ownerReferences = [], finalizers: present = [] } = restore.metadata;
  const isFree = ownerReferences.length === 0 && target !== undefined;
  const metadata = {
    ...{ uid, resourceVersion, finalizers: [...new Set([...present, finalizers.vmRestore])] },
    ...(isFree && { ownerReferences: [controllerReference(resources.virtualMachines, target)] }),
  };
  const type = resources.virtualMachineRestores;
  const isThere = await writeIfThere(
    client
      .patch<VirtualMachineRestore>(type, restore.metadata, { metadata }, 'merge', { signal })
      .then((newer) => restores.saw(keyOf(restore), restore, newer)),
  );
  return isThere ? done : overtaken;
}

async function release(_step: object, { client, restores, observation, signal }: ExecuteContext): Promise<Outcome> {
  if (!observation) return done;
  const wish = { name: finalizers.vmRestore, isWanted: false };
  const type = resources.virtualMachineRestores;
  const { restore } = observation;
  return (await setFinalizer(type, restore, wish, { client, objects: restores }, signal)) ? done : overtaken;
}

async function unlock(vm: VirtualMachine, context: ExecuteContext): Promise<Outcome> {
  return (await setMark(vm, 'restoreInProgress', undefined, context, context.signal)) ? done : overtaken;
}

/** The API server itself is asked whether the restore is gone. */
async function unlockVms({ vms }: Step<RestoreStepArgs, 'unlockVms'>, context: ExecuteContext): Promise<Outcome> {
  const { client, signal } = context;
  for (const vm of vms) {
    const ref = { namespace: vm.metadata.namespace, name: markOf(vm, 'restoreInProgress') ?? '' };
    if (await getIfThere(client, resources.virtualMachineRestores, ref, { signal })) return overtaken;
    const outcome = await unlock(vm, context);
    if (outcome.kind !== 'done') return outcome;
  }
  return done;
}

/** The API server is asked before anything of a VM is taken away: a cache may be behind. */
async function runs(vm: VirtualMachine | undefined, { client, signal }: ExecuteContext): Promise<boolean> {
  if (!vm) return false;
  return (await getIfThere(client, resources.virtualMachineInstances, vm.metadata, { signal })) !== undefined;
}

/** Nothing is deleted before the VolumeSnapshot that comes in its place is ready, by the API server's own word. */
async function replaceClaims(
  { volumes }: Step<RestoreStepArgs, 'replaceClaims'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { client, observation, signal } = context;
  if (!observation) return done;
  const { target, restore } = observation;
  if (await runs(target, context)) return running;
  const { namespace } = restore.metadata;
  const users = {
    vms: (await client.list<VirtualMachine>(resources.virtualMachines, { namespace, signal })).items,
    pods: (await client.list<Pod>(resources.pods, { namespace, signal })).items,
  };
  for (const volume of volumes) {
    const others = othersOf(volume, targetOf(restore), () => users);
    if (others !== undefined) throw new Error(`PVC ${volume.restore.persistentVolumeClaim} stays: it ${others}`);
  }
  for (const { restore: named } of volumes) {
    const ref = { namespace, name: named.volumeSnapshotName };
    const snapshot = await getIfThere<KubeObject>(client, resources.volumeSnapshots, ref, { signal });
    if (memberAt(snapshot, 'status', 'readyToUse') !== true || snapshot?.metadata.deletionTimestamp)
      throw new Error(
        `VolumeSnapshot ${named.volumeSnapshotName} is not ready to use: claim ${named.persistentVolumeClaim} stays`,
      );
  }
  if (!(await hold(observation, context))) return overtaken;
  for (const volume of volumes) await replaceClaim(volume, restore, context);
  return done;
}

/**
 * The snapshot and its content are those that were decided on, and nobody deletes them: their VolumeSnapshots would go, too. From now on they stay until
 * the restore lets go. False: they have changed meanwhile.
 */
async function hold({ source, restore }: PresentRestore, context: ExecuteContext): Promise<boolean> {
  const { client, contents, signal } = context;
  if ('problem' in source) throw new Error(source.problem);
  const { snapshot, content } = source;
  const type = resources.virtualMachineSnapshotContents;
  const live = await getIfThere<VirtualMachineSnapshotContent>(client, type, content.metadata, { signal });
  if (live && live.metadata.uid === content.metadata.uid && isHeldBy(live, restore)) return true;
  const ref = snapshot.metadata;
  const liveSnapshot = await getIfThere<KubeObject>(client, resources.virtualMachineSnapshots, ref, { signal });
  assertKept(snapshot, liveSnapshot);
  assertKept(content, live);
  return setFinalizer(type, live, { name: holdOf(restore), isWanted: true }, { client, objects: contents }, signal);
}

function assertKept({ kind, metadata }: KubeObject, live: KubeObject | undefined): asserts live is KubeObject {
  if (live?.metadata.uid !== metadata.uid || live?.metadata.deletionTimestamp)
    throw new Error(`${kind} ${metadata.name} is gone or being deleted: the claims of the VM stay`);
}

async function letGo(
  { contents }: Step<RestoreStepArgs, 'letGo'>,
  { client, contents: objects, observation, signal }: ExecuteContext,
): Promise<Outcome> {
  if (!observation) return done;
  const wish = { name: holdOf(observation.restore), isWanted: false };
  const type = resources.virtualMachineSnapshotContents;
  for (const content of contents)
    if (!(await setFinalizer(type, content, wish, { client, objects }, signal))) return overtaken;
  return done;
}

/** A DataVolume would fill an empty claim anew: it is told not to. */
async function replaceClaim(
  { claim, filledBy }: VolumeFacts,
  { metadata }: VirtualMachineRestore,
  { client, signal }: ExecuteContext,
): Promise<void> {
  if (!claim || claim.metadata.deletionTimestamp) return;
  if (filledBy !== undefined) {
    const noted = { [annotations.restoreName]: metadata.name, [annotations.prePopulated]: filledBy };
    const ref = { namespace: metadata.namespace, name: filledBy };
    await client.patch(resources.dataVolumes, ref, { metadata: { annotations: noted } }, 'merge', { signal });
  }
  const { uid } = claim.metadata;
  await writeIfThere(client.delete(claimType, claim.metadata, { uid, signal }));
}

async function createClaims(
  { volumes }: Step<RestoreStepArgs, 'createClaims'>,
  { client, content, observation, signal }: ExecuteContext,
): Promise<Outcome> {
  const source = content?.spec.source.virtualMachine;
  if (!observation || !source) return overtaken;
  const { restore, target } = observation;
  for (const volume of volumes) {
    const claim = makeClaim(restore, volume, target, source);
    try {
      await client.create(claimType, claim, { signal });
    } catch (error) {
      // Only the cache did not show it yet; one of others is seen with the next look.
      if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
    }
  }
  return done;
}

async function markPopulated(
  { volumes }: Step<RestoreStepArgs, 'markPopulated'>,
  { client, signal }: ExecuteContext,
): Promise<Outcome> {
  for (const { claim, dataVolumeName } of volumes) {
    if (!claim || dataVolumeName === undefined) continue;
    const { uid, resourceVersion } = claim.metadata;
    const noted = { [annotations.populatedFor]: dataVolumeName };
    const body = { metadata: { uid, resourceVersion, annotations: noted, ownerReferences: null } };
    if (!(await writeIfThere(client.patch(claimType, claim.metadata, body, 'merge', { signal })))) return overtaken;
  }
  return done;
}

async function createDataVolumes(
  { wanted }: Step<RestoreStepArgs, 'createDataVolumes'>,
  { client, observation, signal }: ExecuteContext,
): Promise<Outcome> {
  if (!observation) return done;
  const { metadata } = observation.restore;
  for (const { name, template } of wanted) {
    const given = memberAt(template, 'metadata');
    const { annotations: noted, labels } = isRecord(given) ? given : {};
    const dataVolume: DataVolume = {
      apiVersion: apiVersionOf(resources.dataVolumes),
      kind: resources.dataVolumes.kind,
      metadata: {
        name,
        ...(metadata.namespace && { namespace: metadata.namespace }),
        ...(isRecord(labels) && { labels: labels as Record<string, string> }),
        annotations: {
          ...(isRecord(noted) ? (noted as Record<string, string>) : {}),
          [annotations.restoreName]: metadata.name,
          [annotations.prePopulated]: 'true',
        },
      },
      spec: specOf(template),
    };
    try {
      await client.create(resources.dataVolumes, dataVolume, { signal });
    } catch (error) {
      if (signal.aborted || isKubeError(error, 'ALREADY_EXISTS')) continue;
      const message = `Error creating restore DataVolume ${name}: ${errorMessage(error)}`;
      const event = { type: 'Warning', reason: 'RestoreDataVolumeCreateError', message } as const;
      return { kind: 'failed', error: { severity: 'retry', code: 'CREATE_FAILED', message }, events: [event] };
    }
  }
  return done;
}

function specOf(template: unknown): Record<string, unknown> {
  const spec = memberAt(template, 'spec');
  return isRecord(spec) ? spec : {};
}

/** The new one first: of two claims that have the label the newer one counts. */
async function switchState(
  { claim, former }: Step<RestoreStepArgs, 'switchState'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { observation } = context;
  if (!observation) return done;
  const { restore, target } = observation;
  const { name } = restore.spec.target;
  if (await runs(target, context)) return running;
  if (!(await setLabels(claim, { [keptState.label]: name }, context))) return overtaken;
  const obsolete = { [keptState.label]: null, [keptState.obsoleteLabel]: formerStateMark(name) };
  for (const each of former) await setLabels(each, obsolete, context);
  return done;
}

/**
 * By the API server's word, as a cache may not show yet what this program has done. A VM that is on a disk of this restore already, restored in its
 * place, keeps the state that belongs to that.
 */
async function putStateBack({ vm }: Step<RestoreStepArgs, 'putStateBack'>, context: ExecuteContext): Promise<Outcome> {
  const { client, observation, signal } = context;
  if (!observation) return done;
  const { restore } = observation;
  const { namespace, name } = vm.metadata;
  const live = await getIfThere<VirtualMachine>(client, resources.virtualMachines, vm.metadata, { signal });
  if (!live || live.metadata.uid !== vm.metadata.uid || isMadeBy(live, restore)) return done;
  const { items } = await client.list<PersistentVolumeClaim>(claimType, { namespace, signal });
  const [taken = [], others = []] = [true, false].map((isOurs) =>
    items.filter((each) => isMadeBy(each, restore) === isOurs),
  );
  const switched = taken.filter(({ metadata }) => metadata.labels?.[keptState.label] === name);
  if (switched.length === 0 || taken.some(({ metadata }) => hasVolumeOn(live, metadata.name))) return done;
  if (await runs(vm, context)) return running;
  const former = formerStateOf(vm, others);
  // First this one: who is ended before the other is taken off finds it again.
  if (former && !(await setLabels(former, { [keptState.label]: name, [keptState.obsoleteLabel]: null }, context)))
    return overtaken;
  for (const claim of switched) if (!(await setLabels(claim, { [keptState.label]: null }, context))) return overtaken;
  return done;
}

/** The newest of those that were put aside: older ones were left by restores before. */
function formerStateOf({ metadata }: VirtualMachine, claims: readonly PersistentVolumeClaim[]) {
  const mark = formerStateMark(metadata.name);
  const made = (claim: PersistentVolumeClaim) => claim.metadata.creationTimestamp ?? '';
  const aside = claims.filter(({ metadata: { labels = {}, deletionTimestamp } }) => {
    const isAside = labels[keptState.obsoleteLabel] === mark && labels[keptState.label] === undefined;
    return isAside && !deletionTimestamp;
  });
  return aside.sort((one, other) => made(other).localeCompare(made(one)))[0];
}

/** False: the claim is gone, or another one. */
function setLabels(
  { metadata }: PersistentVolumeClaim,
  labels: Readonly<Record<string, string | null>>,
  { client, signal }: ExecuteContext,
): Promise<boolean> {
  const body = { metadata: { uid: metadata.uid, labels } };
  return writeIfThere(client.patch<PersistentVolumeClaim>(claimType, metadata, body, 'merge', { signal }));
}

/** Onto the target that was decided on; a new one only where there is none. */
async function writeTarget(
  { wanted }: Step<RestoreStepArgs, 'writeTarget'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { client, vms, observation, signal } = context;
  if (!observation) return done;
  const { restore, target } = observation;
  if (await runs(target, context)) return running;
  const whole = await withRevisions(restore, wanted, client, signal);
  const type = resources.virtualMachines;
  if (target) {
    const isThere = await writeIfThere(
      client.update<VirtualMachine>(type, whole, { signal }).then((newer) => vms.saw(keyOf(target), target, newer)),
    );
    return isThere ? done : overtaken;
  }
  const isOwn = (existing: VirtualMachine) => isMadeBy(existing, restore);
  const { object } = await createOrFind(client, type, whole, isOwn, { signal });
  vms.created(keyOf(object), object);
  return done;
}

async function ownClaims(
  { vm, claims }: Step<RestoreStepArgs, 'ownClaims'>,
  { client, signal }: ExecuteContext,
): Promise<Outcome> {
  const ownerReferences = [controllerReference(resources.virtualMachines, vm)];
  for (const { metadata } of claims) {
    const { uid, resourceVersion } = metadata;
    const noted = { [annotations.restoredOwnedByVm]: null };
    const body = { metadata: { uid, resourceVersion, ownerReferences, annotations: noted } };
    const write = client.patch<PersistentVolumeClaim>(claimType, metadata, body, 'merge', { signal });
    if (!(await writeIfThere(write))) return overtaken;
  }
  return done;
}

type Looked = { readonly live: VirtualMachine } | { readonly wait: Outcome };

/** By the API server's word: the VM is the restored one, and does not run. */
async function whileRestored(vm: VirtualMachine, context: ExecuteContext): Promise<Looked> {
  const { client, observation, signal } = context;
  const live = await getIfThere<VirtualMachine>(client, resources.virtualMachines, vm.metadata, { signal });
  const isThere = live?.metadata.uid === vm.metadata.uid;
  if (!live || !isThere || !observation || !isMadeBy(live, observation.restore)) return { wait: overtaken };
  return (await runs(vm, context)) ? { wait: running } : { live };
}

/** Only what has been put aside, and is not any VM's again by now. */
async function deleteFormerState(
  { vm, claims }: Step<RestoreStepArgs, 'deleteFormerState'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { client, signal } = context;
  const looked = await whileRestored(vm, context);
  if ('wait' in looked) return looked.wait;
  for (const { metadata } of claims) {
    const claim = await getIfThere<PersistentVolumeClaim>(client, claimType, metadata, { signal });
    const { uid, resourceVersion, labels = {} } = claim?.metadata ?? {};
    const isObsolete = labels[keptState.obsoleteLabel] !== undefined && labels[keptState.label] === undefined;
    if (!isObsolete || uid !== metadata.uid) continue;
    await writeIfThere(client.delete(claimType, metadata, { uid, resourceVersion, signal }));
  }
  return done;
}

/** Those that the VM is not on by now. */
async function deleteDataVolumes(
  { vm, dataVolumes }: Step<RestoreStepArgs, 'deleteDataVolumes'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { client, signal } = context;
  const looked = await whileRestored(vm, context);
  if ('wait' in looked) return looked.wait;
  const { live } = looked;
  for (const { metadata } of dataVolumes) {
    const isNamed = templateNames(live.spec).includes(metadata.name) || hasVolumeOn(live, metadata.name);
    const found = await getIfThere<DataVolume>(client, resources.dataVolumes, metadata, { signal });
    if (isNamed || !found || controllerOf(found)?.uid !== vm.metadata.uid) continue;
    const { uid } = found.metadata;
    await writeIfThere(client.delete(resources.dataVolumes, metadata, { uid, signal }));
  }
  return done;
}
