import {
  binaryQuantity,
  type KubeObject,
  type PersistentVolume,
  type PersistentVolumeClaim,
  resources,
} from '../../api/index.ts';
import { getIfThere, isKubeError, writeIfThere } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, Step } from '../../reconcile/index.ts';
import type { ClaimFacts } from './claim-facts.ts';
import { type ClaimStepArgs, lossOf, roomWords } from './claim-rules.ts';
import { annotations, driver, finalizers, handleOf, ownHandle, volumeNameOf } from './driver.ts';
import { requireUnused } from './in-use.ts';
import { addFinalizer, changed, done, failedWith, orChanged, removeFinalizer, type StorageContext } from './loop.ts';
import { wantedBytes } from './sizes.ts';

type Context = StorageContext<ClaimFacts>;
const claims = resources.persistentVolumeClaims;
const volumes = resources.persistentVolumes;

export const claimExecutors: Executors<ClaimStepArgs, Context> = {
  protect: (_step, context) => addFinalizer(context.deps.client, claims, claimOf(context), finalizers.claim),
  useClass: async ({ name }, context) => {
    const claim = claimOf(context);
    const body = { metadata: { uid: claim.metadata.uid }, spec: { storageClassName: name } };
    return orChanged(await writeIfThere(context.deps.client.patch(claims, claim.metadata, body, 'merge')));
  },
  provision,
  reserve,
  bind,
  grow,
  lose: async ({ problem }, context) => {
    const { observation, deps, signal } = context;
    // The cache of volumes may be behind that of claims.
    const name = claimOf(context).spec.volumeName ?? '';
    const volume = await getIfThere<PersistentVolume>(deps.client, volumes, { name }, { signal });
    if (lossOf({ ...observation, volume }) === undefined) return changed;
    const message = `${problem}: no guest starts with it; put the data back, or delete the claim`;
    await writeStatus(context, { phase: 'Lost' });
    return { kind: 'done', events: [{ type: 'Warning', reason: 'ClaimLost', message }] };
  },
  discard,
  release: (_step, context) => removeFinalizer(context.deps.client, claims, claimOf(context), finalizers.claim),
};

function claimOf({ observation }: Context): PersistentVolumeClaim {
  if (observation.claim) return observation.claim;
  throw new Error('a step without a claim');
}

async function writeStatus({ observation, deps }: Context, status: object): Promise<boolean> {
  const { metadata } = observation.claim ?? {};
  if (!metadata) return false;
  const body = { metadata: { uid: metadata.uid }, status };
  return writeIfThere(deps.client.patch(claims, metadata, body, 'merge', { subresource: 'status' }));
}

/** The data first: a volume that exists has it, whoever is killed in between. */
async function provision(_step: object, context: Context): Promise<Outcome> {
  const { observation, deps, signal } = context;
  const claim = claimOf(context);
  const { source, freeBytes } = observation;
  const sizeBytes = wantedBytes(claim);
  const isBlock = claim.spec.volumeMode === 'Block';
  try {
    const from = source.kind === 'ready' ? source : undefined;
    if (from?.of?.spec.volumeMode === 'Block' && 'volume' in from.from) {
      await deps.loops.flush(deps.files.image(from.from.volume));
    }
    await deps.files.create(handleOf(claim), { sizeBytes, isBlock }, from?.from, {
      signal,
      requireUnused: async () => from?.of && requireUnused(from.of, 'claim', deps, signal),
    });
    await deps.client.create(volumes, volumeFor(context, sizeBytes), { signal });
  } catch (error) {
    if (!isKubeError(error, 'ALREADY_EXISTS')) return failedWith('ProvisioningFailed', 'provision', error);
  }
  const message = `Successfully provisioned volume ${volumeNameOf(claim)}${roomWords(sizeBytes, freeBytes)}`;
  const event: ObjectEvent = { type: 'Normal', reason: 'ProvisioningSucceeded', message };
  return { kind: 'done', events: [event] };
}

