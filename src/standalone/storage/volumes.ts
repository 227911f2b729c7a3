import { type PersistentVolume, type PersistentVolumeClaim, resources } from '../../api/index.ts';
import { getIfThere, writeIfThere } from '../../kube/index.ts';
import {
  decideBy,
  type Executors,
  type ObjectEvent,
  type Observed,
  type Outcome,
  ruleTable,
  type Step,
} from '../../reconcile/index.ts';
import { driver, finalizers, isOfOwnData, ownHandle } from './driver.ts';
import {
  addFinalizer,
  changed,
  deleteWhole,
  done,
  failedWith,
  has,
  orChanged,
  removeFinalizer,
  type StorageContext,
  type StorageDecision,
  type StorageDeps,
  type StorageKind,
  type StoragePlan,
} from './loop.ts';

/** All that a decision about one volume rests on; plain data. */
export interface VolumeFacts extends Observed {
  readonly volume: PersistentVolume | undefined;
  /** The very claim that the volume is bound to is in the cache. */
  readonly isClaimThere: boolean;
  /** Another volume, made before, with the same data. */
  readonly twin: string | undefined;
  /** What is wrong with its data on disk. */
  readonly dataProblem: string | undefined;
  /** A block volume that no pod has. */
  readonly isIdleBlock: boolean;
}

interface VolumeStatus {
  readonly phase: string;
  readonly reason?: string;
  readonly message?: string;
}

export interface VolumeStepArgs {
  protect: object;
  writeStatus: VolumeStatus;
  /** After the API server has confirmed that the claim is gone. */
  reclaim: object;
  /** Its data stays. */
  release: object;
  detach: object;
}

type Plan = StoragePlan<VolumeStepArgs>;

const nothing: Plan = { steps: [] };

export function observeVolume(key: string, { caches, files, clock }: StorageDeps): Promise<VolumeFacts> {
  return observe(caches.volumes.get(key), key, { caches, files, clock });
}

async function observe(
  volume: PersistentVolume | undefined,
  key: string,
  { caches, files, clock }: Pick<StorageDeps, 'caches' | 'files' | 'clock'>,
): Promise<VolumeFacts> {
  const { claimRef } = volume?.spec ?? {};
  const claimKey = `${claimRef?.namespace}/${claimRef?.name}`;
  const handle = ownHandle(volume);
  const isClaimThere = claimRef?.uid !== undefined && caches.claims.get(claimKey)?.metadata.uid === claimRef.uid;
  const twin = caches.volumes.list().find((other) => volume && ownHandle(other) === handle && isBefore(other, volume));
  return {
    key,
    uid: volume?.metadata.uid ?? '',
    now: clock.now(),
    volume,
    isClaimThere,
    twin: handle === undefined ? undefined : twin?.metadata.name,
    dataProblem: handle === undefined ? undefined : await files.problem(handle),
    isIdleBlock: volume?.spec.volumeMode === 'Block' && caches.usersOf(claimKey).length === 0,
  };
}

/** Of two with the same data: that which was made with it, and nobody can make a second one of its name; else the older; of one second, that with the smaller UID. */
export function isBefore(one: PersistentVolume, other: PersistentVolume): boolean {
  const order = (volume: PersistentVolume) => {
    const { creationTimestamp = '', uid = '' } = volume.metadata;
    return `${isOfOwnData(volume) ? 0 : 1} ${creationTimestamp} ${uid}`;
  };
  return one.metadata.uid !== other.metadata.uid && order(one) < order(other);
}

/** Why this volume cannot be anybody's. */
function faultOf({ volume, twin, dataProblem }: VolumeFacts): { reason: string; message: string } | undefined {
  if (volume && ownHandle(volume) === undefined) {
    const advice = `use a volume of csi driver ${driver}, or a hostDisk volume for a file of this machine`;
    const kind = Object.keys(volume.spec).find((name) => ['local', 'hostPath', 'nfs', 'csi', 'iscsi'].includes(name));
    return { reason: 'UnsupportedSource', message: `this node binds no volume of ${kind ?? 'this kind'}: ${advice}` };
  }
  if (twin) return { reason: 'DataInUse', message: `volume ${twin} has the same volumeHandle: delete one of the two` };
  return dataProblem === undefined ? undefined : { reason: 'DataMissing', message: `its data ${dataProblem}` };
}

const isDeleted = ({ volume }: VolumeFacts) => volume?.metadata.deletionTimestamp !== undefined;
const policyOf = ({ volume }: VolumeFacts) => volume?.spec.persistentVolumeReclaimPolicy ?? 'Retain';

/** Writes what differs. */
function withStatus({ volume }: VolumeFacts, status: VolumeStatus, events: readonly ObjectEvent[] = []): Plan {
  const { phase, reason, message } = volume?.status ?? {};
  if (phase === status.phase && reason === status.reason && message === status.message) return nothing;
  return { steps: [{ step: 'writeStatus', ...status }], events };
}

