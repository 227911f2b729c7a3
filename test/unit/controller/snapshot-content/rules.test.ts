import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  finalizers,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
  type VolumeSnapshot,
} from '../../../../src/api/index.ts';
import { decideContent, snapshotContentRules } from '../../../../src/controller/snapshot-content/decide.ts';
import { executors } from '../../../../src/controller/snapshot-content/execute.ts';
import {
  type ContentObservation,
  observeContent,
  type PresentContent,
} from '../../../../src/controller/snapshot-content/observe.ts';
import { contentStatusOf } from '../../../../src/controller/snapshot-content/status.ts';
import { freezeLimit, lostHolds, noGuest } from '../../../../src/controller/snapshot-source/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildVm, cacheOf } from '../builders.ts';

type Content = VirtualMachineSnapshotContent;

const now = new Date('2026-01-01T00:10:00Z');
const creationTime = '2026-01-01T00:00:30Z';

function contentOf(status: Content['status'] = {}, metadata: object = {}): Content {
  const own = { name: 'content', namespace: 'default', uid: 'uid-content', finalizers: [finalizers.vmSnapshotContent] };
  return {
    ...{ apiVersion: 'snapshot.kubevirt.io/v1beta1', kind: 'VirtualMachineSnapshotContent' },
    metadata: { ...own, ...metadata },
    spec: { virtualMachineSnapshotName: 'snap', source: {} },
    status,
  };
}

function snapshotOf(status: VirtualMachineSnapshot['status'] = {}): VirtualMachineSnapshot {
  return {
    ...{ apiVersion: 'snapshot.kubevirt.io/v1beta1', kind: 'VirtualMachineSnapshot' },
    metadata: { name: 'snap', namespace: 'default', uid: 'uid-snap' },
    spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' } },
    status,
  };
}

function backup(status?: VolumeSnapshot['status'], isMissing = false) {
  const taken: VolumeSnapshot = {
    ...{ apiVersion: 'snapshot.storage.k8s.io/v1', kind: 'VolumeSnapshot', metadata: { name: 'v' } },
    spec: { source: { persistentVolumeClaimName: 'root' } },
    ...(status && { status }),
  };
  const backupOf = { volumeName: 'root', persistentVolumeClaim: { spec: {} }, volumeSnapshotName: 'v' };
  return { backup: backupOf, taken: isMissing ? undefined : taken };
}

const missing = backup(undefined, true);
const open = backup({ readyToUse: false });
const cut = backup({ creationTime, readyToUse: false });
const ready = backup({ creationTime, readyToUse: true });
const broken = backup({ error: { message: 'in use by a pod' } });
const withAgent = { ...noGuest, isOnline: true, hasAgent: true };
const frozen = { ...withAgent, isFrozen: true };
const stopped = { vm: buildVm(), guest: noGuest };
const live = { vm: buildVm(), guest: withAgent };
const still = { vm: buildVm(), guest: frozen };
const marker = { error: { message: `VolumeSnapshot v error: x; ${freezeLimit}`, time: creationTime } };

function seen(facts: Partial<PresentContent> = {}): PresentContent {
  const base = {
    kind: 'present' as const,
    key: 'default/content',
    uid: 'uid-content',
    now,
    unread: undefined,
    lostHolds: [],
  };
  return {
    ...base,
    content: contentOf(),
    snapshot: snapshotOf(),
    isEnding: false,
    source: stopped,
    backups: [missing],
    ...facts,
  };
}

const ended = { isEnding: true, snapshot: undefined };
const free = contentOf({}, { finalizers: [] });
const hold = 'snapshot.kubevirt.io/restore-gone';
const going = contentOf({}, { deletionTimestamp: creationTime, finalizers: [hold, 'example.com/other'] });
const taken = contentOf({ creationTime, readyToUse: true });
const said = snapshotOf({ indications: ['QuiesceTimeout'] });

const rows: readonly (readonly [rule: string, seen: ContentObservation, steps: string])[] = [
  ['snapshot-over', seen(ended), 'release'],
  ['snapshot-over', seen({ isEnding: true, source: still }), 'thawGuest release'],
  ['snapshot-over', seen({ isEnding: true, source: still, content: taken }), 'release'],
  ['restore-gone', seen({ content: going, lostHolds: [hold] }), 'dropHolds'],
  ['deleted', seen({ content: contentOf({}, { deletionTimestamp: creationTime }) }), ''],
  ['volume-snapshots-unread', seen({ unread: 'no answer yet' }), ''],
  ['volume-snapshots-gone', seen({ content: taken }), ''],
  ['snapshot-gone-before', seen({ ...ended, content: free }), ''],
  ['source-unlocked', seen({ source: undefined }), ''],
  ['volume-snapshots-missing', seen(), 'createVolumeSnapshots'],
  ['volume-snapshots-missing', seen({ source: live }), 'freezeGuest createVolumeSnapshots'],
  ['volume-snapshots-missing', seen({ source: still }), 'createVolumeSnapshots'],
  [
    'volume-snapshots-missing',
    seen({ source: { ...live, guest: { ...withAgent, isPaused: true } } }),
    'createVolumeSnapshots',
  ],
  ['volume-snapshots-missing', seen({ source: live, content: contentOf(marker) }), 'createVolumeSnapshots'],
  ['freeze-cut-short', seen({ source: still, backups: [broken] }), 'thawGuest'],
  ['being-taken', seen({ source: still, backups: [open] }), ''],
  ['being-taken', seen({ source: live, backups: [broken] }), ''],
  ['being-taken', seen({ source: still, backups: [broken], content: contentOf(marker) }), ''],
  ['cut-short-unsaid', seen({ backups: [ready], content: contentOf(marker) }), ''],
  ['all-taken', seen({ backups: [ready], content: contentOf(marker), snapshot: said }), ''],
  ['all-taken', seen({ source: still, backups: [cut] }), 'thawGuest'],
  ['all-taken', seen({ backups: [] }), ''],
  ['taken', seen({ backups: [ready], content: taken }), ''],
  ['taken', seen({ ...ended, backups: [ready], content: { ...taken, metadata: free.metadata } }), ''],
  ['gone', { kind: 'absent', key: 'default/content', uid: '', now }, ''],
];

