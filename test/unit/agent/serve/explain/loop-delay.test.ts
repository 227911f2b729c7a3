import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { measureLoopDelay } from '../../../../../src/agent/serve/explain/index.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

function looker() {
  const clock = new FakeClock();
  const loop = { utilization: 0, heldMs: 0 };
  const held = {
    monotonicMs: () => clock.monotonicMs() + loop.heldMs,
    schedule: (ms: number, callback: () => void) => clock.schedule(ms, callback),
  };
  const delay = measureLoopDelay({ clock: held, utilization: () => loop.utilization });
  const looksIn = (ms: number) => {
    const before = delay.totals().count;
    clock.advance(ms);
    return delay.totals().count - before;
  };
  return { clock, loop, delay, looksIn };
}

describe('lateness of the event loop', () => {
  it('is looked at every 50 ms while the loop works', () => {
    const { loop, looksIn } = looker();
    loop.utilization = 0.06;
    assert.equal(looksIn(10_000), 200);
  });

  it('is hardly looked at while it does nothing', () => {
    const { looksIn } = looker();
    looksIn(20_000);
    assert.equal(looksIn(100_000), 20);
  });

  it('is looked at again as soon as work comes in, and a stream of work does not put the look off', () => {
    const { clock, delay, looksIn } = looker();
    looksIn(20_000);
    delay.workCame();
    const before = delay.totals().count;
    for (let step = 0; step < 6; step++) {
      clock.advance(10);
      delay.workCame();
    }
    assert.equal(delay.totals().count - before, 1);
  });

  it('is told by its mean, its sum and its longest; a loop that was late is looked at again soon', () => {
    const { loop, delay, looksIn } = looker();
    looksIn(100_000);
    const before = delay.totals();
    loop.heldMs = 300;
    while (looksIn(10) === 0);
    const after = delay.totals();
    assert.equal(after.count - before.count, 1);
    assert.ok(Math.abs(after.lateMs - before.lateMs - 300) < 2, `${after.lateMs - before.lateMs} ms`);
    assert.ok(Math.abs(delay.read().max - 300) < 2, `${delay.read().max} ms`);
    assert.equal(looksIn(50), 1);
  });

  it('is not looked at any more after the end', () => {
    const { clock, delay } = looker();
    delay.stop();
    assert.equal(clock.timers, 0);
  });
});
