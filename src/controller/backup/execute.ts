import {
  finalizers,
  keyOf,
  resources,
  type VirtualMachineBackup,
  type VirtualMachineBackupTracker,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { errorMessage, listOf, memberAt } from '../../base/index.ts';
import { type EventRecorder, getIfThere, isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, Outcome, ReadYourWrites, StepContext } from '../../reconcile/index.ts';
import { orderGuest, setFinalizer } from '../snapshot-source/index.ts';
import type { BackupStepArgs } from './decide.ts';
import { guestBackupOf, isBegun, isMarkedFor, type PresentBackup } from './observe.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'get' | 'patch' | 'raw'>;
  readonly backups: ReadYourWrites<VirtualMachineBackup>;
  readonly trackers: ReadYourWrites<VirtualMachineBackupTracker>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly observation: PresentBackup;
}

/** The launcher does not make it, and says why: the backup has failed. */
export const refusedByLauncher = 'REFUSED';

const done: Outcome = { kind: 'done' };
const overtaken: Outcome = { kind: 'wait', afterMs: 500, reason: 'the object has changed meanwhile' };
/** Where launchers find what is plugged into them (`--hotplug-disk-dir` of virt-launcher). */
const hotplugDir = '/var/run/kubevirt/hotplug-disks';

export const executors: Executors<BackupStepArgs, ExecuteContext> = {
  addFinalizer: (_step, context) => finalizer(true, context),
  removeFinalizer: (_step, context) => finalizer(false, context),
  attachClaim: (_step, context) => {
    const { volumeName: name, backup } = context.observation;
    const volume = { name, claimName: backup.spec.pvcName, type: 'Backup' };
    return patchGuest(context, (vmi) => {
      const others = withoutVolume(vmi, name);
      return { spec: { utilityVolumes: [...others, volume] } };
    });
  },
  detachClaim: (_step, context) =>
    patchGuest(context, (vmi) => {
      const others = withoutVolume(vmi, context.observation.volumeName);
      return { spec: { utilityVolumes: others.length > 0 ? others : null } };
    }),
  redefineCheckpoint,
  markGuest: (_step, context) => {
    const { metadata } = context.observation.backup;
    const backupStatus = { backupName: metadata.name, startTimestamp: metadata.creationTimestamp };
    return patchGuest(context, (vmi) => {
      const marked = guestBackupOf(vmi);
      if (marked) return isMarkedFor(marked, context.observation.backup) ? 'as-wanted' : 'overtaken';
      return { status: { changedBlockTracking: { backupStatus } } };
    });
  },
  unmarkGuest: (_step, context) => unmark(context),
  startBackup,
  abortBackup,
  recordCheckpoint: (_step, context) => {
    const { own } = context.observation;
    const { checkpoint: name, startTime: creationTime, volumes } = own ?? {};
    return patchTracker(
      { latestCheckpoint: { name, creationTime, volumes }, checkpointRedefinitionRequired: null },
      context,
    );
  },
};

async function finalizer(isWanted: boolean, context: ExecuteContext): Promise<Outcome> {
  const { client, backups: objects, signal, observation } = context;
  const backup = objects.get(observation.key) ?? observation.backup;
  const wish = { name: finalizers.vmBackup, isWanted };
  const isSet = await setFinalizer(resources.virtualMachineBackups, backup, wish, { client, objects }, signal);
  return isSet ? done : overtaken;
}

/** Of a step before in the same plan, or as it was decided on. */
function guestOf({ vmis, observation }: ExecuteContext): VirtualMachineInstance | undefined {
  const { vmi } = observation;
  const newest = vmi && vmis.get(keyOf(vmi));
  return newest?.metadata.uid === vmi?.metadata.uid ? newest : undefined;
}

type GuestChange = (vmi: VirtualMachineInstance) => object | 'as-wanted' | 'overtaken';

/** The API server takes it only onto the VMI that it was computed of. */
async function patchGuest(context: ExecuteContext, changeOf: GuestChange): Promise<Outcome> {
  const { client, vmis, signal } = context;
  const vmi = guestOf(context);
  const change = vmi ? changeOf(vmi) : 'overtaken';
  if (!vmi || change === 'overtaken') return overtaken;
  if (change === 'as-wanted') return done;
  const { uid, resourceVersion } = vmi.metadata;
  const body = { metadata: { uid, resourceVersion }, ...change };
  const patching = client
    .patch<VirtualMachineInstance>(resources.virtualMachineInstances, vmi.metadata, body, 'merge', { signal })
    .then((newer) => vmis.saw(keyOf(vmi), vmi, newer));
  return (await writeIfThere(patching)) ? done : overtaken;
}

