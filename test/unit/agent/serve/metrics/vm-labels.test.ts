import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOfNode, labelLimits, vmLabels } from '../../../../../src/agent/serve/metrics/vm-labels.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';

const withLabels = (labels: object) => vmiOf('Running', { metadata: { labels: labels as Record<string, string> } });

test('a series carries node, namespace, name and the labels of the VMI', () => {
  const text = vmLabels(withLabels({ 'kubevirt.io/domain': 'web-1', app: 'shop' }));
  assert.equal(
    text,
    'node="node1",namespace="default",name="vm1",kubernetes_vmi_label_app="shop",kubernetes_vmi_label_kubevirt_io_domain="web-1"',
  );
});

test('labels without a value are left out, as is a node that is not known', () => {
  const vmi = vmiOf('Running', { metadata: { labels: { app: '' } }, status: { nodeName: '' } });
  assert.equal(vmLabels(vmi), 'namespace="default",name="vm1"');
});

test('of two keys that become one name the first in the order of the alphabet counts', () => {
  const text = vmLabels(withLabels({ 'a/b': 'slash', 'a.b': 'dot', 'a-b': 'dash' }));
  assert.equal(text, 'node="node1",namespace="default",name="vm1",kubernetes_vmi_label_a_b="dash"');
});

test('whatever a key is made of, the name of the metric label is one that Prometheus takes', () => {
  const text = vmLabels(withLabels({ 'ä b\n"x': 'y\\"z\n' }));
  assert.match(text, /,kubernetes_vmi_label_[a-zA-Z0-9_]+="y\\\\\\"z\\n"$/);
});

test('too many, too long and malformed labels are left out or cut', () => {
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`key-${at}`, 'v'.repeat(20)]));
  const text = vmLabels(withLabels({ ...many, ['x'.repeat(400)]: 'long', number: 7, list: [] }));
  const found = text.match(/kubernetes_vmi_label_[^=]+="[^"]*"/g) ?? [];
  assert.equal(found.length, labelLimits.count);
  const [long = ''] = vmLabels(withLabels({ app: 'v'.repeat(1_000) })).match(/app="[^"]*"/) ?? [];
  assert.equal(long.length, 'app=""'.length + labelLimits.valueLength);
  const names = vmLabels(withLabels([] as object));
  assert.equal(names, 'node="node1",namespace="default",name="vm1"');
});

test('a VMI that is only on its way to this node is not of it', () => {
  assert.equal(isOfNode(vmiOf('Running'), 'node1'), true);
  const coming = withLabels({ 'kubevirt.io/nodeName': 'node2', 'kubevirt.io/migrationTargetNodeName': 'node1' });
  assert.equal(isOfNode(coming, 'node1'), false);
});

test('a VMI with kilobytes of labels has some of them: each of its series repeats them all', () => {
  const many = Object.fromEntries(
    Array.from({ length: 60 }, (_, at) => [`example.com/${'k'.repeat(50)}-${at}`, 'v'.repeat(63)]),
  );
  const text = vmLabels(withLabels(many));
  assert.ok(text.length < 5_000, `${text.length}`);
  assert.ok((text.match(/kubernetes_vmi_label_/g) ?? []).length > 20);
});
