import assert from 'node:assert/strict';
import { test } from 'node:test';
import { comparison, percentile, spread, table } from '../../../bench/figures.ts';
import { randomOf, shuffled } from '../../../bench/random.ts';
import type { SoakSample } from '../../../bench/soak.ts';
import { checkSoak } from '../../../bench/soak-check.ts';

const flat: SoakSample = { starts: 0, heapKb: 10_000, openFiles: 30, resources: 10, leftovers: 0, ghostRecords: 0 };

function samples(change: (index: number) => Partial<SoakSample>): SoakSample[] {
  return Array.from({ length: 9 }, (_, index) => ({ ...flat, starts: (index + 1) * 100, ...change(index) }));
}

const faultsOf = (change: (index: number) => Partial<SoakSample>) =>
  checkSoak({ samples: samples(change), astray: [] }).faults.length;

test('a percentile is a sample, and of no samples there is none', () => {
  assert.equal(percentile([3, 1, 2], 50), 2);
  assert.equal(percentile([1, 2, 3, 4], 50), 2);
  assert.equal(percentile([5], 99), 5);
  assert.equal(percentile([1, 2], 100), 2);
  assert.ok(Number.isNaN(percentile([], 50)));
});

test('a median of two is between them, and a spread of nothing is no number', () => {
  assert.deepEqual(spread([4, 2]), { min: 2, median: 3, max: 4 });
  assert.ok(Number.isNaN(spread([]).median));
});

test('a table shows a figure without samples as a dash', () => {
  assert.match(table([{ name: 'lost', unit: '1', samples: [] }]), /lost\s+–\s+–\s+–/);
});

test('a comparison divides medians, and shows a dash where the other has none', () => {
  const ours = [
    { name: 'a', unit: 'ms', samples: [1, 2, 3] },
    { name: 'b', unit: 'ms', samples: [1] },
  ] as const;
  const lines = comparison(['ours', 'other'], ours, [{ name: 'a', unit: 'ms', samples: [8] }]).split('\n');
  assert.match(lines[1] ?? '', /0\.25\s+ms$/);
  assert.match(lines[2] ?? '', /–\s+ms$/);
});

test('the same seed gives the same order, another one another', () => {
  const items = Array.from({ length: 50 }, (_, index) => index);
  assert.deepEqual(shuffled(items, randomOf(1)), shuffled(items, randomOf(1)));
  assert.notDeepEqual(shuffled(items, randomOf(1)), shuffled(items, randomOf(2)));
  assert.deepEqual(
    shuffled(items, randomOf(3)).sort((a, b) => a - b),
    items,
  );
});

test('a soak that grows in its warm-up only is flat', () => {
  assert.equal(
    faultsOf((index) => (index < 3 ? { heapKb: 5_000 * index, openFiles: index } : {})),
    0,
  );
});

test('a soak is failed by each thing that grows or stays', () => {
  assert.equal(
    faultsOf((index) => ({ heapKb: 10_000 + 1_000 * index })),
    1,
    '10 KB for each start',
  );
  assert.equal(
    faultsOf((index) => ({ openFiles: 30 + index })),
    1,
  );
  assert.equal(
    faultsOf((index) => ({ resources: 10 + index })),
    1,
  );
  assert.equal(
    faultsOf(() => ({ leftovers: 1 })),
    1,
  );
  assert.equal(
    faultsOf(() => ({ ghostRecords: 1 })),
    1,
  );
  assert.deepEqual(checkSoak({ samples: samples(() => ({})), astray: ['vm is Pending'] }).faults, ['vm is Pending']);
});

test('a soak of too few samples proves nothing', () => {
  assert.throws(() => checkSoak({ samples: [flat, flat, flat], astray: [] }), /four samples/);
});
