import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  finalizers,
  findCondition,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
} from '../../../../src/api/index.ts';
import { decideSnapshot, snapshotRules } from '../../../../src/controller/snapshot/decide.ts';
import type {
  PresentSnapshot,
  SnapshotObservation,
  SourceFacts,
} from '../../../../src/controller/snapshot/observation.ts';
import { eventsOf, statusOf } from '../../../../src/controller/snapshot/status.ts';
import { noGuest } from '../../../../src/controller/snapshot-source/index.ts';
import { buildVm } from '../builders.ts';

type Status = VirtualMachineSnapshot['status'];

const now = new Date('2026-01-01T00:10:00Z');
const deletionTimestamp = '2026-01-01T00:09:00Z';

function snapshotOf(
  status: Status | null = { phase: 'InProgress' },
  metadata: object = {},
  spec: object = {},
): VirtualMachineSnapshot {
  return {
    apiVersion: 'snapshot.kubevirt.io/v1beta1',
    kind: 'VirtualMachineSnapshot',
    metadata: { name: 'snap', namespace: 'default', uid: 'uid-snap', finalizers: [finalizers.vmSnapshot], ...metadata },
    spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' }, ...spec },
    ...(status && { status }),
  };
}

function contentOf(
  status: VirtualMachineSnapshotContent['status'] = {},
  metadata: object = {},
): VirtualMachineSnapshotContent {
  return {
    apiVersion: 'snapshot.kubevirt.io/v1beta1',
    kind: 'VirtualMachineSnapshotContent',
    metadata: { name: 'vmsnapshot-content-uid-snap', namespace: 'default', uid: 'uid-content', ...metadata },
    spec: {
      virtualMachineSnapshotName: 'snap',
      source: { virtualMachine: buildVm({ template: { spec: { domain: {}, volumes: [onClaim, onImage, left] } } }) },
      volumeBackups: [{ volumeName: 'root', persistentVolumeClaim: { spec: {} }, volumeSnapshotName: 'v' }],
    },
    status,
  };
}

const onClaim = { name: 'root', persistentVolumeClaim: { claimName: 'root' } };
const onImage = { name: 'image', containerDisk: { image: 'i' } };
const left = { name: 'data', dataVolume: { name: 'data' } };
const taken = { creationTime: '2026-01-01T00:00:30Z', readyToUse: true };
const source: SourceFacts = {
  vm: buildVm(),
  guest: noGuest,
  isLocked: true,
  isMarked: true,
  volumes: [],
  problem: undefined,
};
const free = { ...source, isLocked: false, isMarked: false };

function seen(facts: Partial<PresentSnapshot> = {}): PresentSnapshot {
  const base = { key: 'default/snap', uid: 'uid-snap', now, kind: 'present' as const, content: undefined };
  return { ...base, snapshot: snapshotOf(), source, problem: undefined, leftMs: 60_000, ...facts };
}

const deleted = { deletionTimestamp };
const unclear: SnapshotObservation = {
  ...{ kind: 'unclear', key: 'default/snap', uid: 'uid-snap', now, snapshot: snapshotOf(), reason: 'no answer' },
};
const absent: SnapshotObservation = { kind: 'absent', key: 'default/snap', uid: '', now, marked: [] };

