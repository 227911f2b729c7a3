import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import { domainOf, nowMs, observationOf, seen } from '../../../../fixtures/agent/builders.ts';
import { unplaced } from './rule-rows/placement.ts';
import { memory } from './rule-rows/row.ts';

const decided = (given: ReturnType<typeof unplaced>) => decide(observationOf(given));

test('that threads cannot be placed is told with whatever else is decided, in the same words at each try', () => {
  const texts = [
    decided(unplaced()),
    decided(unplaced({ count: 5 })),
    decided({ ...unplaced(), domain: seen(domainOf('Paused', 'User')) }),
    // A sync since: the hook has not tried again.
    decided({
      ...unplaced(),
      hostFacts: { limits: { isPlaced: false } },
      memory: memory({
        placementTries: { fingerprint: 'same', count: 1, lastMs: nowMs },
        unplaced: 'no cgroup',
      }),
    }),
  ].map(({ problem, healthy }) => (healthy ? 'all is well' : problem));
  assert.match(
    texts[0] ?? '',
    /threads of the guest are not on the CPUs .*: no cgroup\. It is tried again by itself\.$/,
  );
  assert.equal(new Set(texts).size, 1);
});

test('a placement that fails is tried again at once, then ever more seldom, and counted from anew for a changed VMI', () => {
  const pauses: unknown[] = [];
  for (const count of [1, 2, 3, 7, 8, 100]) pauses.push(decided(unplaced({ count })).requeueAfterMs);
  assert.deepEqual(pauses, [1_000, 2_000, 4_000, 64_000, 120_000, 120_000]);
  const again = { fingerprint: 'same', count: 4, lastMs: nowMs };
  assert.deepEqual(decided(unplaced({ count: 3, lastMs: nowMs - 4_000 })).remember, {
    placement: { placementTries: again },
  });
  assert.deepEqual(decided(unplaced({ fingerprint: 'older', count: 3 })).remember, {
    placement: { placementTries: { ...again, count: 1 } },
  });
});