describe('a content that was kept for a restore that is no more', () => {
  const restore = (uid: string) => ({
    ...{ apiVersion: 'snapshot.kubevirt.io/v1beta1', kind: 'VirtualMachineRestore' },
    metadata: { name: uid, namespace: 'default', uid },
  });

  test('may go; one of a restore that is there, and one that nobody deletes, stay', () => {
    assert.deepEqual(lostHolds(going, [restore('other')]), [hold]);
    assert.deepEqual(lostHolds(going, [restore('gone')]), []);
    const lostIn = (content: Content) => {
      const caches = { contents: cacheOf([content]), snapshots: cacheOf([]), volumeSnapshots: cacheOf([]) };
      const more = { restores: cacheOf([]), vms: cacheOf([]), vmis: cacheOf([]), clock: new FakeClock() };
      const deps = { ...caches, ...more, volumeSnapshotsError: () => undefined };
      const observed = observeContent('default/content', deps as never);
      return observed.kind === 'present' && observed.lostHolds;
    };
    assert.deepEqual([lostIn(going), lostIn(contentOf({}, { finalizers: [hold] }))], [[hold], []]);
  });

  test('the API server is asked whether the restore is no more', async () => {
    const dropped = async (...restores: object[]) => {
      const written: unknown[] = [];
      const client = {
        list: async () => ({ items: restores }),
        patch: async (...[, , body]: unknown[]) => {
          written.push(body);
          return { ...going, metadata: { ...going.metadata, finalizers: ['example.com/other'] } };
        },
      };
      const observation = seen({ content: going, lostHolds: [hold] });
      const context = { client, contents: cacheOf([going]), observation, signal: new AbortController().signal };
      const { kind } = await executors.dropHolds({ step: 'dropHolds', holds: [hold] }, context as never);
      return [kind, ...written];
    };
    const body = { metadata: { uid: 'uid-content', resourceVersion: undefined, finalizers: ['example.com/other'] } };
    assert.deepEqual(await dropped(restore('other')), ['done', body]);
    assert.deepEqual(await dropped(restore('gone')), ['wait']);
  });
});

describe('rules of contents of snapshots', () => {
  for (const [rule, observation, steps] of rows) {
    test(`${rule}: ${steps || 'nothing'}`, () => {
      const decision = decideContent(observation);
      assert.equal(decision.rule, rule);
      assert.equal(decision.steps.map(({ step }) => step).join(' '), steps);
    });
  }

  test('every rule has a row', () => {
    const known = new Set(rows.map(([rule]) => rule));
    assert.deepEqual(
      snapshotContentRules.map(({ name }) => name).filter((name) => !known.has(name)),
      [],
    );
  });
});

describe('what a content says', () => {
  const statusOf = (facts: Partial<PresentContent>, failure?: string) => {
    const observation = seen(facts);
    return contentStatusOf(observation, decideContent(observation), failure);
  };

  test('it was taken only when the guest goes on', () => {
    const at = '2026-01-01T00:10:00Z';
    assert.equal(statusOf({ source: still, backups: [cut] }).creationTime, at);
    const failed = statusOf({ source: still, backups: [cut] }, 'thawGuest: no answer');
    assert.deepEqual([failed.creationTime, failed.readyToUse], [undefined, false]);
    assert.equal(failed.error?.message, 'thawGuest: no answer');
  });

  test('it is ready when all its VolumeSnapshots are', () => {
    assert.equal(statusOf({ content: taken, backups: [ready, cut] }).readyToUse, false);
    const status = statusOf({ content: taken, backups: [ready, ready] });
    assert.deepEqual([status.readyToUse, status.creationTime, status.error], [true, creationTime, undefined]);
  });

  test('an error of storage is repeated with its first time; that a guest went on meanwhile stays said', () => {
    const first = statusOf({ source: still, backups: [broken] });
    assert.match(first.error?.message ?? '', /VolumeSnapshot v error: in use by a pod; .*fsfreeze is limited/);
    assert.deepEqual(statusOf({ backups: [ready], content: contentOf(first) }).error, first.error);
    const lost = statusOf({ content: taken });
    assert.deepEqual([lost.readyToUse, lost.error?.message], [false, 'VolumeSnapshots (v) missing']);
  });
});
