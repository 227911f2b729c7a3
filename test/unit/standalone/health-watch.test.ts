import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HealthWatch } from '../../../src/standalone/supervisor/health-watch.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

/** One process that is asked; `answer` says what it does from now on. */
function watched(answeredBefore: boolean) {
  const clock = new FakeClock();
  const state = { isAnswering: true, isAskable: true, asked: 0, unasked: 0, hungAfterMs: [] as number[] };
  const ask = (signal: AbortSignal) => {
    state.asked++;
    if (!state.isAskable) return Promise.reject(new Error('EMFILE'));
    if (state.isAnswering) return Promise.resolve(true);
    return new Promise<boolean>((resolve) => signal.addEventListener('abort', () => resolve(false), { once: true }));
  };
  const watch = new HealthWatch({ ask }, answeredBefore, {
    clock,
    onHung: (ms) => state.hungAfterMs.push(ms),
    onUnasked: () => state.unasked++,
  });
  watch.start();
  return { clock, state, watch };
}

describe('a program is asked whether it serves', () => {
  test('every fifteen seconds, and nothing happens as long as it does', async () => {
    const { clock, state, watch } = watched(false);
    await clock.pass(61_000);
    assert.equal(state.asked, 5, 'once soon after the start, then every fifteen seconds');
    assert.deepEqual(state.hungAfterMs, []);
    watch.stop();
    assert.equal(clock.timers, 0);
  });

  test('after three answers that did not come within ten seconds, five seconds apart, it hangs, and is asked no more', async () => {
    const { clock, state } = watched(false);
    await clock.pass(250);
    state.isAnswering = false;
    await clock.pass(54_000);
    assert.deepEqual(state.hungAfterMs, []);
    await clock.pass(2_000);
    assert.deepEqual(state.hungAfterMs, [55_000]);
    const { asked } = state;
    await clock.pass(600_000);
    assert.equal(state.asked, asked);
    assert.equal(clock.timers, 0);
  });

  test('what could not be asked is let alone, and what was silent before stays so', async () => {
    const { clock, state } = watched(false);
    await clock.pass(250);
    state.isAskable = false;
    await clock.pass(600_000);
    assert.deepEqual([state.unasked, state.hungAfterMs], [118, []]);
    state.isAskable = true;
    state.isAnswering = false;
    await clock.pass(30_000);
    state.isAskable = false;
    await clock.pass(600_000);
    assert.deepEqual(state.hungAfterMs, [], 'twice silent');
    state.isAskable = true;
    await clock.pass(20_000);
    assert.equal(state.hungAfterMs.length, 1);
  });

  test('one answer between makes two that are missing before forgotten', async () => {
    const { clock, state } = watched(false);
    await clock.pass(5_000);
    for (let round = 0; round < 5; round++) {
      state.isAnswering = false;
      await clock.pass(25_000);
      state.isAnswering = true;
      await clock.pass(20_000);
    }
    assert.deepEqual(state.hungAfterMs, []);
  });

  test('one that never answered is let alone, unless an earlier life of it did: then it has five minutes', async () => {
    const never = watched(false);
    never.state.isAnswering = false;
    await never.clock.pass(3_600_000);
    assert.deepEqual(never.state.hungAfterMs, []);
    const again = watched(true);
    again.state.isAnswering = false;
    await again.clock.pass(295_000);
    assert.deepEqual(again.state.hungAfterMs, []);
    await again.clock.pass(30_000);
    assert.equal(again.state.hungAfterMs.length, 1);
  });
});