const rows: readonly (readonly [rule: string, seen: SnapshotObservation, steps: string])[] = [
  [
    'deleted-with-content',
    seen({ snapshot: snapshotOf({ phase: 'Succeeded' }, deleted), content: contentOf(taken) }),
    'deleteContent',
  ],
  [
    'deleted-with-content',
    seen({ snapshot: snapshotOf({}, deleted, { deletionPolicy: 'Retain' }), content: contentOf() }),
    'deleteContent',
  ],
  ['deleted-content-awaited', seen({ snapshot: snapshotOf({}, deleted), content: contentOf({}, deleted) }), ''],
  ['deleted-source-locked', seen({ snapshot: snapshotOf({}, deleted) }), 'unlockSource'],
  [
    'deleted-source-locked',
    seen({ snapshot: snapshotOf({}, deleted, { deletionPolicy: 'Retain' }), content: contentOf(taken) }),
    'unlockSource',
  ],
  ['deleted', seen({ snapshot: snapshotOf({}, deleted), source: free }), 'release'],
  ['deleted', seen({ snapshot: snapshotOf({}, deleted), source: undefined }), 'release'],
  ['failed-with-content', seen({ snapshot: snapshotOf({ phase: 'Failed' }), content: contentOf() }), 'deleteContent'],
  ['failed-content-awaited', seen({ snapshot: snapshotOf({ phase: 'Failed' }), content: contentOf({}, deleted) }), ''],
  ['over-source-locked', seen({ snapshot: snapshotOf({ phase: 'Failed' }) }), 'unlockSource'],
  [
    'over-source-locked',
    seen({ snapshot: snapshotOf({ phase: 'Succeeded' }), content: contentOf(taken) }),
    'unlockSource',
  ],
  ['failed', seen({ snapshot: snapshotOf({ phase: 'Failed' }), source: free }), ''],
  ['succeeded', seen({ snapshot: snapshotOf({ phase: 'Succeeded' }), content: contentOf(taken), source: free }), ''],
  ['taken', seen({ content: contentOf(taken), leftMs: -1 }), ''],
  ['source-refused', seen({ problem: 'no VM', source: undefined }), ''],
  ['deadline-passed', seen({ leftMs: -1, content: contentOf() }), ''],
  ['unprotected', seen({ snapshot: snapshotOf(null, { finalizers: [] }), source: free }), 'protect'],
  ['unprotected', seen({ snapshot: snapshotOf(null), source: free }), ''],
  ['source-missing', seen({ source: undefined }), ''],
  ['source-not-lockable', seen({ source: { ...free, problem: 'volume not bound: root' } }), ''],
  ['source-unlocked', seen({ source: free }), 'lockSource'],
  ['source-unlocked', seen({ source: { ...free, isMarked: true } }), 'lockSource'],
  ['content-missing', seen(), 'createContent'],
  ['being-taken', seen({ content: contentOf() }), ''],
  ['gone-source-locked', { ...absent, marked: [buildVm()] } as SnapshotObservation, 'unlockVms'],
  ['gone', absent, ''],
  ['api-without-answer', unclear, ''],
];

describe('rules of snapshots', () => {
  for (const [rule, observation, steps] of rows) {
    test(`${rule}: ${steps || 'nothing'}`, () => {
      const decision = decideSnapshot(observation);
      assert.equal(decision.rule, rule);
      assert.equal(decision.steps.map(({ step }) => step).join(' '), steps);
    });
  }

  test('every rule has a row', () => {
    const known = new Set(rows.map(([rule]) => rule));
    assert.deepEqual(
      snapshotRules.map(({ name }) => name).filter((name) => !known.has(name)),
      [],
    );
  });

  test('a deadline is looked at when it has come, and what nobody tells of sooner', () => {
    const left = (leftMs: number | undefined, one: SourceFacts | undefined) =>
      decideSnapshot(seen({ leftMs, source: one })).requeueAfterMs;
    assert.deepEqual([left(60_000, undefined), left(undefined, undefined)], [60_001, undefined]);
    const waits = { ...free, problem: 'p' };
    assert.deepEqual([left(60_000, waits), left(1_000, waits)], [5_000, 1_001]);
  });
});

