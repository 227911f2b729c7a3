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
const asks = (limits: Record<string, string>): Partial<Pod['spec']> => ({
  containers: [{ name: 'compute', resources: { limits } }],
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
  ['it has no such device', node('n'), asks({ 'nvidia.com/T4': '1' }), /1 Insufficient nvidia\.com\/T4\.$/],
  [
    'it has none of the device left',
    node('n', { status: { allocatable: { 'nvidia.com/T4': '0' } } }),
    asks({ 'nvidia.com/T4': '1' }),
    /Insufficient nvidia/,
  ],
  [
    'nobody gives out claims',
    node('n'),
    { resourceClaims: [{ name: 'c' }] },
    /1 node\(s\) had no driver that gives out/,
  ],
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
  ['none of the device is asked for', node('n'), asks({ 'a.b/c': '0' })],
  ['it has the device', node('n', { status: { allocatable: { 'a.b/c': '2' } } }), asks({ 'a.b/c': '1' })],
  ['its agent makes the device', node('n'), asks({ 'devices.kubevirt.io/kvm': '1', cpu: '1' })],
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

const hosts = ['a', 'b'].map((name) => node(name, {}, { 'kubernetes.io/hostname': name }));
const apart = (kind: string, more: object = {}): Partial<Pod['spec']> => ({
  affinity: {
    [kind]: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        {
          labelSelector: { matchLabels: { 'kubevirt.io/created-by': 'uid-vmi' } },
          topologyKey: 'kubernetes.io/hostname',
          ...more,
        },
      ],
    },
  },
});

function launcherOn(nodeName: string, spec: Partial<Pod['spec']> = {}): Pod {
  const base = buildPod(undefined, { labels: { 'kubevirt.io/created-by': 'uid-vmi' } });
  return { ...base, spec: { ...base.spec, nodeName, ...spec } };
}

const unlabelled = ['a', 'b'].map((name) => node(name));
for (const [what, nodes] of Object.entries({ 'a label of the host name': hosts, 'no such label': unlabelled })) {
  test(`a pod with anti-affinity stays away from the node of the other one, also with ${what}`, () => {
    const target = pod(apart('podAntiAffinity'));
    assert.deepEqual(placePod(target, nodes, unused, [launcherOn('a')]), { kind: 'node', name: 'b' });
    const both = placePod(target, nodes, unused, [launcherOn('a'), launcherOn('b')]);
    assert.match(both.kind === 'none' ? both.message : '', /^0\/2 .*2 node\(s\) didn't match pod anti-affinity rules/);
  });
}

test('a pod is kept away by the anti-affinity of the one that is there', () => {
  const newcomer = launcherOn('', { nodeSelector: {} });
  const there = launcherOn('a', apart('podAntiAffinity'));
  assert.deepEqual(placePod(newcomer, hosts, unused, [there]), { kind: 'node', name: 'b' });
});

test('a pod with affinity goes where its like is; the first of its kind goes anywhere, others nowhere', () => {
  const target = launcherOn('', { nodeSelector: {}, ...apart('podAffinity') });
  assert.deepEqual(placePod(target, hosts, unused, [launcherOn('b')]), { kind: 'node', name: 'b' });
  assert.deepEqual(placePod(target, hosts, unused, []), { kind: 'node', name: 'a' });
  const loner = pod(apart('podAffinity'));
  const refusal = placePod(loner, hosts, unused, []);
  assert.match(refusal.kind === 'none' ? refusal.message : '', /2 node\(s\) didn't match pod affinity rules/);
});

test('pods of other namespaces count only where the term names them', () => {
  const elsewhere = launcherOn('a');
  elsewhere.metadata.namespace = 'other';
  const place = (more: object) => placePod(pod(apart('podAntiAffinity', more)), hosts, unused, [elsewhere]);
  assert.deepEqual(place({}), { kind: 'node', name: 'a' });
  assert.deepEqual(place({ namespaces: ['other'] }), { kind: 'node', name: 'b' });
});
