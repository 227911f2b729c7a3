import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../../../src/api/index.ts';
import { placePod, type SchedulableNode } from '../../../../src/controller/scheduler/fit.ts';
import { buildPod } from '../builders.ts';

function node(
  name: string,
  fields: Partial<SchedulableNode> = {},
  labels: Record<string, string> = {},
): SchedulableNode {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name, labels: { schedulable: 'true', ...labels } }, ...fields };
}

function pod(spec: Partial<Pod['spec']> = {}): Pod {
  const base = buildPod();
  return { ...base, spec: { ...base.spec, nodeSelector: { schedulable: 'true' }, ...spec } };
}

const unused = () => 0;
const needs = (memory: string): Partial<Pod['spec']> => ({
  containers: [{ name: 'compute', resources: { requests: { memory } } }],
});
const affinity = (operator: string, values?: string[]): Partial<Pod['spec']> => ({
  affinity: {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [{ key: 'zone', operator, ...(values ? { values } : {}) }] }],
      },
    },
  },
});

test('the node with the most free memory is taken, the first by name when equal', () => {
  const sized = (name: string, memory: string) => node(name, { status: { allocatable: { memory } } });
  const nodes = [sized('c', '4Gi'), sized('b', '4Gi'), sized('a', '8Gi')];
  assert.deepEqual(placePod(pod(), nodes, unused), { kind: 'node', name: 'a' });
  const used = (name: string) => (name === 'a' ? 5 * 2 ** 30 : 0);
  assert.deepEqual(placePod(pod(), nodes, used), { kind: 'node', name: 'b' });
});

const refused: readonly (readonly [string, SchedulableNode, Partial<Pod['spec']>, RegExp])[] = [
  ['a label is missing', node('n'), { nodeSelector: { zone: 'a' } }, /node selector \(zone=a\)/],
  ['it is cordoned', node('n', { spec: { unschedulable: true } }), {}, /were unschedulable/],
  [
    'it is tainted',
    node('n', { spec: { taints: [{ key: 'drain', effect: 'NoSchedule' }] } }),
    {},
    /untolerated taint \{drain: \}/,
  ],
  ['memory is short', node('n', { status: { allocatable: { memory: '1Gi' } } }), needs('2Gi'), /Insufficient memory/],
  ['the affinity is another', node('n', {}, { zone: 'b' }), affinity('In', ['a']), /node affinity/],
  ['the operator is unknown', node('n', {}, { zone: 'b' }), affinity('Like', ['b']), /node affinity/],
];
for (const [situation, target, spec, message] of refused) {
  test(`a node is refused with the reason, when ${situation}`, () => {
    const placement = placePod(pod(spec), [target], unused);
    assert.ok(placement.kind === 'none');
    assert.match(placement.message, message);
    assert.match(placement.message, /^0\/1 nodes are available: 1 /);
  });
}

const accepted: readonly (readonly [string, SchedulableNode, Partial<Pod['spec']>])[] = [
  [
    'its taint is tolerated',
    node('n', { spec: { taints: [{ key: 'k', value: 'v', effect: 'NoSchedule' }] } }),
    { tolerations: [{ key: 'k', operator: 'Equal', value: 'v', effect: 'NoSchedule' }] },
  ],
  [
    'every taint is tolerated',
    node('n', { spec: { taints: [{ key: 'k', effect: 'NoExecute' }] } }),
    { tolerations: [{ operator: 'Exists' }] },
  ],
  ['its taint is only a wish', node('n', { spec: { taints: [{ key: 'k', effect: 'PreferNoSchedule' }] } }), {}],
  ['the affinity fits', node('n', {}, { zone: 'a' }), affinity('In', ['a'])],
  ['the affinity asks for absence', node('n'), affinity('DoesNotExist')],
  ['it says nothing about its memory', node('n'), needs('900Gi')],
];
for (const [situation, target, spec] of accepted) {
  test(`a node is taken, when ${situation}`, () => {
    assert.equal(placePod(pod(spec), [target], unused).kind, 'node');
  });
}

test('reasons of several nodes are counted, and no node at all is said so', () => {
  const nodes = [node('a', { spec: { unschedulable: true } }), node('b', { spec: { unschedulable: true } })];
  assert.deepEqual(placePod(pod(), nodes, unused), {
    kind: 'none',
    message: '0/2 nodes are available: 2 node(s) were unschedulable.',
  });
  assert.deepEqual(placePod(pod(), [], unused), {
    kind: 'none',
    message: '0/0 nodes are available: there is no node.',
  });
});
