import {
  finalizers,
  isExportOf,
  keyOf,
  resources,
  type VirtualMachineBackup,
  type VirtualMachineBackupTracker,
  type VirtualMachineExport,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { errorMessage, listOf, memberAt } from '../../base/index.ts';
import { issue } from '../../certificates/index.ts';
import { createOrFind, getIfThere, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import type { Authority } from '../authority.ts';
import { patchTracker } from '../backup-tracker/index.ts';
import { controllerReference } from '../owned/index.ts';
import { orderGuest, setFinalizer } from '../snapshot-source/index.ts';
import type { BackupStepArgs } from './decide.ts';
import { guestBackupOf, isBegun, isMarkedFor, type PresentBackup } from './observe.ts';
import { refusalOf } from './refusals.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'delete' | 'patch' | 'raw'>;
  readonly backups: ReadYourWrites<VirtualMachineBackup>;
  readonly trackers: ReadYourWrites<VirtualMachineBackupTracker>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly exports: ReadYourWrites<VirtualMachineExport>;
  readonly tunnel: TunnelAuthorities;
  readonly observation: PresentBackup;
}

/** Who vouches for whom between launchers and exporter pods. */
export interface TunnelAuthorities {
  /** Of exporter pods. */
  readonly servers: Pick<Authority, 'bundle'>;
  readonly launchers: Pick<Authority, 'pair'>;
}

/** The launcher does not make it, and says why: the backup has failed. */
export const refusedByLauncher = 'REFUSED';

const dayMs = 24 * 3_600_000;
/** What belongs to a pull outlives the time that it may be read for by this. */
const afterMs = 60_000;

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
  recordCheckpoint: async (_step, context) => {
    const { own, tracker } = context.observation;
    if (!tracker) return overtaken;
    const { checkpoint: name, startTime: creationTime, volumes } = own ?? {};
    const status = { latestCheckpoint: { name, creationTime, volumes }, checkpointRedefinitionRequired: null };
    // A tracker that is gone needs no checkpoint.
    return (await patchTracker(tracker, status, context, context.signal)) ? done : overtaken;
  },
  checkAuthorities: async (_step, { tunnel, signal }) => {
    await Promise.all([tunnel.servers.bundle(signal), tunnel.launchers.pair()]);
    return done;
  },
  createExport,
  deleteExport: async (_step, { client, observation: { vmExport }, signal }) => {
    if (!vmExport) return done;
    const { uid } = vmExport.metadata;
    await writeIfThere(client.delete(resources.virtualMachineExports, vmExport.metadata, { uid, signal }));
    return done;
  },
  orderExport,
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

function ask(what: string, body: object, { client, observation, signal }: ExecuteContext): Promise<void> {
  const { namespace } = observation.backup.metadata;
  return orderGuest({ namespace, name: observation.vmName }, what, body, client, signal);
}

async function startBackup(
  { since }: { readonly since: string | undefined },
  context: ExecuteContext,
): Promise<Outcome> {
  const { backup, volumeName } = context.observation;
  const { skipQuiesce = false } = backup.spec;
  const order = {
    ...orderOf('Start', backup),
    ...{ mode: backup.spec.mode ?? 'Push', targetPath: `${hotplugDir}/${volumeName}`, skipQuiesce },
    ...(since !== undefined && { incremental: since }),
  };
  try {
    await ask('backup', order, context);
    return done;
  } catch (error) {
    // What was asked twice, or took longer than the call, has begun all the same, or may have: the same order again tells.
    const refusal = refusalOf(error);
    if (refusal === undefined || refusal === 'unknown' || (await hasBegun(context))) throw error;
    return { kind: 'failed', error: { severity: 'critical', code: refusedByLauncher, message: errorMessage(error) } };
  }
}

async function abortBackup(
  { discards }: Step<BackupStepArgs, 'abortBackup'>,
  context: ExecuteContext,
): Promise<Outcome> {
  // A launcher that does not know the field keeps the checkpoint, as upstream's does.
  const order = { ...orderOf('Abort', context.observation.backup), ...(discards && { discardCheckpoint: true }) };
  try {
    await ask('backup', order, context);
    return done;
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === undefined) throw error;
    // It has just ended, which the VMI will say.
    if (await hasBegun(context)) return done;
    // A launcher that cannot abort now may have begun it and not told yet: its claim stays.
    if (refusal !== 'nothing-under-way') throw error;
    return unmark(context);
  }
}

/** Of the backup's name; it goes with the backup at the latest. */
async function createExport(_step: object, context: ExecuteContext): Promise<Outcome> {
  const { client, exports, observation, signal } = context;
  const { backup, key } = observation;
  const type = resources.virtualMachineExports;
  const { namespace, name } = backup.metadata;
  const { apiGroup, kind } = { apiGroup: resources.virtualMachineBackups.group, kind: backup.kind };
  const wanted: VirtualMachineExport = {
    ...{ apiVersion: `${type.group}/${type.version}`, kind: type.kind },
    metadata: {
      ...{ name, ...(namespace && { namespace }) },
      ownerReferences: [controllerReference(resources.virtualMachineBackups, backup)],
    },
    spec: {
      source: { apiGroup, kind: kind ?? resources.virtualMachineBackups.kind, name },
      ...(backup.spec.tokenSecretRef !== undefined && { tokenSecretRef: backup.spec.tokenSecretRef }),
      // The backup is ended first, and takes the export with it.
      ttlDuration: `${Math.ceil((leftMs(observation) + afterMs) / 1_000)}s`,
    },
  };
  const isOwn = (there: VirtualMachineExport) => isExportOf(backup, there);
  const { object } = await createOrFind(client, type, wanted, isOwn, { signal });
  exports.created(key, object);
  return done;
}

const leftMs = ({ expiresAt, now }: PresentBackup) => Math.max(0, expiresAt.getTime() - now.getTime());

/** The launcher shows who it is by a certificate that is made for this backup alone. */
async function orderExport(
  { service }: Step<BackupStepArgs, 'orderExport'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { observation, tunnel, signal } = context;
  const { backup, uid } = observation;
  const pair = await issue(await tunnel.launchers.pair(), {
    ...{ commonName: `kubevirt.io:system:client:${uid}`, usage: 'clientAuth' },
    days: (leftMs(observation) + afterMs) / dayMs,
  });
  const exportServerAddr = `${service}.${backup.metadata.namespace}.svc`;
  const order = {
    ...orderOf('Export', backup),
    ...{ mode: 'Pull', exportServerAddr, exportServerName: `${exportServerAddr}.cluster.local` },
    ...{ backupCert: pair.cert, backupKey: pair.key, caCert: await tunnel.servers.bundle(signal) },
  };
  await ask('backup', order, context);
  return done;
}

function orderOf(cmd: 'Start' | 'Abort' | 'Export', { metadata }: VirtualMachineBackup) {
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
