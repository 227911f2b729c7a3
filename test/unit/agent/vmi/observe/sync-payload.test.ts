import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncPayloadCache } from '../../../../../src/agent/vmi/observe/index.ts';
import type { HostFacts, Interface, VmiInterfaceStatus } from '../../../../../src/api/index.ts';
import { clusterConfig, vmiOf } from '../../../../fixtures/agent/builders.ts';

const host: HostFacts = { nodeName: 'node1', selinuxContext: () => 'none' };
const blue: Interface = { name: 'blue', bridge: {} };

function fingerprintOf(iface: Interface, status: VmiInterfaceStatus[]): string {
  const vmi = vmiOf('Running', {
    spec: { domain: { devices: { interfaces: [iface] } } },
    status: { interfaces: status },
  });
  return new SyncPayloadCache().of(vmi, clusterConfig, host).fingerprint;
}

test('a link that Multus gave the pod is worth a call, also when it is reported after the specification asked for it', () => {
  const [asked, given] = [
    fingerprintOf(blue, []),
    fingerprintOf(blue, [{ name: 'blue', infoSource: 'multus-status' }]),
  ];
  assert.notEqual(given, asked);
  assert.equal(fingerprintOf(blue, [{ name: 'other', infoSource: 'multus-status' }]), asked);
});

test('what this agent reports of a wanted interface is not', () => {
  const multus = fingerprintOf(blue, [{ name: 'blue', infoSource: 'multus-status' }]);
  const all = { name: 'blue', infoSource: 'domain, guest-agent, multus-status', ipAddress: '10.0.0.1', mac: '02::1' };
  assert.equal(fingerprintOf(blue, [all]), multus);
  assert.equal(fingerprintOf(blue, [{ name: 'blue', infoSource: 'domain' }]), fingerprintOf(blue, []));
});

test('an absent one that the domain has let go of is: its links in the pod are taken away then', () => {
  const absent: Interface = { ...blue, state: 'absent' };
  const before = fingerprintOf(absent, [{ name: 'blue', infoSource: 'domain, multus-status' }]);
  const after = fingerprintOf(absent, [{ name: 'blue', infoSource: 'multus-status' }]);
  assert.notEqual(after, before);
  assert.equal(fingerprintOf(absent, []), after);
});

test('a note of this agent on the VMI is nothing that its launcher is told of; one of anybody else may be', () => {
  const noted = (annotations: Record<string, string>) =>
    new SyncPayloadCache().of({ ...vmiOf(), metadata: { ...vmiOf().metadata, annotations } }, clusterConfig, host)
      .fingerprint;
  const before = noted({});
  assert.equal(noted({ 'virt-handler.kubevirt.io/migration-refused': 'm1' }), before);
  assert.equal(noted({ 'virt-handler.kubevirt.io/migration-progress': '{}' }), before);
  assert.notEqual(noted({ 'hooks.kubevirt.io/hookSidecars': '[]' }), before);
});

test('a claim that has grown is worth a call: the guest is told', () => {
  const sized = (storage: string, size = 0) => {
    const persistentVolumeClaimInfo = { capacity: { storage }, requests: { storage: '2Gi' } };
    const volumeStatus = [{ name: 'data', target: 'vda', size, persistentVolumeClaimInfo }];
    return new SyncPayloadCache().of(vmiOf('Running', { status: { volumeStatus } }), clusterConfig, host).fingerprint;
  };
  assert.notEqual(sized('2Gi'), sized('1Gi'));
  assert.equal(sized('1Gi', 512), sized('1Gi'), 'what the agent reports of it is not');
});
