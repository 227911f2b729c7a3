import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../../../src/api/index.ts';
import {
  labelChanges,
  lowestFrequency,
  saysTheSame,
  wantedFrequencies,
} from '../../../../src/controller/tsc/frequencies.ts';
import { buildVmi } from '../builders.ts';

const given = 'scheduling.node.kubevirt.io/tsc-frequency-';

interface Traits {
  readonly name?: string;
  readonly hertz?: string;
  readonly scalable?: boolean;
  readonly schedulable?: boolean;
  readonly labels?: Record<string, string>;
}

function node({ name = 'node1', hertz, scalable = false, schedulable = true, labels = {} }: Traits): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      uid: name,
      labels: {
        'kubevirt.io/schedulable': String(schedulable),
        ...(hertz !== undefined && { 'cpu-timer.node.kubevirt.io/tsc-frequency': hertz }),
        'cpu-timer.node.kubevirt.io/tsc-scalable': String(scalable),
        ...labels,
      },
    },
  };
}

const guest = (nodeName: string, tscFrequency?: number) =>
  buildVmi({}, { nodeName, ...(tscFrequency !== undefined && { topologyHints: { tscFrequency } }) });

test('a new guest gets the lowest frequency of nodes where guests start or run', () => {
  const nodes = [
    node({ name: 'a', hertz: '3000' }),
    node({ name: 'b', hertz: '2000' }),
    node({ name: 'drained', hertz: '1000', schedulable: false }),
    node({ name: 'silent' }),
  ];
  assert.equal(lowestFrequency(nodes, [], undefined), 2000);
  assert.equal(lowestFrequency(nodes, [guest('drained')], undefined), 1000, 'a guest runs there');
  assert.equal(lowestFrequency(nodes, [], 500), 500, 'as configured');
});

for (const hertz of ['', '0', '-5', '2.5', 'fast', '9'.repeat(16), undefined]) {
  test(`a node whose frequency is ${hertz ?? 'not there'} counts for nothing and gives nothing`, () => {
    const broken = node({ ...(hertz !== undefined && { hertz }), labels: { [`${given}2000`]: 'true' } });
    assert.equal(lowestFrequency([broken], [], undefined), 0);
    assert.deepEqual(labelChanges(broken, new Set([2000])), { [`${given}2000`]: null });
  });
}

test('what guests were given is wanted for as long as they are there', () => {
  assert.deepEqual(
    [...wantedFrequencies([guest('a', 1000), guest('b', 1000), guest('c', 0), guest('d')], 2000)].sort(),
    [1000, 2000],
  );
  assert.deepEqual([...wantedFrequencies([], 0)], []);
});

const wanted = new Set([1_000_000_000, 2_000_000_000, 2_000_400_000, 3_000_000_000]);
const rows: readonly [string, Traits, readonly number[]][] = [
  ['one that cannot scale gives its own, and what QEMU takes for the same', {}, [2_000_000_000, 2_000_400_000]],
  [
    'one that scales gives all that are not above its own, too',
    { scalable: true },
    [1_000_000_000, 2_000_000_000, 2_000_400_000],
  ],
  ['its own is always given', { hertz: '2500000000' }, [2_500_000_000]],
  ['the tolerance is 250 parts of a million, rounded down', { hertz: '1999600100' }, [1_999_600_100, 2_000_000_000]],
];

for (const [what, traits, frequencies] of rows) {
  test(`labels of a node: ${what}`, () => {
    const changes = labelChanges(node({ hertz: '2000000000', ...traits }), wanted);
    assert.deepEqual(Object.keys(changes).sort(), frequencies.map((each) => given + each).sort());
    assert.deepEqual(new Set(Object.values(changes)), new Set(['true']));
  });
}

test('labels that are right stay, a wrong one is mended, one that nobody wants goes', () => {
  const labels = { [`${given}2000`]: 'true', [`${given}1000`]: 'false', [`${given}700`]: 'true', other: 'x' };
  const changes = labelChanges(node({ hertz: '2000', scalable: true, labels }), new Set([1000]));
  assert.deepEqual(changes, { [`${given}1000`]: 'true', [`${given}700`]: null });
});

test('only what labels depend on is news of a node', () => {
  const older = node({ hertz: '2000' });
  assert.ok(saysTheSame(older, node({ hertz: '2000', labels: { zone: 'b' } })));
  assert.ok(!saysTheSame(older, node({ hertz: '2001' })));
  assert.ok(!saysTheSame(older, node({ hertz: '2000', scalable: true })));
  assert.ok(!saysTheSame(older, node({ hertz: '2000', schedulable: false })));
  assert.ok(!saysTheSame(older, node({ hertz: '2000', labels: { [`${given}1`]: 'true' } })));
});
