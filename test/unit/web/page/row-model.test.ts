import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VmRow } from '../../../../src/web/index.ts';
import {
  absenceOf,
  matches,
  notesOf,
  noteText,
  offersOf,
  ownerText,
  sizeText,
  statusOf,
  summary,
  toneOf,
} from '../../../../src/web/page/row-model.ts';
import { byOrder, compareRows, nextOrder, type OrderKey, usualOrder } from '../../../../src/web/page/row-order.ts';
import { vmRow } from '../../../fixtures/web-backend.ts';

const running = vmRow('vm');
const paused = vmRow('vm', { vmi: { uid: 'u', phase: 'Running', paused: true } });
const scheduling = vmRow('vm', { status: 'Starting', vmi: { uid: 'u', phase: 'Scheduling', paused: false } });
const ended = vmRow('vm', { status: 'Stopped', vmi: { uid: 'u', phase: 'Succeeded', paused: false } });
const { vmi: _none, ...withoutVmi } = vmRow('vm', { status: 'Stopped', runStrategy: 'Halted' });
const stopped: VmRow = withoutVmi;
const { runStrategy: _strategy, ...alone } = running;

const mayStart = { canStart: true, canWrite: false, isLookOnly: false };
const mayAll = { ...mayStart, canWrite: true };
const actionsOf = (row: VmRow, rights = mayStart) => offersOf(row, rights).map(({ action }) => action);

test('what can be done follows from what the VM is', () => {
  assert.deepEqual(actionsOf(running), ['stop', 'restart', 'pause', 'softreboot', 'reset']);
  assert.deepEqual(actionsOf(paused), ['stop', 'restart', 'unpause', 'softreboot', 'reset']);
  assert.deepEqual(actionsOf(scheduling), ['stop', 'restart']);
  assert.deepEqual(actionsOf(stopped), ['start']);
  assert.deepEqual(actionsOf(ended), ['start']);
});

test('a server that may not start and stop offers neither', () => {
  const rights = { ...mayStart, canStart: false };
  assert.deepEqual(actionsOf(running, rights), ['pause', 'softreboot', 'reset']);
  assert.deepEqual(actionsOf(stopped, rights), []);
});

test('who may write is offered a clone and a delete of a VM, not of an instance alone; who may only look, nothing', () => {
  assert.deepEqual(actionsOf(stopped, mayAll), ['start', 'clone', 'delete']);
  assert.deepEqual(actionsOf(alone, mayAll), ['stop', 'pause', 'softreboot', 'reset']);
  const failed = { ...alone, status: 'Failed', vmi: { uid: 'u', phase: 'Failed', paused: false } };
  assert.deepEqual(actionsOf(failed, mayAll), ['delete']);
  for (const row of [running, stopped, alone]) assert.deepEqual(actionsOf(row, { ...mayAll, isLookOnly: true }), []);
});

test('a member of a pool or replica set says so, is found by it, and what takes it away says that another one comes', () => {
  const owner = { kind: 'VirtualMachineInstanceReplicaSet', name: 'farm' };
  const member: VmRow = { ...alone, owner };
  assert.equal(ownerText(member), 'replica set farm');
  assert.equal(ownerText({ ...member, owner: { kind: 'VirtualMachinePool', name: 'farm' } }), 'pool farm');
  assert.equal(ownerText({ ...member, owner: { kind: 'Thing', name: 'x' } }), 'Thing x');
  assert.ok(matches(member, 'set farm') && !matches(alone, 'farm'));
  const [stop] = offersOf(member, mayAll);
  assert.match(stop?.question ?? '', /it is deleted\. The replica set farm makes another one in its place\.$/);
  const deletion = offersOf({ ...stopped, owner: { kind: 'VirtualMachinePool', name: 'farm' } }, mayAll).at(-1);
  assert.equal(deletion?.question, 'Delete vm? The pool farm makes another one in its place.');
});

test('a VM that is not started again by itself is not restarted', () => {
  for (const runStrategy of ['Once', 'Halted']) {
    assert.ok(!actionsOf({ ...running, runStrategy }).includes('restart'), runStrategy);
  }
});

test('an instance without a VM can be stopped, with a warning, and not started again', () => {
  const [stop] = offersOf(alone, mayStart);
  assert.match(stop?.question ?? '', /cannot be started again/);
  assert.equal(stop?.isHarsh, true);
  assert.deepEqual(actionsOf({ ...alone, vmi: { uid: 'u', phase: 'Failed', paused: false } }), []);
});

test('what loses something is asked about, what does not is not', () => {
  const asked = offersOf(running, mayStart).filter(({ question }) => question !== undefined);
  assert.deepEqual(
    asked.map(({ action }) => action),
    ['stop', 'restart', 'softreboot', 'reset'],
  );
  assert.deepEqual(
    asked.filter(({ isHarsh }) => isHarsh).map(({ action }) => action),
    ['reset'],
  );
});

test('a paused instance without a VM is said to be paused', () => {
  assert.equal(statusOf({ ...paused, status: 'Running' }), 'Paused');
  assert.equal(statusOf(vmRow('vm', { status: '' })), 'Pending');
});

test('every status has a tone; unknown ones are busy, failures of any name are bad', () => {
  const tones = ['Running', 'Paused', 'Stopped', 'Starting', 'Migrating', 'Whatever'].map((status) =>
    toneOf(vmRow('vm', { status })),
  );
  assert.deepEqual(tones, ['good', 'paused', 'off', 'busy', 'busy', 'busy']);
  for (const status of [
    'Failed',
    'CrashLoopBackOff',
    'ErrImagePull',
    'ErrorPvcNotFound',
    'ErrorUnschedulable',
    'Unknown',
  ]) {
    assert.equal(toneOf(vmRow('vm', { status })), 'bad', status);
  }
});

