import {
  binaryQuantity,
  type KubeObject,
  keyOf,
  type PersistentVolumeClaim,
  resources,
  type VolumeSnapshot,
  type VolumeSnapshotClass,
  type VolumeSnapshotContent,
} from '../../api/index.ts';
import { errorMessage, rfc3339 } from '../../base/index.ts';
import { getIfThere, isKubeError, writeIfThere } from '../../kube/index.ts';
import { decideBy, type Executors, type Observed, type Outcome, ruleTable } from '../../reconcile/index.ts';
import { annotations, boundHandle, driver, finalizers } from './driver.ts';
import { copierOf, heldProblem, requireUnused } from './in-use.ts';
import {
  addFinalizer,
  changed,
  done,
  orChanged,
  removeFinalizer,
  type StorageContext,
  type StorageDecision,
  type StorageDeps,
  type StorageKind,
  type StoragePlan,
} from './loop.ts';

/** All that a decision about one snapshot rests on; plain data. */
export interface SnapshotFacts extends Observed {
  readonly snapshot: VolumeSnapshot | undefined;
  readonly claim: PersistentVolumeClaim | undefined;
  /** The claim's volume. */
  readonly bound: ReturnType<typeof boundHandle> | undefined;
  /** The class that it names, or the default one. */
  readonly snapshotClass: VolumeSnapshotClass | undefined;
  /** What it names as its content, or what was made for it. */
  readonly content: VolumeSnapshotContent | undefined;
  /** Pods that have the claim. */
  readonly users: readonly string[];
  /** Why the disk cannot be copied now. */
  readonly heldProblem: string | undefined;
}

export interface SnapshotStepArgs {
  protect: object;
  useClass: { readonly name: string };
  /** Copies the disk, then makes the content. */
  take: object;
  writeReady: { readonly content: VolumeSnapshotContent };
  writeError: { readonly message: string };
  deleteContent: { readonly content: VolumeSnapshotContent };
  /** What was copied for a snapshot without a content. */
  discard: object;
  release: object;
}

type Plan = StoragePlan<SnapshotStepArgs>;

export async function observeSnapshot(key: string, deps: StorageDeps): Promise<SnapshotFacts> {
  const { caches, clock } = deps;
  const snapshot = caches.snapshots.get(key);
  const { spec, metadata, status } = snapshot ?? {};
  const claim = caches.claims.get(`${metadata?.namespace}/${spec?.source.persistentVolumeClaimName}`);
  const className = spec?.volumeSnapshotClassName;
  const classes = caches.snapshotClasses;
  const isDefault = ({ metadata: of, driver: its }: VolumeSnapshotClass) =>
    its === driver && of.annotations?.[annotations.defaultSnapshotClass] === 'true';
  const contentName = status?.boundVolumeSnapshotContentName ?? spec?.source.volumeSnapshotContentName;
  return {
    key,
    uid: metadata?.uid ?? '',
    now: clock.now(),
    snapshot,
    claim,
    bound: claim && boundHandle(claim, caches.volumes.get(claim.spec.volumeName ?? '')),
    snapshotClass: className ? classes.get(className) : classes.list().find(isDefault),
    content: caches.contents.get(contentName ?? contentNameOf(metadata?.uid)),
    users: claim ? caches.usersOf(keyOf(claim)) : [],
    heldProblem:
      snapshot && claim && !status?.readyToUse ? (await heldProblem(claim, copierOf(snapshot), deps))?.why : undefined,
  };
}

const contentNameOf = (uid = '') => `snapcontent-${uid}`;
const snapshotHandleOf = (uid = '') => `snapshot-${uid}`;

/** The content is this snapshot's, or names it. */
function isOf({ spec }: VolumeSnapshotContent, { metadata }: VolumeSnapshot): boolean {
  const { namespace, name, uid } = spec.volumeSnapshotRef;
  return namespace === metadata.namespace && name === metadata.name && (uid === undefined || uid === metadata.uid);
}

function problemOf({
  snapshot,
  claim,
  bound,
  snapshotClass,
  content,
  heldProblem: held,
}: SnapshotFacts): string | undefined {
  const { persistentVolumeClaimName: claimName, volumeSnapshotContentName: contentName } = snapshot?.spec.source ?? {};
  if (contentName) {
    if (!content) return `content ${contentName} does not exist`;
    if (content.spec.driver !== driver) return `content ${contentName} is of the driver ${content.spec.driver}`;
    return snapshot && !isOf(content, snapshot) ? `content ${contentName} is another snapshot's` : undefined;
  }
  const className = snapshot?.spec.volumeSnapshotClassName;
  if (!snapshotClass) {
    return className
      ? `snapshot class ${className} does not exist`
      : 'no snapshot class is given, and none is the default one';
  }
  if (snapshotClass.driver !== driver) return `snapshot class ${className} is of the driver ${snapshotClass.driver}`;
  const unknown = Object.keys(snapshotClass.parameters ?? {});
  if (unknown.length > 0) return `snapshot class ${className}: ${driver} has no parameter ${unknown.join(', ')}`;
  if (!claim) return `claim ${claimName} does not exist`;
  if (claim.status?.phase !== 'Bound') return `claim ${claimName} is ${claim.status?.phase}`;
  return bound && 'problem' in bound ? `claim ${claimName} ${bound.problem}` : held;
}

