import { resources, type VolumeSnapshot, type VolumeSnapshotContent } from '../../api/index.ts';
import { getIfThere, writeIfThere } from '../../kube/index.ts';
import { decideBy, type Executors, type Observed, ruleTable, type Step } from '../../reconcile/index.ts';
import { driver, finalizers, isHandle } from './driver.ts';
import {
  changed,
  deleteWhole,
  done,
  type StorageContext,
  type StorageDecision,
  type StorageDeps,
  type StorageKind,
  type StoragePlan,
} from './loop.ts';

const contents = resources.volumeSnapshotContents;

/** All that a decision about one content rests on; plain data. */
export interface ContentFacts extends Observed {
  readonly content: VolumeSnapshotContent | undefined;
  readonly isSnapshotThere: boolean;
  /** Bytes of what a user's content names; undefined: nothing is there. */
  readonly foundBytes: number | undefined;
}

export interface ContentStepArgs {
  /** After the API server has confirmed that the snapshot is gone. */
  remove: object;
  /** Of one that a user made for data that was kept. */
  adopt: { readonly handle: string; readonly bytes: number };
}

const table = ruleTable<ContentFacts, StoragePlan<ContentStepArgs>>(
  [
    {
      name: 'content-gone',
      why: 'There is no such content, or it is of another driver.',
      when: ({ content }) => content?.spec.driver !== driver,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'content-let-go',
      why: 'The content is being deleted, or has lost its snapshot and says Delete.',
      when: ({ content, isSnapshotThere }) =>
        content !== undefined &&
        !isSnapshotThere &&
        (content.metadata.deletionTimestamp !== undefined ||
          (content.spec.deletionPolicy === 'Delete' && Boolean(content.spec.volumeSnapshotRef.uid))),
      plan: () => ({ steps: [{ step: 'remove' }] }),
    },
    {
      name: 'content-to-adopt',
      why: 'A user names data that was kept: the content is ready.',
      when: ({ content, foundBytes }) => !content?.status?.readyToUse && foundBytes !== undefined,
      plan: ({ content, foundBytes = 0 }) => ({
        steps: [{ step: 'adopt', handle: content?.spec.source.snapshotHandle ?? '', bytes: foundBytes }],
      }),
    },
  ],
  { name: 'content-there', why: 'The content is its snapshot’s.', plan: () => ({ steps: [] }) },
);

export const contentRules = table.rules;
export const decideContent = (facts: ContentFacts): StorageDecision<ContentStepArgs> => decideBy(table, facts);

async function observeContent(key: string, { caches, files, clock }: StorageDeps): Promise<ContentFacts> {
  const content = caches.contents.get(key);
  const { namespace, name, uid } = content?.spec.volumeSnapshotRef ?? {};
  const snapshot = caches.snapshots.get(`${namespace}/${name}`);
  const handle = content?.spec.source.snapshotHandle ?? '';
  const foundBytes = isHandle(handle) ? await files.sizeOf({ snapshot: handle }).catch(() => undefined) : undefined;
  const isSnapshotThere =
    snapshot !== undefined &&
    !snapshot.metadata.deletionTimestamp &&
    (uid === undefined || snapshot.metadata.uid === uid);
  return { key, uid: content?.metadata.uid ?? '', now: clock.now(), content, isSnapshotThere, foundBytes };
}

const contentExecutors: Executors<ContentStepArgs, StorageContext<ContentFacts>> = {
  remove: async (_step, { observation: { content }, deps, signal }) => {
    const { client, files } = deps;
    if (!content) return done;
    const { namespace, name, uid } = content.spec.volumeSnapshotRef;
    const ref = { name, ...(namespace !== undefined && { namespace }) };
    const snapshot = await getIfThere<VolumeSnapshot>(client, resources.volumeSnapshots, ref, { signal });
    const isStill = snapshot !== undefined && snapshot.metadata.uid === uid && !snapshot.metadata.deletionTimestamp;
    if (isStill) return changed;
    const handle = content.status?.snapshotHandle;
    if (handle && content.spec.deletionPolicy === 'Delete') await files.removeSnapshot(handle);
    return deleteWhole(client, contents, content, finalizers.content, signal);
  },
  adopt: async ({ handle, bytes }: Step<ContentStepArgs, 'adopt'>, { observation: { content, now }, deps }) => {
    if (!content) return done;
    const status = { snapshotHandle: handle, readyToUse: true, restoreSize: bytes, creationTime: now.getTime() * 1e6 };
    const body = { metadata: { uid: content.metadata.uid }, status };
    await writeIfThere(deps.client.patch(contents, content.metadata, body, 'merge', { subresource: 'status' }));
    return done;
  },
};

export const contentKind: StorageKind<ContentFacts, ContentStepArgs> = {
  word: 'content',
  observe: observeContent,
  decide: decideContent,
  executors: contentExecutors,
  objectOf: ({ content }) => content,
  seenOf: ({ content, isSnapshotThere }) => ({
    ready: String(content?.status?.readyToUse ?? false),
    snapshot: isSnapshotThere ? 'there' : 'gone',
  }),
};
