import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  areRunMarks,
  hasRun,
  marksOf,
  notRun,
  panicReported,
  pausedOnPurpose,
  type RunRecord,
  recordOf,
} from '../../../../src/launcher/lifecycle/run-record.ts';

test('a domain that is started paused stays so in the record until it is unpaused', () => {
  const started = hasRun(pausedOnPurpose(true)(notRun));
  assert.deepEqual(started, { kind: 'has-run', paused: true, panicReported: false });
  assert.deepEqual(pausedOnPurpose(false)(started), { kind: 'has-run', paused: false, panicReported: false });
});

test('what has run has run for ever, and a reported panic stays reported', () => {
  const panicked = panicReported(hasRun(notRun));
  assert.deepEqual(hasRun(panicked), panicked);
  assert.deepEqual(pausedOnPurpose(true)(panicked), { kind: 'has-run', paused: true, panicReported: true });
});

test('a guest that panicked before a sync noticed that it runs is not started again', () => {
  assert.deepEqual(panicReported(notRun), { kind: 'has-run', paused: false, panicReported: true });
});

test('every record is the same after a way through the state file', () => {
  const records: RunRecord[] = [notRun, pausedOnPurpose(true)(notRun)];
  for (const paused of [false, true])
    for (const reported of [false, true]) records.push({ kind: 'has-run', paused, panicReported: reported });
  for (const record of records) {
    const marks: unknown = JSON.parse(JSON.stringify(marksOf(record)));
    assert.ok(areRunMarks(marks));
    assert.deepEqual(recordOf(marks), record);
  }
});

test('the form on disk is the one that earlier launchers wrote', () => {
  assert.deepEqual(marksOf(panicReported(notRun)), { userPaused: false, hasRun: true, panicHandled: true });
  assert.equal(areRunMarks({ userPaused: false, hasRun: 'yes', panicHandled: false }), false);
  assert.equal(areRunMarks(null), false);
});
