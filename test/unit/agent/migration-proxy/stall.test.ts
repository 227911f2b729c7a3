import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { stallProblem } from '../../../../src/agent/flags.ts';
import { keepalive, stallTimes } from '../../../../src/agent/migration-proxy/stall.ts';

const seconds = fc.integer({ min: 5, max: 600 });

test('the seconds that are set have bounds', () => {
  assert.deepEqual([5, 20, 600].map(stallProblem), [undefined, undefined, undefined]);
  for (const wrong of [-1, 0, 4, 601]) assert.match(stallProblem(wrong) ?? '', /--migration-stall-seconds/);
});

test('a process that freezes right after an answer is noticed no later than is set', () => {
  fc.assert(
    fc.property(seconds, (stall) => {
      const { stallMs, lookMs, answerMs } = stallTimes(stall);
      assert.ok(lookMs + answerMs <= stallMs, `${lookMs} + ${answerMs} > ${stallMs}`);
      // A busy process is not taken for a frozen one.
      assert.ok(answerMs >= stallMs / 2);
      assert.ok(lookMs <= 5_000);
    }),
  );
});

test('streams that flow are never silent, although HAProxy counts them every five seconds only', () => {
  fc.assert(
    fc.property(seconds, (stall) => {
      const { silentMs, lookMs, stallMs } = stallTimes(stall);
      assert.ok(silentMs > 5_000 + lookMs && silentMs >= stallMs);
    }),
  );
});

test('a machine that is gone is noticed of a silent stream no later than is set', () => {
  fc.assert(
    fc.property(seconds, (stall) => {
      const { idle, interval, count } = keepalive(stall);
      assert.ok(idle >= 1 && interval >= 1 && idle + count * interval <= stall);
    }),
  );
});
