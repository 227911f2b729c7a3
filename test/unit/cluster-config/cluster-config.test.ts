import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { agentConfigReader, type KubeVirt, KubeVirtSettings } from '../../../src/cluster-config/index.ts';
import { readAgentConfig } from '../../fixtures/cluster-config.ts';
import { KubeVirtObjects } from '../../fixtures/kubevirt-objects.ts';

/** The KubeVirt objects of a cluster, and the settings that follow them. */
class Cluster extends KubeVirtObjects {
  readonly settings = new KubeVirtSettings({
    reader: agentConfigReader('node1'),
    kubevirts: this,
    clock: systemClock,
    log: silentLogger,
  });
}

function kubevirt(configuration: unknown, phase = 'Deployed'): KubeVirt {
  const metadata = { name: 'kubevirt', namespace: 'kubevirt' };
  return { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata, spec: { configuration }, status: { phase } };
}

const node = (configuration: unknown) => readAgentConfig(kubevirt(configuration), 'node1').node;
const developer = (fields: object) => ({ developerConfiguration: fields });

test('without a KubeVirt object the defaults of upstream count', () => {
  const config = readAgentConfig();
  assert.deepEqual(config.smbios, { family: 'KubeVirt', manufacturer: 'KubeVirt', product: 'None' });
  assert.equal(config.memBalloonStatsPeriodSeconds, 10);
  assert.equal(config.imageVolume, true);
  assert.equal(config.useEmulation, false);
  assert.equal(config.clusterFlags.bochsDisplayForEfiGuests, true);
  const { gates, ...rest } = config.node;
  assert.deepEqual(rest, {
    logVerbosity: undefined,
    rateLimit: { qps: 50, burst: 100 },
    obsoleteCpuModels: undefined,
    permittedHostDevices: undefined,
    mediatedDevicesConfiguration: undefined,
    persistentReservation: false,
    tdxAttestation: { enforced: false, qgsSocketPath: '/var/run/tdx-qgs/qgs.socket' },
    hypervisor: 'kvm',
    ksmNodes: undefined,
    clusterProfiler: false,
    tlsConfiguration: undefined,
  });
  const on = Object.entries(gates).filter(([, isOn]) => isOn);
  const names = on.map(([name]) => name).sort();
  assert.deepEqual(names, [
    'DeclarativeHotplugVolumes',
    'GPUsWithDRA',
    'HostDevicesWithDRA',
    'ImageVolume',
    'KubevirtSeccompProfile',
    'LibvirtHooksServerAndClient',
    'PasstBinding',
    'PodSecondaryInterfaceNamingUpgrade',
    'WorkloadEncryptionSEV',
  ]);
});

test('a gate is on when listed, off when disabled, and else as its state says; listed in both it is on', () => {
  const gates = (fields: object) => node(developer(fields)).gates;
  assert.equal(gates({ featureGates: ['CPUManager'] }).CPUManager, true);
  assert.equal(gates({ disabledFeatureGates: ['CPUManager'] }).CPUManager, false);
  assert.equal(gates({ disabledFeatureGates: ['ImageVolume'] }).ImageVolume, false);
  const both = gates({ featureGates: ['ImageVolume', 'VSOCK'], disabledFeatureGates: ['ImageVolume', 'VSOCK'] });
  assert.deepEqual([both.ImageVolume, both.VSOCK], [true, true]);
  assert.equal(gates({ featureGates: [7, null, 'cpumanager'] }).CPUManager, false, 'case counts');
});

test('this node’s log verbosity wins over that of all agents; 0 for it is not given', () => {
  const verbosity = (logVerbosity: object) => node(developer({ logVerbosity })).logVerbosity;
  assert.equal(verbosity({ virtHandler: 3 }), 3);
  assert.equal(verbosity({ virtHandler: 3, nodeVerbosity: { node1: 7, node2: 9 } }), 7);
  assert.equal(verbosity({ virtHandler: 3, nodeVerbosity: { node1: 0 } }), 3);
  assert.equal(verbosity({ nodeVerbosity: { node2: 9 } }), undefined);
});

