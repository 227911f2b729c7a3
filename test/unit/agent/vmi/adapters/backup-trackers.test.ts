import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kubeBackupTrackers } from '../../../../../src/agent/vmi/adapters/backup-trackers.ts';
import { KubeError } from '../../../../../src/kube/index.ts';

const vm = { namespace: 'default', name: 'box' };
const { signal } = new AbortController();

function tracker(name: string, source: string, status?: object): object {
  return {
    metadata: { name, namespace: 'default', uid: `uid-of-${name}` },
    spec: { source: { name: source } },
    status,
  };
}

/** The API server with these trackers; an error is its answer. */
function trackersOf(items: readonly unknown[] | Error, patchError?: Error) {
  const patches: unknown[] = [];
  const client = {
    list: async (_type: unknown, { namespace }: { namespace: string }) => {
      assert.equal(namespace, 'default');
      if (items instanceof Error) throw items;
      return { items };
    },
    patch: async (_type: unknown, { name }: { name: string }, body: unknown, kind: string, options: object) => {
      patches.push([name, body, kind, (options as { subresource?: string }).subresource]);
      if (patchError) throw patchError;
    },
  };
  return { patches, guestStarted: () => kubeBackupTrackers(client as never).guestStarted(vm, signal) };
}

const latestCheckpoint = { name: 'c' };

test('trackers of that VM which have a checkpoint are marked, those that are marked are not written again', async () => {
  const { patches, guestStarted } = trackersOf([
    tracker('daily', 'box', { latestCheckpoint }),
    tracker('new', 'box'),
    tracker('marked', 'box', { latestCheckpoint, checkpointRedefinitionRequired: true }),
    tracker('other', 'another', { latestCheckpoint }),
    tracker('odd', 'box', { latestCheckpoint, checkpointRedefinitionRequired: false }),
    { metadata: { name: 'broken' } },
  ]);
  assert.equal(await guestStarted(), undefined);
  const status = { checkpointRedefinitionRequired: true };
  assert.deepEqual(patches, [
    ['daily', { metadata: { uid: 'uid-of-daily' }, status }, 'merge', 'status'],
    ['odd', { metadata: { uid: 'uid-of-odd' }, status }, 'merge', 'status'],
  ]);
});

test('a cluster without trackers, and one that goes meanwhile, are no failures', async () => {
  assert.equal(await trackersOf(new KubeError('NOT_FOUND', 'no such kind')).guestStarted(), undefined);
  const gone = trackersOf([tracker('daily', 'box', { latestCheckpoint })], new KubeError('NOT_FOUND', 'gone'));
  assert.equal(await gone.guestStarted(), undefined);
});

test('what is forbidden is told in words; what may pass is an error, and tried again', async () => {
  const broken = await trackersOf(new KubeError('SERVER_ERROR', 'conversion webhook failed')).guestStarted();
  assert.match(broken ?? '', /conversion webhook failed/);
  const forbidden = await trackersOf(new KubeError('FORBIDDEN', 'no list for you')).guestStarted();
  assert.match(forbidden ?? '', /^backup trackers of VM default\/box cannot be told .*: no list for you$/);
  const away = trackersOf(new KubeError('UNREACHABLE', 'away'));
  await assert.rejects(away.guestStarted(), /away/);
});
