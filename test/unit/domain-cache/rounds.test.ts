import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { forEachLimited, Rounds } from '../../../src/domain-cache/rounds.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';

describe('work on many launchers', () => {
  it('has a limit, and goes on in order', async () => {
    const begun: number[] = [];
    let running = 0;
    const slots = { limit: 3, slotMs: 500, clock: new FakeClock() };
    await forEachLimited([1, 2, 3, 4, 5, 6, 7], slots, async (item) => {
      begun.push(item);
      assert.ok(++running <= 3);
      await settle();
      running--;
    });
    assert.deepEqual(begun, [1, 2, 3, 4, 5, 6, 7]);
    assert.equal(slots.clock.timers, 0);
  });

  it('takes the place from one that hangs, and does not wait for it', async () => {
    const clock = new FakeClock();
    const ended: number[] = [];
    let isOver = false;
    const all = forEachLimited([1, 2, 3, 4, 5], { limit: 2, slotMs: 500, clock }, async (item) => {
      if (item < 3) await new Promise(() => undefined);
      ended.push(item);
    }).then(() => {
      isOver = true;
    });
    await settle();
    assert.deepEqual(ended, []);
    await clock.pass(500);
    await all;
    assert.deepEqual(ended, [3, 4, 5]);
    assert.equal(isOver, true);
  });
});

describe('a round', () => {
  it('comes back after the last one ended, and no more once it is stopped', async () => {
    const clock = new FakeClock();
    const rounds = new Rounds(clock);
    let runs = 0;
    let letEnd = () => {};
    rounds.every(1_000, () => {
      runs++;
      return new Promise((resolve) => {
        letEnd = resolve;
      });
    });
    await clock.pass(5_000);
    assert.equal(runs, 1, 'the first one has not ended');
    letEnd();
    await clock.pass(1_000);
    assert.equal(runs, 2);
    rounds.stop();
    letEnd();
    await clock.pass(5_000);
    assert.deepEqual([runs, clock.timers], [2, 0]);
  });
});
