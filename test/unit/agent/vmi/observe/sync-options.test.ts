import assert from 'node:assert/strict';
import { test } from 'node:test';
import { syncOptionsOf } from '../../../../../src/agent/vmi/observe/sync-options.ts';
import type { HostFacts } from '../../../../../src/api/index.ts';
import type { ClusterConfig } from '../../../../../src/cluster-config/index.ts';
import { clusterConfig, vmiOf } from '../../../../fixtures/agent/builders.ts';

function optionsOf(devices: unknown, config: Partial<ClusterConfig> = {}) {
  const vmi = vmiOf('Scheduled', { spec: { domain: { devices } as object } });
  const host: HostFacts = { nodeName: 'node1', selinuxContext: () => 'none' };
  return syncOptionsOf(vmi, { ...clusterConfig, ...config }, host);
}

test('interfaces are attached as their binding says; managedTap goes as tap', () => {
  const networkBindings = {
    managed: { domainAttachmentType: 'managedTap', migrationMethod: 'link-refresh' },
    own: { domainAttachmentType: 'ownWord' },
    none: {},
  };
  const interfaces = [
    { name: 'a', masquerade: {} },
    { name: 'b', bridge: {} },
    { name: 'c', sriov: {} },
    { name: 'd', binding: { name: 'managed' } },
    { name: 'e', binding: { name: 'own' } },
    { name: 'f', binding: { name: 'none' } },
    { name: 'g', binding: { name: 'toString' } },
    { name: 'h', binding: { name: 5 } },
    { name: 'i', binding: 'text' },
  ];
  const options = optionsOf({ interfaces }, { networkBindings });
  assert.deepEqual(options.interfaceDomainAttachment, { a: 'tap', b: 'tap', d: 'tap', e: 'ownWord' });
  assert.deepEqual(options.interfaceMigration, { d: 'link-refresh' });
});

const devices = {
  gpus: [
    { name: 'z', deviceName: 'nvidia.com/GH200' },
    { name: 'other', deviceName: 'nvidia.com/H100' },
  ],
  hostDevices: [{ name: 'a', deviceName: 'nvidia.com/GH200' }, { deviceName: 'nvidia.com/GH200' }, null],
};

test('Grace devices have aliases in order, with their gate only', () => {
  const graceResources = ['nvidia.com/GH200'];
  const clusterFlags = { ...clusterConfig.clusterFlags, graceIoVirtualizationEnabled: true };
  const gated = optionsOf(devices, { graceResources, clusterFlags });
  assert.deepEqual(gated.graceHostDeviceAliases, ['gpu-z', 'hostdevice-a']);
  assert.deepEqual(optionsOf(devices, { graceResources }).graceHostDeviceAliases, []);
  assert.deepEqual(optionsOf({ gpus: 'x' }, { graceResources, clusterFlags }).graceHostDeviceAliases, []);
});
