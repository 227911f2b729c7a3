import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { agentConfigReader, type KubeVirt, KubeVirtSettings } from '../../../src/cluster-config/index.ts';
import { readAgentConfig } from '../../fixtures/cluster-config.ts';

function kubevirt(configuration: unknown): KubeVirt {
  const object = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt' } };
  return { ...object, spec: { configuration }, status: { phase: 'Deployed' } } as KubeVirt;
}

test('the cluster’s migration settings, encryption and gate are read', () => {
  const { migrations } = readAgentConfig(
    kubevirt({
      developerConfiguration: { featureGates: ['MigrationStallDetection'] },
      migrations: {
        bandwidthPerMigration: '64Mi',
        allowPostCopy: true,
        disableTLS: true,
        parallelMigrationsPerCluster: 9,
      },
    }),
  );
  assert.equal(migrations.settings.bandwidth, '64Mi');
  assert.equal(migrations.settings.allowWorkloadDisruption, true);
  assert.deepEqual([migrations.stallDetection, migrations.disableTls], [true, true]);
});

test('network bindings say how they attach and what they want after a migration', () => {
  const { networkBindings } = readAgentConfig(
    kubevirt({
      network: {
        binding: {
          passt: {
            domainAttachmentType: 'managedTap',
            migration: { method: 'link-refresh' },
            sidecarImage: 'x',
            more: 'y',
          },
          plain: {},
          odd: 'text',
          empty: { domainAttachmentType: '', migration: {} },
        },
      },
    }),
  );
  assert.deepEqual(networkBindings, {
    passt: { domainAttachmentType: 'managedTap', migrationMethod: 'link-refresh', sidecarImage: 'x' },
    plain: {},
    odd: {},
    empty: {},
  });
});

test('of the permitted PCI devices the Grace GPUs are known, with and without 0x', () => {
  const { graceResources } = readAgentConfig(
    kubevirt({
      permittedHostDevices: {
        pciHostDevices: [
          { pciVendorSelector: '10DE:2342', resourceName: 'nvidia.com/GH200' },
          { pciVendorSelector: '0x10de:0x2941', resourceName: 'nvidia.com/GB200' },
          { pciVendorSelector: '10de:2330', resourceName: 'nvidia.com/H100' },
          { pciVendorSelector: '10de:*', resourceName: 'nvidia.com/any' },
          { pciVendorSelector: '10de:2342' },
          'text',
          null,
        ],
      },
    }),
  );
  assert.deepEqual(graceResources, ['nvidia.com/GH200', 'nvidia.com/GB200']);
});

type Handlers = { added(): void };

const malformed: readonly (readonly [what: string, configuration: unknown])[] = [
  ['a configuration that is a list', []],
  ['gates that are a number', { developerConfiguration: { featureGates: 5 } }],
  ['switched-off gates that are a text', { developerConfiguration: { disabledFeatureGates: 'ImageVolume' } }],
  ['developer settings that are a text', { developerConfiguration: 'x' }],
  ['options of machines that are a number', { virtualMachineOptions: 1 }],
  ['an SMBIOS of numbers', { smbios: { family: 7 } }],
  ['a balloon period no wire can carry', { memBalloonStatsPeriod: 5_000_000_000 }],
  ['a bandwidth that is no quantity', { migrations: { bandwidthPerMigration: 'fast' } }],
  ['a negative timeout', { migrations: { progressTimeout: -1 } }],
  ['an encryption switch that is a text', { migrations: { disableTLS: 'no' } }],
  ['an unknown compression', { migrations: { experimental: { compression: 'gzip' } } }],
];

for (const [what, configuration] of malformed) {
  test(`${what} keeps the last good configuration, at start the defaults`, () => {
    assert.equal(agentConfigReader('node1').read(kubevirt(configuration)).kind, 'unusable');
    const objects = [kubevirt(configuration)];
    const kubevirts = { hasSynced: true, list: () => objects, addHandlers: ({ added }: Handlers) => follow(added) };
    let changed = () => {};
    const follow = (added: () => void) => {
      changed = added;
      return () => undefined;
    };
    const reader = agentConfigReader('node1');
    const settings = new KubeVirtSettings({ reader, kubevirts, clock: systemClock, log: silentLogger });
    settings.begin();
    assert.deepEqual(settings.current, reader.defaults);
    objects[0] = kubevirt({ memBalloonStatsPeriod: 3, migrations: { maxDowntimeMs: 77 } });
    changed();
    const last = settings.current;
    assert.equal(last.migrations.settings.maxDowntimeMs, 77);
    objects[0] = kubevirt(configuration);
    changed();
    assert.equal(settings.current, last);
  });
}