const table = ruleTable<VolumeFacts, Plan>(
  [
    {
      name: 'volume-gone',
      why: 'There is no such volume.',
      when: ({ volume }) => volume === undefined,
      plan: () => nothing,
    },
    {
      name: 'volume-of-nobody-deleted',
      why: 'The volume is being deleted, and no claim has it: it goes, and its data stays.',
      when: (facts) => isDeleted(facts) && !facts.volume?.spec.claimRef?.uid,
      plan: () => ({ steps: [{ step: 'release' }] }),
    },
    {
      name: 'volume-foreign',
      why: 'The volume is of a kind that this node does not bind.',
      when: ({ volume }) => ownHandle(volume) === undefined,
      plan: (facts) => refuse(facts),
    },
    {
      name: 'volume-claimed',
      why: 'The volume is bound to a claim, or will be.',
      when: ({ isClaimThere }) => isClaimThere,
      plan: (facts) => {
        const detach: Plan['steps'] = facts.isIdleBlock ? [{ step: 'detach' }] : [];
        const plan = facts.volume?.status?.phase === 'Pending' ? nothing : withStatus(facts, { phase: 'Bound' });
        return { ...plan, steps: [...plan.steps, ...detach] };
      },
    },
    {
      name: 'volume-let-go',
      why: 'The claim of the volume is gone, and the data goes with it: the volume says Delete.',
      when: (facts) => Boolean(facts.volume?.spec.claimRef?.uid) && policyOf(facts) === 'Delete' && !facts.twin,
      plan: (facts) => {
        const { steps } = withStatus(facts, { phase: 'Released' });
        return { steps: [...steps, { step: 'reclaim' }] };
      },
    },
    {
      name: 'volume-kept-deleted',
      why: 'The claim of the volume is gone and the volume is being deleted: it goes, and its data stays.',
      when: (facts) => isDeleted(facts),
      plan: () => ({ steps: [{ step: 'detach' }, { step: 'release' }] }),
    },
    {
      name: 'volume-kept',
      why: 'The claim of the volume is gone, and the data stays: the volume says Retain. Without its claimRef it is free again.',
      when: ({ volume }) => Boolean(volume?.spec.claimRef?.uid),
      plan: (facts) => {
        const plan = withStatus(facts, { phase: 'Released' });
        return { ...plan, steps: [...plan.steps, { step: 'detach' }] };
      },
    },
    {
      name: 'volume-unusable',
      why: 'The volume has no data of its own on this machine.',
      when: (facts) => faultOf(facts) !== undefined,
      plan: (facts) => refuse(facts),
    },
  ],
  {
    name: 'volume-free',
    why: 'The volume is free for a claim that it fits.',
    plan: (facts) => {
      const plan = withStatus(facts, { phase: 'Available' });
      if (!facts.volume || has(facts.volume, finalizers.volume)) return plan;
      return { ...plan, steps: [{ step: 'protect' }, ...plan.steps] };
    },
  },
);

function refuse(facts: VolumeFacts): Plan {
  const fault = faultOf(facts);
  if (!fault) return nothing;
  return {
    ...withStatus(facts, { phase: 'Failed', ...fault }, [{ type: 'Warning', ...fault }]),
    requeueAfterMs: 60_000,
  };
}

/** Pure and total. */
export const volumeRules = table.rules;
export const decideVolume = (facts: VolumeFacts): StorageDecision<VolumeStepArgs> => decideBy(table, facts);

type Context = StorageContext<VolumeFacts>;
const type = resources.persistentVolumes;

const executors: Executors<VolumeStepArgs, Context> = {
  protect: async (_step, { observation: { volume }, deps }) =>
    volume ? addFinalizer(deps.client, type, volume, finalizers.volume) : done,
  release: async (_step, { observation: { volume }, deps }) =>
    volume ? removeFinalizer(deps.client, type, volume, finalizers.volume) : done,
  writeStatus: async ({ phase, reason, message }: Step<VolumeStepArgs, 'writeStatus'>, { observation, deps }) => {
    const { volume } = observation;
    const status = { phase, reason: reason ?? null, message: message ?? null };
    if (!volume) return done;
    const { uid, resourceVersion } = volume.metadata;
    const body = { metadata: { uid, resourceVersion }, status };
    const isDone = await writeIfThere(
      deps.client.patch(type, volume.metadata, body, 'merge', { subresource: 'status' }),
    );
    return orChanged(isDone);
  },
  reclaim,
  detach: async (_step, { observation, deps }) => {
    const handle = ownHandle(observation.volume);
    if (handle !== undefined && observation.volume?.spec.volumeMode === 'Block') {
      await deps.loops.detach(deps.files.image(handle));
    }
    return done;
  },
};

/** The cache may be behind: the API server is asked, for nothing brings the data back. */
async function reclaim(_step: object, context: Context): Promise<Outcome> {
  const { observation, deps, signal } = context;
  const { client, files, loops } = deps;
  const known = observation.volume?.metadata.name ?? '';
  const volume = await getIfThere<PersistentVolume>(client, type, { name: known }, { signal });
  const { claimRef, persistentVolumeReclaimPolicy: policy } = volume?.spec ?? {};
  const handle = ownHandle(volume);
  if (!volume || volume.metadata.uid !== observation.uid || !claimRef?.uid || policy !== 'Delete') return changed;
  if (handle === undefined) return done;
  const ref = { name: claimRef.name, ...(claimRef.namespace !== undefined && { namespace: claimRef.namespace }) };
  const claim = await getIfThere<PersistentVolumeClaim>(client, resources.persistentVolumeClaims, ref, { signal });
  if (claim?.metadata.uid === claimRef.uid) return changed;
  try {
    if (volume.spec.volumeMode === 'Block') await loops.detach(files.image(handle));
    await files.remove(handle);
  } catch (error) {
    return failedWith('VolumeFailedDelete', 'reclaim', error);
  }
  return deleteWhole(client, type, volume, finalizers.volume, signal);
}

export const volumeKind: StorageKind<VolumeFacts, VolumeStepArgs> = {
  word: 'volume',
  observe: observeVolume,
  decide: decideVolume,
  executors,
  objectOf: ({ volume }) => volume,
  seenOf: ({ volume, isClaimThere, dataProblem }) => ({
    phase: volume?.status?.phase ?? 'gone',
    claim: isClaimThere ? 'there' : 'not there',
    data: dataProblem ?? 'there',
  }),
};
