import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  PersistentVolumeClaim,
  VolumeSnapshot,
  VolumeSnapshotClass,
  VolumeSnapshotContent,
} from '../../../../src/api/index.ts';
import { driver } from '../../../../src/standalone/index.ts';
import { type ContentFacts, contentRules, decideContent } from '../../../../src/standalone/storage/contents.ts';
import { decideSnapshot, type SnapshotFacts, snapshotRules } from '../../../../src/standalone/storage/snapshots.ts';

const apiVersion = 'snapshot.storage.k8s.io/v1';
const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };

function snapshotWith(change: Partial<VolumeSnapshot> = {}, metadata: object = {}): VolumeSnapshot {
  return {
    apiVersion,
    kind: 'VolumeSnapshot',
    metadata: { name: 's', namespace: 'default', uid: 's1', ...metadata },
    spec: { source: { persistentVolumeClaimName: 'data' }, volumeSnapshotClassName: 'local' },
    ...change,
  };
}

function contentWith(spec: Partial<VolumeSnapshotContent['spec']> = {}, metadata: object = {}): VolumeSnapshotContent {
  return {
    apiVersion,
    kind: 'VolumeSnapshotContent',
    metadata: { name: 'c', uid: 'c1', ...metadata },
    spec: {
      ...{ driver, deletionPolicy: 'Delete', source: { volumeHandle: 'h' } },
      volumeSnapshotRef: { namespace: 'default', name: 's', uid: 's1' },
      ...spec,
    },
    status: { readyToUse: true, snapshotHandle: 'snapshot-s1' },
  };
}

const claim: PersistentVolumeClaim = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'data', namespace: 'default' },
  spec: { volumeName: 'v' },
  status: { phase: 'Bound' },
};
const snapshotClass: VolumeSnapshotClass = {
  apiVersion,
  kind: 'VolumeSnapshotClass',
  metadata: { name: 'local' },
  driver,
  deletionPolicy: 'Delete',
};
const base: SnapshotFacts = {
  key: 'default/s',
  uid: 's1',
  now: new Date(0),
  snapshot: snapshotWith(),
  claim,
  bound: { handle: 'h' },
  snapshotClass,
  content: undefined,
  users: [],
  heldProblem: undefined,
};

const ready = { status: { readyToUse: true, boundVolumeSnapshotContentName: 'c' } };
const noClass = { spec: { source: { persistentVolumeClaimName: 'data' } } };
const ofContent = { spec: { source: { volumeSnapshotContentName: 'c' } } };
const { status: _status, ...unready } = contentWith();

