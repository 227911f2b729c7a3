import assert from 'node:assert/strict';
import { test } from 'node:test';
import { h } from 'preact';
import { renderToString } from 'preact-render-to-string';
import type { VirtualMachine, VirtualMachineSnapshot } from '../../../../src/api/index.ts';
import { PageState } from '../../../../src/web/page/page-state.ts';
import { setOf, setStatus, setText } from '../../../../src/web/page/sets-model.ts';
import { Sets } from '../../../../src/web/page/sets-strip.tsx';
import { SnapshotActions } from '../../../../src/web/page/snapshot-actions.ts';
import type { SnapshotFacts } from '../../../../src/web/page/snapshot-calls.ts';
import {
  snapshotLines,
  snapshotName,
  useLines,
  whatIsKept,
  whatIsRestored,
} from '../../../../src/web/page/snapshots-model.ts';
import { Snapshots } from '../../../../src/web/page/snapshots-panel.tsx';
import { freeName } from '../../../../src/web/page/words.ts';
import { memoryRights, vmRow } from '../../../fixtures/web-backend.ts';

const hostile = '<img src=x onerror="alert(1)">';
const volumes = [
  { name: 'root', dataVolume: { name: 'vm-root' } },
  { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
  { name: 'scratch', emptyDisk: { capacity: '1Gi' } },
];
const vm = { metadata: { name: 'vm' }, spec: { template: { spec: { volumes } } } } as unknown as VirtualMachine;

const snapshot = (name: string, minute: number, more: object = {}) =>
  ({
    metadata: { name, namespace: 'default', creationTimestamp: `2026-01-02T03:0${minute}:00Z` },
    spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm' } },
    ...more,
  }) as unknown as VirtualMachineSnapshot;

const ready = {
  phase: 'Succeeded',
  readyToUse: true,
  creationTime: '2026-01-02T03:01:00Z',
  virtualMachineSnapshotContentName: 'content',
  indications: ['Online', 'NoGuestAgent'],
  snapshotVolumes: { includedVolumes: ['data'], excludedVolumes: ['scratch'] },
};
const content = {
  metadata: { name: 'content' },
  spec: {
    volumeBackups: [
      { volumeName: 'data', persistentVolumeClaim: { spec: { resources: { requests: { storage: '2Gi' } } } } },
    ],
  },
};

function factsWith(more: object): SnapshotFacts {
  return { vm, snapshots: [], contents: [content], restores: [], clones: [], ...more } as unknown as SnapshotFacts;
}

test('a snapshot says when it was taken, what is in it and what is not, and how the machine was; the newest is first', () => {
  const [newest, oldest] = snapshotLines(
    factsWith({ snapshots: [snapshot('old', 1, { status: ready }), snapshot('new', 2)] }),
  );
  assert.deepEqual(oldest, {
    ...{ name: 'old', at: '2026-01-02T03:01:00Z', state: { text: 'Ready', tone: 'good' }, problem: '' },
    ...{ disks: ['data 2Gi'], missing: ['scratch'], isReady: true },
    how: 'no agent in the guest: as after a loss of power',
  });
  assert.deepEqual(newest, {
    ...{ name: 'new', state: { text: 'Being taken', tone: 'busy' }, problem: '' },
    ...{ disks: [], missing: [], how: '', isReady: false },
  });
});

test('one that failed, one that waits and one that is being deleted say so, with the words of the API', () => {
  const failure = { type: 'Failure', status: 'True', reason: 'snapshot deadline exceeded' };
  const waiting = { type: 'Progressing', status: 'False', reason: 'Source not locked: it runs' };
  const deleted = { metadata: { name: 'd', deletionTimestamp: '2026-01-02T03:00:00Z' }, status: ready };
  const lines = snapshotLines(
    factsWith({
      snapshots: [
        snapshot('a', 5, { status: { phase: 'Failed', conditions: [failure] } }),
        snapshot('b', 4, { status: { phase: 'InProgress', conditions: [waiting] } }),
        snapshot('c', 3, { status: { phase: 'Succeeded', error: { message: 'it is lost' } } }),
        snapshot('d', 2, deleted),
      ],
    }),
  );
  assert.deepEqual(
    lines.map(({ state, problem, isReady }) => [state.text, state.tone, problem, isReady]),
    [
      ['Failed', 'bad', 'snapshot deadline exceeded', false],
      ['Being taken', 'busy', 'Source not locked: it runs', false],
      ['Not ready', 'bad', 'it is lost', false],
      ['Being deleted', 'busy', '', false],
    ],
  );
});

test('restores and clones say how far they are, and why they failed', () => {
  const at = (minute: number) => ({ creationTimestamp: `2026-01-02T03:0${minute}:00Z` });
  const restore = (minute: number, status: object) => ({
    metadata: { name: `r${minute}`, ...at(minute) },
    spec: { target: {}, virtualMachineSnapshotName: 'evening' },
    status,
  });
  const clone = (minute: number, kind: string, status: object) => ({
    metadata: { name: `c${minute}`, ...at(minute) },
    spec: { source: { kind, name: 'evening' }, target: { name: 'twin' } },
    status,
  });
  const waits = { type: 'Progressing', status: 'True', reason: 'Waiting for target VM to be powered off' };
  const failed = { type: 'Failure', status: 'True', reason: 'it runs' };
  const lines = useLines(
    factsWith({
      restores: [
        restore(1, { complete: true, conditions: [waits] }),
        restore(2, { complete: false, conditions: [waits] }),
        restore(3, { conditions: [failed, waits] }),
      ],
      clones: [
        clone(4, 'VirtualMachine', { phase: 'RestoreInProgress' }),
        clone(5, 'VirtualMachineSnapshot', {
          phase: 'Failed',
          conditions: [{ type: 'Ready', status: 'False', reason: 'there is no room' }],
        }),
      ],
    }),
  );
  assert.deepEqual(
    lines.map(({ name, makes, snapshot: of, state, problem, isOver }) => [
      name,
      makes,
      of,
      state.text,
      problem,
      isOver,
    ]),
    [
      ['c5', 'twin', 'evening', 'Failed', 'there is no room', true],
      ['c4', 'twin', '', 'Under way', 'Its disks are filled', false],
      ['r3', undefined, 'evening', 'Failed', 'it runs', true],
      ['r2', undefined, 'evening', 'Under way', 'Waiting for target VM to be powered off', false],
      ['r1', undefined, 'evening', 'Done', '', true],
    ],
  );
});

test('before a snapshot it is said what will be in it; before a restore what becomes of the machine', () => {
  assert.deepEqual(whatIsKept(vm, false, false), [
    'Kept: its definition, and its disks root, data.',
    'Not kept, as it is on no claim: scratch.',
  ]);
  assert.match(whatIsKept(vm, true, true).join(' '), /its agent holds the file systems still/);
  assert.match(
    whatIsKept(vm, true, false).join(' '),
    /as after a loss of power.*it can be restarted then, but not stopped/,
  );
  const bare = { metadata: { name: 'vm' }, spec: { template: { spec: {} } } } as unknown as VirtualMachine;
  assert.deepEqual(whatIsKept(bare, true, false), ['Kept: its definition. It has no disk on a claim.']);
  const [line] = snapshotLines(factsWith({ snapshots: [snapshot('old', 1, { status: ready })] }));
  assert.ok(line);
  assert.match(whatIsRestored(line, true).join(' '), /data 2Gi.*Not in the snapshot: scratch\. It has to be stopped/);
  assert.match(
    whatIsRestored({ ...line, disks: [] }, false).join(' '),
    /No disk is in the snapshot.*is not started by it/,
  );
});

test('a name that is offered is free', () => {
  const now = new Date(2026, 0, 2, 3, 4);
  assert.equal(snapshotName('vm', now, new Set()), 'vm-2026-01-02-0304');
  assert.equal(snapshotName('vm', now, new Set(['vm-2026-01-02-0304'])), 'vm-2026-01-02-0304-2');
  assert.equal(
    freeName('a', (name) => ['a', 'a-2'].includes(name)),
    'a-3',
  );
});

function drawnSnapshots(facts: SnapshotFacts, more: object = {}): string {
  const state = new PageState();
  state.replace({ ...memoryRights, node: 'node1', rows: [vmRow('vm')], ...more });
  const [row] = state.rows.value.values();
  const actions = new SnapshotActions(state, { namespace: 'default', name: 'vm' }, row, () => undefined);
  return renderToString(h('div', null, h(Snapshots, { state, facts, actions, row, nowMs: 0 })));
}

test('who may only look is offered nothing; texts stay texts; without a VirtualMachine it is said why there are none', () => {
  const facts = factsWith({
    snapshots: [snapshot('evening', 1, { status: { ...ready, error: { message: hostile } } })],
    clones: [
      {
        metadata: { name: hostile, creationTimestamp: '2026-01-02T03:00:00Z' },
        spec: { source: { kind: 'VirtualMachineSnapshot', name: hostile }, target: { name: hostile } },
      },
    ],
  });
  const full = drawnSnapshots(facts);
  for (const label of ['Restore… evening', 'Clone… evening', 'Delete… evening'])
    assert.ok(full.includes(`aria-label="${label}"`), label);
  assert.doesNotMatch(full, /<img/);
  assert.match(full, /Take snapshot…/);
  assert.doesNotMatch(drawnSnapshots(facts, { lookOnly: true }), /<button/);
  assert.match(drawnSnapshots(factsWith({})), /There is none yet/);
  assert.match(drawnSnapshots(factsWith({ vm: undefined })), /instance without a VirtualMachine/);
  assert.match(drawnSnapshots(factsWith({ vm: undefined }), { rows: [] }), /There is no such virtual machine/);
});

test('pools and replica sets say how many machines they have, and can be scaled by who may write', () => {
  const set = (kind: 'pool' | 'replica set', wanted: number, status: object) =>
    setOf(kind, { metadata: { name: 'farm', namespace: 'default' }, spec: { replicas: wanted }, status } as never);
  const whole = set('pool', 3, { replicas: 3, readyReplicas: 2 });
  assert.deepEqual([setText(whole), setStatus(whole).text], ['3 machines, 2 ready', 'Complete']);
  const growing = set('replica set', 3, { replicas: 1, readyReplicas: 1 });
  assert.deepEqual([setText(growing), setStatus(growing).text], ['1 of 3 machines, 1 ready', 'Growing']);
  assert.equal(setStatus(set('pool', 0, { replicas: 1 })).text, 'Shrinking');
  assert.equal(setText(set('pool', 0, {})), '0 machines');
  assert.equal(setOf('pool', { metadata: { name: 'x' } } as never).wanted, 1);
  const drawn = (lookOnly: boolean) => {
    const state = new PageState();
    state.replace({ ...memoryRights, node: 'node1', rows: [], ...(lookOnly && { lookOnly }) });
    return renderToString(h('div', null, h(Sets, { state, sets: [whole], onScaled: () => undefined })));
  };
  assert.match(drawn(false), /aria-label="Scale pool farm"/);
  assert.doesNotMatch(drawn(true), /Scale/);
  assert.match(drawn(true), /3 machines, 2 ready/);
});
