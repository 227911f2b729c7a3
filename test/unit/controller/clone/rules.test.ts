import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type {
  VirtualMachineClone,
  VirtualMachineRestore,
  VirtualMachineSnapshot,
  VirtualMachineSnapshotContent,
} from '../../../../src/api/index.ts';
import { cloneStatusOf } from '../../../../src/controller/clone/controller.ts';
import { cloneRules, decideClone } from '../../../../src/controller/clone/decide.ts';
import type { CloneObservation, PresentClone } from '../../../../src/controller/clone/observe.ts';
import { clonePatches, isKept } from '../../../../src/controller/clone/patches.ts';
import { buildVm } from '../builders.ts';

const now = new Date('2026-01-01T00:10:00Z');
const group = { apiVersion: 'snapshot.kubevirt.io/v1beta1' };

function cloneOf(
  status: VirtualMachineClone['status'] = {},
  spec: object = {},
  metadata: object = {},
): VirtualMachineClone {
  return {
    ...{ apiVersion: 'clone.kubevirt.io/v1beta1', kind: 'VirtualMachineClone', status },
    metadata: { name: 'c', namespace: 'default', uid: 'u', ...metadata },
    spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' }, ...spec },
  };
}

const snapshotOf = (status: NonNullable<VirtualMachineSnapshot['status']>): VirtualMachineSnapshot => ({
  ...{ ...group, kind: 'VirtualMachineSnapshot', metadata: { name: 'tmp-snapshot-u' }, status },
  spec: { source: { kind: 'VirtualMachine', name: 'vm1' } },
});
const restoreOf = (status: NonNullable<VirtualMachineRestore['status']>): VirtualMachineRestore => ({
  ...{ ...group, kind: 'VirtualMachineRestore', metadata: { name: 'tmp-restore-u' }, status },
  spec: { target: { kind: 'VirtualMachine', name: 'new' }, virtualMachineSnapshotName: 'tmp-snapshot-u' },
});
const content: VirtualMachineSnapshotContent = {
  ...{ ...group, kind: 'VirtualMachineSnapshotContent', metadata: { name: 'content' } },
  spec: { source: { virtualMachine: buildVm() } },
};

const vm = buildVm();
const open = snapshotOf({ phase: 'InProgress' });
const ready = snapshotOf({ phase: 'Succeeded', readyToUse: true });
const complete = restoreOf({ complete: true });
const names = { snapshot: 'tmp-snapshot-u', restore: 'tmp-restore-u', target: 'new' };
const unsupported = {
  ...{ name: 'root', claimName: 'root', isMemoryDump: false, claim: undefined },
  support: { kind: 'none', why: 'no class' } as const,
};

function seen(facts: Partial<PresentClone> = {}): PresentClone {
  const none = { problem: undefined, snapshot: undefined, content: undefined, restore: undefined, target: undefined };
  const base = { kind: 'present' as const, key: 'default/c', uid: 'u', now, clone: cloneOf(), isOfVm: true, names };
  return { ...base, ...none, keepsState: false, source: vm, volumes: [], leftOut: [], isBound: false, ...facts };
}

const succeeded = cloneOf({ phase: 'Succeeded', restoreName: 'tmp-restore-u' });
const taken = { snapshot: ready, content };

const rows: readonly (readonly [rule: string, seen: CloneObservation, steps: string])[] = [
  ['deleted', seen({ clone: cloneOf({}, {}, { deletionTimestamp: '2026-01-01T00:00:00Z' }) }), ''],
  ['failed', seen({ clone: cloneOf({ phase: 'Failed' }) }), ''],
  ['target-gone', seen({ clone: succeeded }), 'deleteClone'],
  ['claims-not-bound', seen({ clone: succeeded, target: vm, restore: complete }), ''],
  ['helpers-left', seen({ clone: succeeded, target: vm, restore: complete, isBound: true }), 'deleteHelpers'],
  ['helpers-left', seen({ clone: succeeded, target: vm }), 'deleteHelpers'],
  ['succeeded', seen({ clone: cloneOf({ phase: 'Succeeded' }), target: vm }), ''],
  ['refused', seen({ problem: 'a VM cannot be a clone of itself' }), ''],
  ['state-refused', seen({ keepsState: true }), ''],
  ['state-refused', seen({ ...taken, keepsState: true }), ''],
  ['restored', seen({ ...taken, restore: complete, target: vm }), ''],
  [
    'restore-failed',
    seen({ ...taken, restore: restoreOf({ conditions: [{ type: 'Failure', status: 'True', reason: 'no' }] }) }),
    '',
  ],
  ['restore-under-way', seen({ ...taken, restore: restoreOf({}) }), ''],
  ['source-missing', seen({ source: undefined }), ''],
  ['volumes-unsupported', seen({ volumes: [unsupported] }), ''],
  ['snapshot-missing', seen(), 'createSnapshot'],
  ['snapshot-failed', seen({ snapshot: snapshotOf({ phase: 'Failed' }) }), ''],
  ['snapshot-not-ready', seen({ snapshot: open }), ''],
  ['snapshot-not-ready', seen({ snapshot: ready }), ''],
  ['volumes-left-out', seen({ ...taken, leftOut: ['root'] }), ''],
  ['target-exists', seen({ ...taken, target: vm }), ''],
  ['restore-missing', seen(taken), 'createRestore'],
  ['restore-missing', seen({ ...taken, source: undefined }), 'createRestore'],
  ['gone', { kind: 'absent', key: 'default/c', uid: '', now }, ''],
  [
    'api-without-answer',
    { kind: 'unclear', key: 'default/c', uid: 'u', now, clone: cloneOf(), reason: 'no answer' },
    '',
  ],
];