function volumeFor(context: Context, sizeBytes: number): KubeObject {
  const claim = claimOf(context);
  const { storageClass } = context.observation;
  const { namespace, name, uid, resourceVersion } = claim.metadata;
  // Of a version that did not look at claims.
  const { accessModes = [] } = claim.spec;
  const volume: PersistentVolume = {
    apiVersion: 'v1',
    kind: volumes.kind,
    metadata: {
      name: volumeNameOf(claim),
      annotations: { [annotations.provisionedBy]: driver },
      finalizers: [finalizers.volume],
    },
    spec: {
      capacity: { storage: binaryQuantity(sizeBytes) },
      accessModes: accessModes.length > 0 ? accessModes : ['ReadWriteOnce'],
      volumeMode: claim.spec.volumeMode ?? 'Filesystem',
      storageClassName: storageClass?.metadata.name ?? '',
      persistentVolumeReclaimPolicy: storageClass?.reclaimPolicy ?? 'Delete',
      claimRef: {
        apiVersion: 'v1',
        kind: claims.kind,
        name,
        uid: uid ?? '',
        resourceVersion,
        ...(namespace && { namespace }),
      },
      csi: { driver, volumeHandle: handleOf(claim) },
    },
  };
  return volume;
}

/** Of two claims that want one volume the API server lets one have it. */
async function reserve({ volume }: Step<ClaimStepArgs, 'reserve'>, context: Context): Promise<Outcome> {
  const claim = claimOf(context);
  const { namespace, name, uid } = claim.metadata;
  if (volume.spec.claimRef?.uid !== uid) {
    const { uid: volumeUid, resourceVersion } = volume.metadata;
    const claimRef = { apiVersion: 'v1', kind: claims.kind, namespace, name, uid };
    const body = { metadata: { uid: volumeUid, resourceVersion }, spec: { claimRef } };
    const isDone = await writeIfThere(context.deps.client.patch(volumes, volume.metadata, body, 'merge'));
    if (!isDone) return changed;
  }
  return done;
}

async function bind(_step: object, context: Context): Promise<Outcome> {
  const { client } = context.deps;
  const claim = claimOf(context);
  const { volume: known, candidate } = context.observation;
  const name = (known ?? candidate)?.metadata.name ?? volumeNameOf(claim);
  const volume = await getIfThere<PersistentVolume>(client, volumes, { name }, { signal: context.signal });
  if (!volume || volume.spec.claimRef?.uid !== claim.metadata.uid) return changed;
  const marks = {
    [annotations.bindCompleted]: 'yes',
    [annotations.boundByController]: 'yes',
    [annotations.provisioner]: driver,
  };
  const body = { metadata: { uid: claim.metadata.uid, annotations: marks }, spec: { volumeName: name } };
  if (!(await writeIfThere(client.patch(claims, claim.metadata, body, 'merge')))) return changed;
  await writeIfThere(
    client.patch(volumes, { name }, { status: { phase: 'Bound' } }, 'merge', { subresource: 'status' }),
  );
  const { capacity = {}, accessModes = [] } = volume.spec;
  return orChanged(await writeStatus(context, { phase: 'Bound', capacity, accessModes }));
}

/** The disk, its device, then what the objects say: the launcher reads that, and tells the guest. */
async function grow({ sizeBytes }: Step<ClaimStepArgs, 'grow'>, context: Context): Promise<Outcome> {
  const { observation, deps } = context;
  const { volume, freeBytes } = observation;
  const handle = ownHandle(volume);
  if (!volume || handle === undefined) return done;
  const capacity = { storage: binaryQuantity(sizeBytes) };
  try {
    await deps.files.grow(handle, sizeBytes);
    await deps.loops.refresh(deps.files.image(handle));
    await deps.client.patch(volumes, volume.metadata, { spec: { capacity } }, 'merge');
  } catch (error) {
    return failedWith('VolumeResizeFailed', 'grow', error);
  }
  if (!(await writeStatus(context, { capacity }))) return changed;
  const message = `volume ${volume.metadata.name} has ${capacity.storage} now${roomWords(sizeBytes, freeBytes)}`;
  return { kind: 'done', events: [{ type: 'Normal', reason: 'VolumeResizeSuccessful', message }] };
}

/** Where a volume was made it is that volume's data; a claim of an older version was bound without one, and its data stays. */
async function discard(_step: object, context: Context): Promise<Outcome> {
  const { client, files } = context.deps;
  const claim = claimOf(context);
  if (claim.status?.phase !== 'Pending') return done;
  const volume = await getIfThere(client, volumes, { name: volumeNameOf(claim) }, { signal: context.signal });
  if (!volume) await files.remove(handleOf(claim));
  return done;
}