const isDeleted = ({ snapshot }: SnapshotFacts) => snapshot?.metadata.deletionTimestamp !== undefined;
const lookMs = 60_000;

const table = ruleTable<SnapshotFacts, Plan>(
  [
    {
      name: 'snapshot-gone',
      why: 'There is no such snapshot.',
      when: ({ snapshot }) => snapshot === undefined,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'snapshot-deleted',
      why: 'The snapshot is being deleted, and its content with it, unless that says Retain.',
      when: isDeleted,
      plan: ({ content, snapshot }) => {
        const isGoing = content && snapshot && isOf(content, snapshot) && content.spec.deletionPolicy === 'Delete';
        const going = isGoing ? ([{ step: 'deleteContent', content }] as const) : [];
        return { steps: [...(content ? going : [{ step: 'discard' } as const]), { step: 'release' }] };
      },
    },
    {
      name: 'snapshot-ready',
      why: 'The snapshot has its content.',
      when: ({ snapshot, content }) => snapshot?.status?.readyToUse === true && content !== undefined,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'snapshot-lost',
      why: 'The content of the snapshot is gone.',
      when: ({ snapshot }) => snapshot?.status?.readyToUse === true,
      plan: ({ snapshot }) => {
        const message = `content ${snapshot?.status?.boundVolumeSnapshotContentName} is gone: delete the snapshot`;
        return {
          steps: [{ step: 'writeError', message }],
          events: [{ type: 'Warning', reason: 'SnapshotContentMissing', message }],
        };
      },
    },
    {
      name: 'snapshot-class-by-default',
      why: 'The snapshot names no class and gets the default one.',
      when: ({ snapshot, snapshotClass }) =>
        !snapshot?.spec.volumeSnapshotClassName &&
        !snapshot?.spec.source.volumeSnapshotContentName &&
        snapshotClass !== undefined,
      plan: ({ snapshotClass }) => ({
        steps: [{ step: 'useClass', name: snapshotClass?.metadata.name ?? '' }],
      }),
    },
    {
      name: 'snapshot-made',
      why: 'The content is there and complete: the snapshot is ready.',
      when: ({ snapshot, content }) =>
        snapshot !== undefined &&
        content !== undefined &&
        isOf(content, snapshot) &&
        content.status?.readyToUse === true,
      plan: ({ content }) => ({
        steps: [{ step: 'protect' }, ...(content ? [{ step: 'writeReady', content } as const] : [])],
      }),
    },
    {
      name: 'snapshot-cannot-be-made',
      why: 'The snapshot cannot be made now; it is tried again.',
      when: (facts) => problemOf(facts) !== undefined,
      plan: (facts) => {
        const message = problemOf(facts) ?? '';
        const isNews = facts.snapshot?.status?.error?.message !== message;
        return {
          steps: isNews ? [{ step: 'writeError', message }] : [],
          events: isNews ? [{ type: 'Warning', reason: 'SnapshotCreationFailed', message }] : [],
          requeueAfterMs: lookMs,
        };
      },
    },
    {
      name: 'snapshot-of-content-awaited',
      why: 'The content that the snapshot names is not ready yet.',
      when: ({ snapshot }) => Boolean(snapshot?.spec.source.volumeSnapshotContentName),
      plan: () => ({ steps: [], requeueAfterMs: lookMs }),
    },
  ],
  {
    name: 'snapshot-wanted',
    why: 'The disk of the claim is copied.',
    plan: () => ({ steps: [{ step: 'protect' }, { step: 'take' }] }),
  },
);

/** Pure and total. */
export const snapshotRules = table.rules;
export const decideSnapshot = (facts: SnapshotFacts): StorageDecision<SnapshotStepArgs> => decideBy(table, facts);

type Context = StorageContext<SnapshotFacts>;
const type = resources.volumeSnapshots;
const contents = resources.volumeSnapshotContents;

function snapshotOf({ observation }: Context): VolumeSnapshot {
  if (observation.snapshot) return observation.snapshot;
  throw new Error('a step without a snapshot');
}

async function writeStatus(context: Context, status: object): Promise<Outcome> {
  const { metadata } = snapshotOf(context);
  const body = { metadata: { uid: metadata.uid }, status };
  return orChanged(
    await writeIfThere(context.deps.client.patch(type, metadata, body, 'merge', { subresource: 'status' })),
  );
}