describe('what a snapshot says', () => {
  const conditionsOf = (status: Status) =>
    ['Progressing', 'Ready', 'Failure'].map((type) => {
      const found = findCondition(status?.conditions, type);
      return found && `${found.status} ${found.reason}`;
    });

  test('of a VM that is locked, and of one that cannot be', () => {
    const locked = statusOf(seen(), undefined);
    assert.deepEqual([locked.phase, locked.sourceUID, locked.readyToUse], ['InProgress', 'uid-vm', false]);
    assert.deepEqual(conditionsOf(locked), [
      'True Source locked and operation in progress',
      'False Not ready',
      undefined,
    ]);
    const waits = statusOf(seen({ source: { ...free, problem: 'snapshot "a" in progress' } }), undefined);
    assert.equal(conditionsOf(waits)[0], 'False Source not locked snapshot "a" in progress');
    assert.equal(conditionsOf(statusOf(seen({ source: undefined }), undefined))[0], 'False Source does not exist');
  });

  test('volumes that are in it and those that are not; one on a claim that is not makes it partial', () => {
    const status = statusOf(seen({ content: contentOf(taken) }), undefined);
    assert.deepEqual(status.snapshotVolumes, { includedVolumes: ['root'], excludedVolumes: ['image', 'data'] });
    assert.deepEqual(status.indications, ['PartialSnapshot']);
    assert.deepEqual([status.phase, status.readyToUse, status.creationTime], ['Succeeded', true, taken.creationTime]);
    assert.deepEqual(conditionsOf(status), ['False Operation complete', 'True Ready', undefined]);
  });

  test('how the guest was: once said, it stays said', () => {
    const online = { ...source, guest: { ...noGuest, isOnline: true, hasAgent: true } };
    const first = statusOf(seen({ source: online }), undefined);
    assert.deepEqual(first.indications, ['GuestAgent', 'Online']);
    assert.equal(first.sourceIndications?.length, 2);
    const stopped = statusOf(seen({ snapshot: snapshotOf(first) }), undefined);
    assert.deepEqual(stopped.indications, ['GuestAgent', 'Online']);
    const paused = { ...source, guest: { ...online.guest, isPaused: true } };
    assert.deepEqual(statusOf(seen({ source: paused }), undefined).indications, ['Online', 'Paused']);
    const cut = contentOf({ error: { message: 'VolumeSnapshot v error: busy; fsfreeze is limited' } });
    assert.deepEqual(statusOf(seen({ source: online, content: cut }), undefined).indications, [
      ...['GuestAgent', 'Online', 'QuiesceTimeout'],
    ]);
    const none = { ...source, guest: { ...noGuest, isOnline: true } };
    assert.deepEqual(statusOf(seen({ source: none }), undefined).indications, ['NoGuestAgent', 'Online']);
  });

  test('a deadline that has passed, and what it had waited for; told once', () => {
    const content = contentOf({ error: { message: 'VolumeSnapshot v error: busy', time: '2026-01-01T00:01:00Z' } });
    const failed = statusOf(seen({ leftMs: -1, content }), undefined);
    assert.deepEqual([failed.phase, failed.readyToUse], ['Failed', false]);
    assert.deepEqual(conditionsOf(failed), [
      'False Operation failed',
      'False Not ready',
      'True snapshot deadline exceeded',
    ]);
    const [event] = eventsOf(snapshotOf(), failed);
    assert.match(event?.message ?? '', /snapshot deadline exceeded: VolumeSnapshot v error: busy/);
    assert.deepEqual(eventsOf(snapshotOf(failed), failed), []);
    const later = statusOf(seen({ snapshot: snapshotOf(failed), leftMs: -99_000 }), undefined);
    assert.equal(conditionsOf(later)[2], 'True snapshot deadline exceeded');
  });

  test('a step that failed, with the time of its first failure; and a content that is gone', () => {
    const first = statusOf(seen(), 'createContent: no');
    assert.deepEqual(first.error, { message: 'createContent: no', time: '2026-01-01T00:10:00Z' });
    const later = { ...seen({ snapshot: snapshotOf(first) }), now: new Date('2026-01-01T01:00:00Z') };
    assert.deepEqual(statusOf(later, 'createContent: no').error, first.error);
    const lost = statusOf(seen({ snapshot: snapshotOf({ phase: 'Succeeded', readyToUse: true }) }), undefined);
    assert.equal(lost.readyToUse, false);
    assert.match(lost.error?.message ?? '', /vmsnapshot-content-uid-snap no longer exists/);
  });
});
