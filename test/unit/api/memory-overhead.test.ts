import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryOverheadBytes, type VirtualMachineInstance, vfioDevices } from '../../../src/api/index.ts';
import { vmiOf } from '../../fixtures/agent/builders.ts';

const Mi = 2 ** 20;

/** What a VMI costs more than one with nothing in it. */
function more(spec: Partial<VirtualMachineInstance['spec']>): number {
  const of = (vmi: VirtualMachineInstance) => memoryOverheadBytes(vmi, { baseBytes: 0, ratio: 1 }) / Mi;
  const bare = { ...vmiOf(), spec: { domain: {} } };
  return of({ ...bare, spec: { domain: {}, ...spec } }) - of(bare);
}

test('what a guest costs beyond its memory is counted as upstream counts it', () => {
  assert.equal(more({ domain: { cpu: { cores: 2, threads: 2 } } }), 24);
  assert.equal(more({ domain: { resources: { limits: { cpu: '2500m' } } } }), 16);
  assert.equal(more({ domain: { devices: { autoattachGraphicsDevice: false } } }), -32);
  assert.equal(more({ domain: { devices: { interfaces: [{ name: 'net', sriov: {} }] } } }), 1024);
  assert.equal(more({ architecture: 'arm64' }), 128);
  assert.equal(more({ livenessProbe: { exec: {} } }), 110);
  assert.equal(more({ livenessProbe: { exec: {} }, readinessProbe: { exec: {} } }), 120);
  assert.equal(more({ readinessProbe: { httpGet: {} } }), 0);
  assert.equal(more({ domain: { memory: { reservedOverhead: { addedOverhead: '7Mi' } } } }), 7);
});

test('a guest of the QoS class Guaranteed costs as much as one with CPUs of its own', () => {
  const same = { memory: '1Gi', cpu: '1' };
  assert.equal(more({ domain: { resources: { requests: same, limits: { memory: '1024Mi', cpu: 1 } } } }), 100);
  assert.equal(more({ domain: { resources: { requests: same, limits: { memory: '1Gi' } } } }), 0);
  assert.equal(more({ domain: { cpu: { dedicatedCpuPlacement: true } } }), 100);
});

test('devices that access the memory by themselves are those of the machine', () => {
  const devices = { gpus: [{ name: 'a' }], hostDevices: [{ name: 'b' }], interfaces: [{ name: 'c' }] };
  assert.equal(vfioDevices({ ...vmiOf(), spec: { domain: { devices } } }), 2);
});