/** Facts, the rule that decides, its steps, and what is written as its error. */
const rows: readonly [Partial<SnapshotFacts>, string, string, RegExp?][] = [
  [{ snapshot: undefined }, 'snapshot-gone', ''],
  [{ snapshot: snapshotWith({}, deleted) }, 'snapshot-deleted', 'discard release'],
  [{ snapshot: snapshotWith(ready, deleted), content: contentWith() }, 'snapshot-deleted', 'deleteContent release'],
  [
    { snapshot: snapshotWith(ready, deleted), content: contentWith({ deletionPolicy: 'Retain' }) },
    'snapshot-deleted',
    'release',
  ],
  [{ snapshot: snapshotWith(ready), content: contentWith() }, 'snapshot-ready', ''],
  [{ snapshot: snapshotWith(ready) }, 'snapshot-lost', 'writeError', /content c is gone/],
  [{ snapshot: snapshotWith(noClass) }, 'snapshot-class-by-default', 'useClass'],
  [{ content: contentWith() }, 'snapshot-made', 'protect writeReady'],
  [{ snapshot: snapshotWith(ofContent), content: contentWith() }, 'snapshot-made', 'protect writeReady'],
  [
    { snapshot: snapshotWith(noClass), snapshotClass: undefined },
    'snapshot-cannot-be-made',
    'writeError',
    /no snapshot class is given/,
  ],
  [
    { snapshotClass: { ...snapshotClass, driver: 'x' } },
    'snapshot-cannot-be-made',
    'writeError',
    /class local is of the driver x/,
  ],
  [
    { snapshotClass: { ...snapshotClass, parameters: { a: 'b' } } },
    'snapshot-cannot-be-made',
    'writeError',
    /no parameter a/,
  ],
  [{ claim: undefined }, 'snapshot-cannot-be-made', 'writeError', /claim data does not exist/],
  [{ claim: { ...claim, status: { phase: 'Lost' } } }, 'snapshot-cannot-be-made', 'writeError', /claim data is Lost/],
  [{ bound: { problem: 'has no volume' } }, 'snapshot-cannot-be-made', 'writeError', /claim data has no volume/],
  [{ heldProblem: 'in use' }, 'snapshot-cannot-be-made', 'writeError', /in use/],
  [
    { heldProblem: 'in use', snapshot: snapshotWith({ status: { error: { message: 'in use' } } }) },
    'snapshot-cannot-be-made',
    '',
  ],
  [{ snapshot: snapshotWith(ofContent) }, 'snapshot-cannot-be-made', 'writeError', /content c does not exist/],
  [
    {
      snapshot: snapshotWith(ofContent),
      content: contentWith({ volumeSnapshotRef: { namespace: 'default', name: 'other' } }),
    },
    'snapshot-cannot-be-made',
    'writeError',
    /another snapshot's/,
  ],
  [{ snapshot: snapshotWith(ofContent), content: unready }, 'snapshot-of-content-awaited', ''],
  [{}, 'snapshot-wanted', 'protect take'],
];

for (const [index, [facts, rule, steps, words]] of rows.entries()) {
  test(`${rule}, ${index}: ${steps || 'nothing is done'}`, () => {
    const decision = decideSnapshot({ ...base, ...facts });
    assert.deepEqual([decision.rule, decision.steps.map(({ step }) => step).join(' ')], [rule, steps]);
    const written = decision.steps.find((step) => step.step === 'writeError');
    assert.match(written?.message ?? '', words ?? /^$/);
  });
}

const contents: readonly [Partial<ContentFacts>, string, string][] = [
  [{ content: undefined }, 'content-gone', ''],
  [{ content: contentWith({ driver: 'x' }) }, 'content-gone', ''],
  [{ isSnapshotThere: false }, 'content-let-go', 'remove'],
  [{ isSnapshotThere: false, content: contentWith({ deletionPolicy: 'Retain' }) }, 'content-there', ''],
  [{ isSnapshotThere: false, content: contentWith({ deletionPolicy: 'Retain' }, deleted) }, 'content-let-go', 'remove'],
  [
    { isSnapshotThere: false, content: contentWith({ volumeSnapshotRef: { namespace: 'default', name: 's' } }) },
    'content-there',
    '',
  ],
  [{ content: contentWith({}, deleted) }, 'content-there', ''],
  [{ content: unready, foundBytes: 7 }, 'content-to-adopt', 'adopt'],
  [{}, 'content-there', ''],
];
for (const [index, [facts, rule, steps]] of contents.entries()) {
  test(`${rule}, ${index}: ${steps || 'nothing is done'}`, () => {
    const there = { isSnapshotThere: true, foundBytes: undefined, content: contentWith() };
    const decision = decideContent({ key: 'c', uid: 'c1', now: new Date(0), ...there, ...facts });
    assert.deepEqual([decision.rule, decision.steps.map(({ step }) => step).join(' ')], [rule, steps]);
  });
}

test('every rule has a row', () => {
  const named = [...rows.map(([, rule]) => rule), ...contents.map(([, rule]) => rule)];
  assert.deepEqual(
    [...snapshotRules, ...contentRules].map(({ name }) => name).filter((name) => !named.includes(name)),
    [],
  );
});