test('every field that the node’s duties read is read', () => {
  const given = node({
    handlerConfiguration: { restClient: { rateLimiter: { tokenBucketRateLimiter: { qps: 7.5, burst: 11 } } } },
    obsoleteCPUModels: { pentium: true, '486': false },
    permittedHostDevices: { usb: [] },
    mediatedDevicesConfiguration: { enabled: false },
    persistentReservationConfiguration: { enabled: true },
    confidentialCompute: { tdx: { attestation: { enforced: true, qgsSocketPath: '/run/q.sock' } } },
    hypervisors: [{ name: 'hyperv-direct' }],
    ksmConfiguration: { nodeLabelSelector: { matchLabels: { a: 'b' } } },
    tlsConfiguration: { minTLSVersion: 'VersionTLS13' },
    ...developer({ featureGates: ['ConfigurableHypervisor'], clusterProfiler: true }),
  });
  const { gates: _gates, logVerbosity: _verbosity, ...rest } = given;
  assert.deepEqual(rest, {
    rateLimit: { qps: 7.5, burst: 11 },
    obsoleteCpuModels: ['486', 'pentium'],
    permittedHostDevices: { usb: [] },
    mediatedDevicesConfiguration: { enabled: false },
    persistentReservation: true,
    tdxAttestation: { enforced: true, qgsSocketPath: '/run/q.sock' },
    hypervisor: 'hyperv-direct',
    ksmNodes: { matchLabels: { a: 'b' } },
    clusterProfiler: true,
    tlsConfiguration: { minTLSVersion: 'VersionTLS13' },
  });
  assert.equal(node({ hypervisors: [{ name: 'hyperv-direct' }] }).hypervisor, 'kvm', 'without its gate');
  assert.equal(node(developer({ featureGates: ['PersistentReservation'] })).persistentReservation, true);
});

test('a KubeVirt object without a phase, or being deleted, is ignored', async () => {
  const { settings, set } = bound(new Cluster());
  settings.begin();
  set(kubevirt({ memBalloonStatsPeriod: 3 }, ''));
  const dying = kubevirt({ memBalloonStatsPeriod: 3 });
  set({ ...dying, metadata: { ...dying.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } });
  assert.equal(settings.current.memBalloonStatsPeriodSeconds, 10);
  assert.equal(settings.isKnown, true);
  await settings.stop();
});

test('an object that vanishes keeps the last good configuration, and so does one made again without a phase', async () => {
  const { settings, set } = bound(new Cluster());
  assert.equal(settings.isKnown, false);
  settings.begin();
  set(kubevirt({ memBalloonStatsPeriod: 3 }));
  set();
  assert.equal(settings.current.memBalloonStatsPeriodSeconds, 3);
  set(kubevirt({ memBalloonStatsPeriod: 5 }, ''));
  assert.equal(settings.current.memBalloonStatsPeriodSeconds, 3);
  set(kubevirt({ memBalloonStatsPeriod: 5 }));
  assert.equal(settings.current.memBalloonStatsPeriodSeconds, 5);
  await settings.stop();
});

const unusable: readonly (readonly [name: string, configuration: unknown])[] = [
  ['configuration', 7],
  ['configuration', []],
  ['smbios', { smbios: { family: 7 } }],
  ['virtualMachineOptions', { virtualMachineOptions: 'x' }],
  ['memBalloonStatsPeriod', { memBalloonStatsPeriod: 'often' }],
  ['memBalloonStatsPeriod', { memBalloonStatsPeriod: -1 }],
  ['imagePullPolicy', { imagePullPolicy: 'Sometimes' }],
  ['network.defaultNetworkInterface', { network: { defaultNetworkInterface: 'carrier-pigeon' } }],
  ['developerConfiguration', { developerConfiguration: ['x'] }],
  ['developerConfiguration.featureGates', developer({ featureGates: 'VSOCK' })],
  ['developerConfiguration.disabledFeatureGates', developer({ disabledFeatureGates: {} })],
  ['developerConfiguration.memoryOvercommit', developer({ memoryOvercommit: 0 })],
  ['developerConfiguration.cpuAllocationRatio', developer({ cpuAllocationRatio: -10 })],
  ['developerConfiguration.minimumReservePVCBytes', developer({ minimumReservePVCBytes: 'all' })],
  ['developerConfiguration.pvcTolerateLessSpaceUpToPercent', developer({ pvcTolerateLessSpaceUpToPercent: 101 })],
  ['developerConfiguration.logVerbosity.virtHandler', developer({ logVerbosity: { virtHandler: 'loud' } })],
  ['developerConfiguration.logVerbosity.nodeVerbosity', developer({ logVerbosity: { nodeVerbosity: { n: -1 } } })],
  [
    'handlerConfiguration.restClient.rateLimiter.tokenBucketRateLimiter.qps',
    { handlerConfiguration: { restClient: { rateLimiter: { tokenBucketRateLimiter: { qps: -5 } } } } },
  ],
  [
    'handlerConfiguration.restClient.rateLimiter.tokenBucketRateLimiter.burst',
    { handlerConfiguration: { restClient: { rateLimiter: { tokenBucketRateLimiter: { burst: 1.5 } } } } },
  ],
  ['obsoleteCPUModels', { obsoleteCPUModels: ['pentium'] }],
  ['ksmConfiguration.nodeLabelSelector', { ksmConfiguration: { nodeLabelSelector: { matchLabels: { a: 1 } } } }],
  [
    'ksmConfiguration.nodeLabelSelector',
    { ksmConfiguration: { nodeLabelSelector: { matchExpressions: [{ key: 'a', operator: 'Near', values: ['b'] }] } } },
  ],
  ['migrations.disableTLS', { migrations: { disableTLS: 'yes' } }],
];