function unmark(context: ExecuteContext): Promise<Outcome> {
  const { own, other } = context.observation;
  return patchGuest(context, (vmi) => {
    const marked = guestBackupOf(vmi);
    if (!marked || marked.name !== (own ?? other)?.name) return 'as-wanted';
    return { status: { changedBlockTracking: { backupStatus: null } } };
  });
}

function withoutVolume({ spec }: VirtualMachineInstance, name: string): unknown[] {
  return listOf(memberAt(spec, 'utilityVolumes')).filter((volume) => memberAt(volume, 'name') !== name);
}

async function patchTracker(status: object, context: ExecuteContext): Promise<Outcome> {
  const { client, trackers, signal, observation } = context;
  const { tracker } = observation;
  if (!tracker) return overtaken;
  const body = { metadata: { uid: tracker.metadata.uid }, status };
  const options = { subresource: 'status', signal };
  const patching = client
    .patch<VirtualMachineBackupTracker>(
      resources.virtualMachineBackupTrackers,
      tracker.metadata,
      body,
      'merge',
      options,
    )
    .then((newer) => trackers.patched(keyOf(tracker), tracker, newer));
  // A tracker that is gone needs no checkpoint.
  return (await writeIfThere(patching)) ? done : overtaken;
}

function ask(what: string, body: object, { client, observation, signal }: ExecuteContext): Promise<void> {
  const { namespace } = observation.backup.metadata;
  return orderGuest({ namespace, name: observation.vmName }, what, body, client, signal);
}

async function redefineCheckpoint(_step: object, context: ExecuteContext): Promise<Outcome> {
  const { tracker } = context.observation;
  const checkpoint = tracker?.status?.latestCheckpoint;
  if (!tracker || !checkpoint) return overtaken;
  try {
    await ask('redefine-checkpoint', checkpoint, context);
  } catch (error) {
    if (!isUseless(error)) throw error;
    const message = `Failed to redefine checkpoint ${checkpoint.name}: ${errorMessage(error)}. It is given up, and the next backup is a full one.`;
    context.events.record(tracker, 'Warning', 'CheckpointRedefinitionFailed', message);
    const written = await patchTracker({ latestCheckpoint: null, checkpointRedefinitionRequired: null }, context);
    return written.kind === 'done'
      ? { kind: 'wait', afterMs: 0, reason: 'the checkpoint is of no use: a full backup begins' }
      : written;
  }
  if (!tracker.status?.checkpointRedefinitionRequired) return done;
  return patchTracker({ checkpointRedefinitionRequired: null }, context);
}

/** The agent says 422; upstream's virt-api makes a 500 of it that quotes the status. */
function isUseless(error: unknown): boolean {
  if (!isKubeError(error)) return false;
  return error.httpStatus === 422 || /\b422 Unprocessable Entity\b/.test(error.message);
}

async function startBackup(
  { since }: { readonly since: string | undefined },
  context: ExecuteContext,
): Promise<Outcome> {
  const { backup, volumeName } = context.observation;
  const { skipQuiesce = false } = backup.spec;
  const order = {
    ...orderOf('Start', backup),
    ...{ mode: 'Push', targetPath: `${hotplugDir}/${volumeName}`, skipQuiesce },
    ...(since !== undefined && { incremental: since }),
  };
  try {
    await ask('backup', order, context);
    return done;
  } catch (error) {
    // What was asked twice, or took longer than the call, has begun all the same.
    if (!isKubeError(error) || error.httpStatus !== 400 || (await hasBegun(context))) throw error;
    return { kind: 'failed', error: { severity: 'critical', code: refusedByLauncher, message: errorMessage(error) } };
  }
}

async function abortBackup(_step: object, context: ExecuteContext): Promise<Outcome> {
  try {
    await ask('backup', orderOf('Abort', context.observation.backup), context);
    return done;
  } catch (error) {
    if (!isKubeError(error) || error.httpStatus !== 400) throw error;
    // It has just ended, which the VMI will say; or it was never begun.
    return (await hasBegun(context)) ? done : unmark(context);
  }
}

function orderOf(cmd: 'Start' | 'Abort', { metadata }: VirtualMachineBackup) {
  return { backupName: metadata.name, cmd, backupStartTime: metadata.creationTimestamp };
}

/** As the API server has it now: the cache may be behind. */
async function hasBegun({ client, observation, signal }: ExecuteContext): Promise<boolean> {
  const { vmi, backup } = observation;
  if (!vmi) return false;
  const newest = await getIfThere<VirtualMachineInstance>(client, resources.virtualMachineInstances, vmi.metadata, {
    signal,
  });
  const marked = newest && guestBackupOf(newest);
  return marked !== undefined && isMarkedFor(marked, backup) && isBegun(marked);
}