const executors: Executors<SnapshotStepArgs, Context> = {
  protect: (_step, context) => addFinalizer(context.deps.client, type, snapshotOf(context), finalizers.snapshot),
  useClass: async ({ name }, context) => {
    const { metadata } = snapshotOf(context);
    const body = { metadata: { uid: metadata.uid }, spec: { volumeSnapshotClassName: name } };
    return orChanged(await writeIfThere(context.deps.client.patch(type, metadata, body, 'merge')));
  },
  take,
  writeReady: ({ content }, context) => ready(content, context),
  writeError: ({ message }, context) => {
    const error = { message, time: rfc3339(context.observation.now) };
    return writeStatus(context, { readyToUse: false, error });
  },
  deleteContent: async ({ content }, { deps }) => {
    await writeIfThere(deps.client.delete(contents, content.metadata, { uid: content.metadata.uid }));
    return done;
  },
  discard: async (_step, context) => {
    const { client, files } = context.deps;
    const { uid } = snapshotOf(context).metadata;
    const content = await getIfThere(client, contents, { name: contentNameOf(uid) }, { signal: context.signal });
    if (!content) await files.removeSnapshot(snapshotHandleOf(uid));
    return done;
  },
  release: (_step, context) => removeFinalizer(context.deps.client, type, snapshotOf(context), finalizers.snapshot),
};

/** The copy first: a content that exists has its data, whoever is killed in between. */
async function take(_step: object, context: Context): Promise<Outcome> {
  const { observation, deps, signal } = context;
  const { bound, snapshotClass, claim } = observation;
  if (!bound || 'problem' in bound) return changed;
  const { handle: volumeHandle } = bound;
  const snapshot = snapshotOf(context);
  const handle = snapshotHandleOf(snapshot.metadata.uid);
  const sourceVolumeMode = claim?.spec.volumeMode ?? 'Filesystem';
  try {
    const takenAt = deps.clock.now();
    if (sourceVolumeMode === 'Block') await deps.loops.flush(deps.files.image(volumeHandle));
    const restoreSize = await deps.files.snapshot(volumeHandle, handle, {
      signal,
      requireUnused: async () => claim && requireUnused(claim, copierOf(snapshot), deps, signal),
    });
    const { namespace, name, uid } = snapshot.metadata;
    const made: VolumeSnapshotContent = {
      apiVersion: `${contents.group}/${contents.version}`,
      kind: contents.kind,
      metadata: { name: contentNameOf(uid), finalizers: [finalizers.content] },
      spec: {
        driver,
        deletionPolicy: snapshotClass?.deletionPolicy ?? 'Delete',
        source: { volumeHandle },
        sourceVolumeMode,
        volumeSnapshotRef: {
          apiVersion: snapshot.apiVersion,
          kind: type.kind,
          namespace: namespace ?? '',
          name,
          uid: uid ?? '',
        },
        ...(snapshotClass && { volumeSnapshotClassName: snapshotClass.metadata.name }),
      },
    };
    await createContent(made, deps);
    const status = { snapshotHandle: handle, readyToUse: true, restoreSize, creationTime: takenAt.getTime() * 1e6 };
    const stored = await deps.client.patch<VolumeSnapshotContent>(contents, made.metadata, { status }, 'merge', {
      subresource: 'status',
    });
    return await ready(stored, context);
  } catch (error) {
    const message = errorMessage(error);
    await writeStatus(context, { readyToUse: false, error: { message, time: rfc3339(observation.now) } });
    const failure = { severity: 'retry', code: 'SNAPSHOT', message } as const;
    return { kind: 'failed', error: failure, events: [{ type: 'Warning', reason: 'SnapshotCreationFailed', message }] };
  }
}

async function createContent(content: KubeObject, { client }: StorageDeps): Promise<void> {
  try {
    await client.create(contents, content);
  } catch (error) {
    if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
  }
}

async function ready({ metadata, status }: VolumeSnapshotContent, context: Context): Promise<Outcome> {
  const { snapshot, users } = context.observation;
  const outcome = await writeStatus(context, {
    boundVolumeSnapshotContentName: metadata.name,
    readyToUse: true,
    restoreSize: binaryQuantity(status?.restoreSize ?? 0),
    creationTime: rfc3339(new Date((status?.creationTime ?? 0) / 1e6)),
    error: null,
  });
  if (outcome.kind !== 'done' || snapshot?.status?.readyToUse) return outcome;
  const held =
    users.length > 0 ? ` The disk was in use by pod ${users.join(', ')}: it is as after a power failure.` : '';
  const message = `Snapshot ${snapshot?.metadata.name} is ready to use.${held}`;
  return { kind: 'done', events: [{ type: 'Normal', reason: 'SnapshotReady', message }] };
}

export const snapshotKind: StorageKind<SnapshotFacts, SnapshotStepArgs> = {
  word: 'snapshot',
  observe: observeSnapshot,
  decide: decideSnapshot,
  executors,
  objectOf: ({ snapshot }) => snapshot,
  seenOf: (facts) => ({
    ready: String(facts.snapshot?.status?.readyToUse ?? false),
    claim: facts.claim?.metadata.name ?? '',
    problem: problemOf(facts) ?? '',
  }),
};
