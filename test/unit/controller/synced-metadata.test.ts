import assert from 'node:assert/strict';
import { test } from 'node:test';
import { metadataChanges, withChanges } from '../../../src/controller/synced-metadata.ts';

const keys = { annotations: ['a.io/x', 'b.io/x'], labels: ['team', 'vendor.io/*'] };

test('keys that are taken over come, change and go; all others stay', () => {
  const from = {
    annotations: { 'a.io/x': 'new', 'a.io/y': 'not asked for' },
    labels: { team: 'blue', 'vendor.io/new': '1', 'vendor.io/same': '1' },
  };
  const to = {
    annotations: { 'a.io/x': 'old', 'b.io/x': 'old', own: '1' },
    labels: { 'vendor.io/same': '1', 'kubevirt.io/nodeName': 'node1' },
  };
  const { annotations, labels } = metadataChanges(keys, from, to);
  assert.deepEqual(annotations, { 'a.io/x': 'new', 'b.io/x': null });
  assert.deepEqual(labels, { team: 'blue', 'vendor.io/new': '1' });
  assert.deepEqual(withChanges(to.labels, labels), {
    ...{ 'vendor.io/same': '1', 'kubevirt.io/nodeName': 'node1', team: 'blue', 'vendor.io/new': '1' },
  });
});

test('what others wrote stays, also where a pattern fits it; a key that is named as well goes', () => {
  const patterns = { annotations: ['vendor.io/*', 'vendor.io/mine'], labels: [] };
  const to = { annotations: { 'vendor.io/of-a-plug-in': '1', 'vendor.io/mine': '1', 'vendor.io/new': 'old' } };
  const { annotations } = metadataChanges(patterns, { annotations: { 'vendor.io/new': 'new' } }, to);
  assert.deepEqual(annotations, { 'vendor.io/mine': null, 'vendor.io/new': 'new' });
});

test('keys of KubeVirt and of the pod network are never taken over, nor taken away', () => {
  const reserved = {
    'kubevirt.io': 'virt-launcher',
    'kubevirt.io/created-by': 'a',
    'vmi.kubevirt.io/id': 'b',
    'k8s.v1.cni.cncf.io/networks': 'net1',
  };
  for (const names of [['k*', 'v*'], Object.keys(reserved)]) {
    const patterns = { annotations: names, labels: names };
    const whole = { annotations: reserved, labels: reserved };
    assert.deepEqual(metadataChanges(patterns, whole, {}), { annotations: {}, labels: {} });
    assert.deepEqual(metadataChanges(patterns, {}, whole), { annotations: {}, labels: {} });
  }
  const patterns = { annotations: ['k*'], labels: [] };
  assert.deepEqual(metadataChanges(patterns, { annotations: { kind: 'c' } }, {}).annotations, { kind: 'c' });
});

test('what the descheduler goes by is taken over where nothing is asked for', () => {
  const none = { annotations: [], labels: [] };
  const evict = 'descheduler.alpha.kubernetes.io/evict';
  const from = { annotations: { [evict]: 'true', other: '1' }, labels: { team: 'blue' } };
  assert.deepEqual(metadataChanges(none, from, {}), { annotations: { [evict]: 'true' }, labels: {} });
  assert.deepEqual(metadataChanges(none, undefined, { annotations: { [evict]: 'true' } }).annotations, {
    [evict]: null,
  });
});
