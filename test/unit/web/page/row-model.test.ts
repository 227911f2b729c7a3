import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VmRow } from '../../../../src/web/index.ts';
import {
  compareRows,
  matches,
  notesOf,
  noteText,
  offersOf,
  statusOf,
  summary,
  toneOf,
} from '../../../../src/web/page/row-model.ts';
import { vmRow } from '../../../fixtures/web-backend.ts';

const running = vmRow('vm');
const paused = vmRow('vm', { vmi: { uid: 'u', phase: 'Running', paused: true } });
const scheduling = vmRow('vm', { status: 'Starting', vmi: { uid: 'u', phase: 'Scheduling', paused: false } });
const ended = vmRow('vm', { status: 'Stopped', vmi: { uid: 'u', phase: 'Succeeded', paused: false } });
const { vmi: _none, ...withoutVmi } = vmRow('vm', { status: 'Stopped', runStrategy: 'Halted' });
const stopped: VmRow = withoutVmi;
const { runStrategy: _strategy, ...alone } = running;

const actionsOf = (row: VmRow, canStart = true) => offersOf(row, canStart).map(({ action }) => action);

test('what can be done follows from what the VM is', () => {
  assert.deepEqual(actionsOf(running), ['stop', 'pause', 'softreboot', 'reset']);
  assert.deepEqual(actionsOf(paused), ['stop', 'unpause', 'softreboot', 'reset']);
  assert.deepEqual(actionsOf(scheduling), ['stop']);
  assert.deepEqual(actionsOf(stopped), ['start']);
  assert.deepEqual(actionsOf(ended), ['start']);
});

test('a server that may not start and stop offers neither', () => {
  assert.deepEqual(actionsOf(running, false), ['pause', 'softreboot', 'reset']);
  assert.deepEqual(actionsOf(stopped, false), []);
});

test('an instance without a VM can be stopped, with a warning, and not started again', () => {
  const [stop] = offersOf(alone, true);
  assert.match(stop?.question ?? '', /cannot be started again/);
  assert.equal(stop?.isHarsh, true);
  assert.deepEqual(actionsOf({ ...alone, vmi: { uid: 'u', phase: 'Failed', paused: false } }), []);
});

test('what loses something is asked about, what does not is not', () => {
  const asked = offersOf(running, true).filter(({ question }) => question !== undefined);
  assert.deepEqual(
    asked.map(({ action }) => action),
    ['stop', 'softreboot', 'reset'],
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
