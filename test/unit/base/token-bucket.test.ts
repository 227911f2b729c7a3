import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { type Clock, systemClock, TokenBucket } from '../../../src/base/index.ts';

let nowMs: number;
const clock: Clock = { ...systemClock, monotonicMs: () => nowMs };

beforeEach(() => {
  nowMs = 1_000;
});

describe('TokenBucket', () => {
  it('lets the burst through, then the rate', () => {
    const bucket = new TokenBucket({ perSecond: 2, burst: 3 }, clock);
    assert.deepEqual(
      [1, 2, 3, 4].map(() => bucket.tryTake()),
      [true, true, true, false],
    );
    nowMs += 500;
    assert.deepEqual([bucket.tryTake(), bucket.tryTake()], [true, false]);
    nowMs += 3_600_000;
    assert.deepEqual(
      [1, 2, 3, 4].map(() => bucket.tryTake()),
      [true, true, true, false],
    );
  });

  it('what costs more than there is takes nothing', () => {
    const bucket = new TokenBucket({ perSecond: 0, burst: 10 }, clock);
    assert.equal(bucket.tryTake(11), false);
    assert.equal(bucket.tryTake(10), true);
  });
});