describe('rules of clones', () => {
  for (const [rule, observation, steps] of rows) {
    test(`${rule}: ${steps || 'nothing'}`, () => {
      const decision = decideClone(observation);
      assert.equal(decision.rule, rule);
      assert.equal(decision.steps.map(({ step }) => step).join(' '), steps);
    });
  }

  test('every rule has a row', () => {
    const known = new Set(rows.map(([rule]) => rule));
    assert.deepEqual(
      cloneRules.map(({ name }) => name).filter((name) => !known.has(name)),
      [],
    );
  });

  test('how far it is comes as events, as upstream tells it', () => {
    const eventsOf = (facts: Partial<PresentClone>) =>
      decideClone(seen(facts)).events?.map(({ type, reason, message }) => `${type} ${reason}: ${message}`);
    const { restore: restoreName, target: targetName } = seen().names;
    const { name } = seen().clone.metadata;
    assert.deepEqual(eventsOf({ ...taken, restore: complete, target: vm }), [
      `Normal RestoreReady: restore ${restoreName} for clone ${name} is ready to use`,
      `Normal TargetVMCreated: created target VM ${targetName} for clone ${name}`,
    ]);
    const bound = eventsOf({ clone: succeeded, target: vm, restore: complete, isBound: true });
    assert.deepEqual(bound, [`Normal PVCBound: all PVC for clone ${name} are bound`]);
  });

  test('what is pending is looked at ever more seldom, down to once a minute', () => {
    const pauseAfter = (waitedMs: number, rule: string, facts: Partial<PresentClone>) => {
      const lastRule = { rule, since: new Date(now.getTime() - waitedMs) };
      return decideClone(seen({ ...facts, lastRule })).requeueAfterMs;
    };
    for (const [rule, facts] of [
      ['source-missing', { source: undefined }],
      ['volumes-unsupported', { volumes: [unsupported] }],
      ['target-exists', { ...taken, target: vm }],
    ] as const) {
      const pauses = [0, 20_000, 3_600_000].map((ms) => pauseAfter(ms, rule, facts));
      assert.deepEqual(pauses, [5_000, 20_000, 60_000], rule);
      assert.equal(pauseAfter(20_000, 'snapshot-missing', facts), 5_000);
    }
  });

  test('names of helpers are in the status while they are there', () => {
    const status = cloneStatusOf(
      succeeded,
      { phase: 'Succeeded', restoreName: null, snapshotName: null, targetName: 'new' },
      now,
    );
    assert.deepEqual(
      { ...status, conditions: undefined },
      { phase: 'Succeeded', targetName: 'new', conditions: undefined },
    );
    const first = cloneStatusOf(cloneOf(), { phase: 'Succeeded', targetName: 'new' }, now);
    assert.equal(first.creationTime, '2026-01-01T00:10:00Z');
  });
});

describe('what of a clone is its own', () => {
  const source = buildVm({
    template: {
      metadata: { labels: { inner: '1' } },
      spec: { domain: { firmware: { serial: 's' }, devices: { interfaces: [{ name: 'a' }, { name: 'b' }] } } },
    },
  });
  source.metadata.labels = { 'some/key': '1', other: '2' };
  source.metadata.annotations = { 'restore.kubevirt.io/lastRestoreUID': 'x', noted: '1' };
  const of = (spec: object) => clonePatches(source, cloneOf({}, spec)).map((text) => JSON.parse(text));

  test('addresses, serial number and identity are not copied', () => {
    const domain = '/spec/template/spec/domain';
    assert.deepEqual(of({ newMacAddresses: { b: 'de:ad:00:00:be:af' } }), [
      { op: 'add', path: `${domain}/devices/interfaces/0/macAddress`, value: '' },
      { op: 'add', path: `${domain}/devices/interfaces/1/macAddress`, value: 'de:ad:00:00:be:af' },
      { op: 'add', path: `${domain}/firmware/serial`, value: '' },
      { op: 'add', path: `${domain}/firmware/uuid`, value: '' },
    ]);
    assert.equal(of({ newSMBiosSerial: 'mine' })[2].value, 'mine');
    const plain = clonePatches(buildVm(), cloneOf({}, { newSMBiosSerial: 'mine', patches: ['p'] }));
    assert.deepEqual(plain, [
      JSON.stringify({ op: 'add', path: `${domain}/firmware`, value: { serial: 'mine' } }),
      'p',
    ]);
  });

  test('filters take labels and annotations away, and never the mark of a restore', () => {
    const removed = (spec: object) => of(spec).flatMap(({ op, path }) => (op === 'remove' ? [path] : []));
    assert.deepEqual(removed({}), []);
    assert.deepEqual(removed({ labelFilters: ['*', '!some/*'] }), ['/metadata/labels/some~1key']);
    assert.deepEqual(removed({ annotationFilters: [] }), ['/metadata/annotations/noted']);
    assert.deepEqual(removed({ template: { labelFilters: ['x'] } }), ['/spec/template/metadata/labels/inner']);
    assert.deepEqual([isKept('ab', ['a*']), isKept('ab', ['a']), isKept('ab', ['*', '!ab'])], [true, false, false]);
  });
});
