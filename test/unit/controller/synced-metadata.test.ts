import assert from 'node:assert/strict';
import { test } from 'node:test';
import { metadataChanges, withChanges } from '../../../src/controller/synced-metadata.ts';

const keys = { annotations: ['a.io/x'], labels: ['team', 'vendor.io/*'] };

test('keys that are taken over come, change and go; all others stay', () => {
  const from = {
    annotations: { 'a.io/x': 'new', 'a.io/y': 'not asked for' },
    labels: { team: 'blue', 'vendor.io/new': '1', 'vendor.io/same': '1' },
  };
  const to = {
    annotations: { 'a.io/x': 'old', own: '1' },
    labels: { 'vendor.io/same': '1', 'vendor.io/old': '1', 'kubevirt.io/nodeName': 'node1' },
  };
  const { annotations, labels } = metadataChanges(keys, from, to);
  assert.deepEqual(annotations, { 'a.io/x': 'new' });
  assert.deepEqual(labels, { team: 'blue', 'vendor.io/new': '1', 'vendor.io/old': null });
  assert.deepEqual(withChanges(to.labels, labels), {
    ...{ 'vendor.io/same': '1', 'kubevirt.io/nodeName': 'node1', team: 'blue', 'vendor.io/new': '1' },
  });
});

test('KubeVirt’s own keys are never taken over', () => {
  const to = {
    labels: { 'kubevirt.io': 'virt-launcher', 'kubevirt.io/created-by': 'a', 'vmi.kubevirt.io/id': 'b', kind: 'c' },
  };
  assert.deepEqual(metadataChanges({ annotations: [], labels: ['k*', 'v*'] }, {}, to).labels, { kind: null });
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
