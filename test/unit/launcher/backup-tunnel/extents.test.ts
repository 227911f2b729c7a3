import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExtentBatches, mergedFlags } from '../../../../src/launcher/backup-tunnel/extents.ts';
import type { Extent } from '../../../../src/nbd-tunnel/index.ts';

test('what is zero and what is dirty is one list, cut where either changes, and as long as the shorter', () => {
  const allocation = [
    { length: 10, flags: 0 },
    { length: 20, flags: 3 },
  ];
  const changes = [
    { length: 5, flags: 1 },
    { length: 20, flags: 0 },
    { length: 100, flags: 1 },
  ];
  assert.deepEqual(mergedFlags(allocation, changes), [
    { length: 5, flags: 1 },
    { length: 5, flags: 0 },
    { length: 15, flags: 2 },
    { length: 5, flags: 3 },
  ]);
  assert.deepEqual(mergedFlags(allocation, []), []);
});

test('neighbours of a kind are one; batches have 512 at most', async () => {
  const given: (readonly Extent[])[] = [];
  const batches = new ExtentBatches(false, async (extents) => void given.push(extents));
  await batches.add(0, { length: 1, flags: 0 });
  await batches.add(1, { length: 2, flags: 0 });
  await batches.add(9, { length: 1, flags: 0 });
  for (let at = 10; at < 610; at++) await batches.add(at, { length: 1, flags: at % 2 === 0 ? 3 : 0 });
  await batches.end();
  assert.deepEqual(
    given.map(({ length }) => length),
    [512, 90],
  );
  assert.deepEqual(given[0]?.slice(0, 3), [
    { offset: 0, length: 3, flags: 0, description: 'data' },
    { offset: 9, length: 1, flags: 0, description: 'data' },
    { offset: 10, length: 1, flags: 3, description: 'hole,zero' },
  ]);
  const odd = new ExtentBatches(true, async (extents) => void given.push(extents));
  await odd.add(0, { length: 1, flags: 8 });
  await odd.end();
  assert.equal(given.at(-1)?.[0]?.description, 'unknown');
});
