import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../src/base/index.ts';
import { stays } from '../../fixtures/eventually.ts';

const monthMs = 30 * 86_400_000;
const longestMs = 2 ** 31 - 1;

test('a timer longer than Node.js can wait is due when its time is over, not at once', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let calls = 0;
  systemClock.schedule(monthMs, () => calls++);
  // In steps of the parts: the mocked timers count a nested one from the end of a step.
  t.mock.timers.tick(longestMs);
  t.mock.timers.tick(monthMs - longestMs - 1);
  assert.equal(calls, 0);
  t.mock.timers.tick(1);
  assert.equal(calls, 1);
  t.mock.timers.tick(monthMs);
  assert.equal(calls, 1);
});

test('a long timer can be cancelled in each of its parts', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let calls = 0;
  for (const days of [1, 26]) {
    const cancel = systemClock.schedule(monthMs, () => calls++);
    for (let day = 0; day < days; day++) t.mock.timers.tick(86_400_000);
    cancel();
  }
  t.mock.timers.tick(2 * monthMs);
  assert.equal(calls, 0);
});

test('real timers: one of a month is not due after a moment', async () => {
  let calls = 0;
  const cancel = systemClock.schedule(monthMs, () => calls++);
  await stays(() => assert.equal(calls, 0), 20);
  cancel();
});