test('conditions that are not fine are notes; the message says more than the name', () => {
  const row = vmRow('vm', {
    conditions: [
      { type: 'Ready', status: 'False', reason: 'GuestNotRunning', message: 'Guest VM is not reported as running' },
      { type: 'Synchronized', status: 'False', reason: 'FailedCreate' },
      { type: 'AgentConnected', status: 'True' },
      { type: 'LiveMigratable', status: 'False', reason: 'DisksNotLiveMigratable' },
      { type: 'RestartRequired', status: 'True' },
    ],
  });
  assert.deepEqual(notesOf(row).map(noteText), [
    'Failed create',
    'Restart required',
    'Guest VM is not reported as running',
  ]);
  const conditions = [{ type: 'RestartRequired', status: 'True' as const, message: 'a field was changed' }];
  assert.deepEqual(notesOf({ ...row, conditions }).map(noteText), ['Restart required: a field was changed']);
});

test('a stopped VM and a paused one are not ready, and that is no news', () => {
  const conditions = [{ type: 'Ready', status: 'False' as const, reason: 'VMINotExists' }];
  assert.deepEqual(notesOf({ ...stopped, conditions }), []);
  assert.deepEqual(notesOf({ ...ended, conditions }), []);
  assert.deepEqual(notesOf({ ...paused, conditions }), []);
  assert.equal(notesOf({ ...running, conditions }).length, 1);
});

test('rows are sorted as people count: by namespace, then by name with its numbers', () => {
  const rows = [vmRow('vm10'), vmRow('vm9'), vmRow('a', { namespace: 'z' }), vmRow('b', { namespace: 'a' })];
  assert.deepEqual(
    rows.sort(compareRows).map(({ name }) => name),
    ['b', 'vm9', 'vm10', 'a'],
  );
});

test('all words that are looked for are in name, namespace, status, address or system', () => {
  for (const text of ['', 'vm', 'VM run', 'default 10.0.2', 'debian running']) assert.ok(matches(running, text), text);
  for (const text of ['vm stopped', 'other', '10.0.2.22']) assert.ok(!matches(running, text), text);
});

test('a summary counts statuses, most frequent first', () => {
  assert.equal(summary([stopped, running, paused, running]), '2 Running, 1 Stopped, 1 Paused');
  assert.equal(summary([]), '');
});

const names = (rows: readonly VmRow[]) => rows.map(({ name }) => name);

test('what has failed is first, and each column sorts both ways; equal ones are by name', () => {
  const rows = [
    vmRow('b', { createdAt: '2026-01-02T00:00:00Z', memoryBytes: 1, cpus: 1 }),
    vmRow('a', { createdAt: '2026-01-01T00:00:00Z', memoryBytes: 2, cpus: 1 }),
    vmRow('c', { status: 'CrashLoopBackOff', createdAt: '2026-01-03T00:00:00Z' }),
    vmRow('d', {
      status: 'Paused',
      createdAt: '2026-01-03T00:00:00Z',
      vmi: { uid: 'u', phase: 'Running', paused: true },
    }),
  ];
  const order = (by: OrderKey, isReversed = false) => names(byOrder([...rows], { by, isReversed })).join('');
  assert.equal(names(byOrder([...rows], usualOrder)).join(''), 'cabd');
  assert.deepEqual(
    (['name', 'status', 'guest', 'size', 'age'] as const).map((by) => [by, order(by), order(by, true)]),
    [
      ['name', 'abcd', 'dcba'],
      ['status', 'cdab', 'badc'],
      ['guest', 'abcd', 'dcba'],
      ['size', 'abcd', 'dcba'],
      ['age', 'cdba', 'abdc'],
    ],
  );
});

test('the same column again turns the order round, another one begins forwards', () => {
  const once = nextOrder(usualOrder, 'name');
  assert.deepEqual(once, { by: 'name', isReversed: false });
  assert.deepEqual(nextOrder(once, 'name'), { by: 'name', isReversed: true });
  assert.deepEqual(nextOrder({ by: 'name', isReversed: true }, 'age'), { by: 'age', isReversed: false });
});

test('why there is no console: not started, on its way, failed with its reason; nothing where there is a guest', () => {
  assert.equal(absenceOf(running), undefined);
  assert.equal(absenceOf(stopped), 'vm does not run.');
  assert.equal(absenceOf(scheduling), 'vm does not run yet: Starting. It is shown here as soon as it does.');
  const conditions = [{ type: 'Synchronized', status: 'False' as const, message: 'no such disk' }];
  const failed = vmRow('vm', {
    status: 'ErrImagePull',
    conditions,
    vmi: { uid: 'u', phase: 'Scheduling', paused: false },
  });
  assert.equal(absenceOf(failed), 'vm does not run: ErrImagePull. It is shown here as soon as it does.');
});

test('a size is said as far as it is known', () => {
  assert.equal(sizeText(vmRow('vm', { cpus: 2, memoryBytes: 2 ** 30 })), '2 CPUs, 1.0 GiB');
  assert.equal(sizeText(vmRow('vm', { cpus: 1 })), '1 CPU');
  assert.equal(sizeText(vmRow('vm', { instancetype: { name: 'u1.small', isCluster: true } })), 'u1.small');
  assert.equal(sizeText(vmRow('vm', { instancetype: { name: 'u1.small', isCluster: true }, cpus: 1 })), '1 CPU');
  assert.equal(sizeText(running), '');
});