test('a value that cannot be used keeps the whole last good configuration, and the field is named', async () => {
  for (const [field, configuration] of unusable) {
    const { settings, set } = bound(new Cluster());
    settings.begin();
    set(kubevirt({ memBalloonStatsPeriod: 3 }));
    const sound = typeof configuration === 'object' && !Array.isArray(configuration) ? configuration : undefined;
    const broken = sound ? { ...developer({ useEmulation: true }), memBalloonStatsPeriod: 4, ...sound } : configuration;
    set(kubevirt(broken));
    assert.equal(settings.current.memBalloonStatsPeriodSeconds, 3, field);
    assert.equal(settings.current.useEmulation, false, field);
    assert.ok(settings.problem?.includes(field), `${settings.problem} should name ${field}`);
    set(kubevirt(developer({ useEmulation: true, disabledFeatureGates: ['ImageVolume'] })));
    assert.deepEqual([settings.current.useEmulation, settings.current.imageVolume], [true, false]);
    assert.equal(settings.problem, undefined);
    await settings.stop();
  }
});

test('null counts as not given, everywhere', () => {
  const nothing = { smbios: null, developerConfiguration: null, migrations: null, virtualMachineOptions: null };
  assert.deepEqual(readAgentConfig(kubevirt(nothing)), readAgentConfig());
  assert.deepEqual(readAgentConfig(kubevirt(null)), readAgentConfig());
  assert.deepEqual(readAgentConfig({ ...kubevirt({}), spec: null } as unknown as KubeVirt), readAgentConfig());
});

test('who selects a part hears of it at once, then only when that part is another one by value', async () => {
  const { settings, set } = bound(new Cluster());
  settings.begin();
  const heard: unknown[] = [];
  const end = settings.select(
    ({ node: { obsoleteCpuModels } }) => obsoleteCpuModels,
    (models) => heard.push(models),
  );
  set(kubevirt({ memBalloonStatsPeriod: 5 }));
  set(kubevirt({ obsoleteCPUModels: { b: true, a: true } }));
  set(kubevirt({ obsoleteCPUModels: { a: false, b: true }, memBalloonStatsPeriod: 7 }));
  set(kubevirt({ obsoleteCPUModels: {} }));
  end();
  set(kubevirt({ obsoleteCPUModels: { c: true } }));
  assert.deepEqual(heard, [undefined, ['a', 'b'], []]);
  await settings.stop();
});

test('a listener that throws keeps nobody else from hearing of a change', async () => {
  const { settings, set } = bound(new Cluster());
  settings.begin();
  const heard: boolean[] = [];
  let isFirst = true;
  settings.select(
    (config) => config.useEmulation,
    () => {
      if (!isFirst) throw new Error('cannot live with it');
      isFirst = false;
    },
  );
  settings.select(
    (config) => config.useEmulation,
    (value) => heard.push(value),
  );
  set(kubevirt(developer({ useEmulation: true })));
  assert.deepEqual(heard, [false, true]);
  await settings.stop();
});

function bound(cluster: Cluster) {
  return { settings: cluster.settings, set: (...objects: KubeVirt[]) => cluster.set(...objects) };
}
