import assert from 'node:assert/strict';
import { test } from 'node:test';
import { activeKubeVirt, controllerConfigReader } from '../../../src/cluster-config/index.ts';
import { readControllerConfig } from '../../fixtures/cluster-config.ts';
import { base, buildConfig } from '../controller/builders.ts';

test('without a KubeVirt CR everything has its default', () => {
  const config = readControllerConfig(undefined, { ...base, runtimeUser: 107 });
  assert.deepEqual(
    [config.useEmulation, config.machineType, config.imagePullPolicy, config.cpuAllocationRatio, config.runtimeUser],
    [false, 'q35', 'IfNotPresent', 10, 107],
  );
});

test('the CR overrides defaults, per architecture first', () => {
  const config = buildConfig({
    machineType: 'global',
    architectureConfiguration: { amd64: { machineType: 'pc-q35-7.2' } },
    developerConfiguration: { useEmulation: true, featureGates: ['Root'], nodeSelectors: { zone: 'a' } },
    network: { defaultNetworkInterface: 'masquerade' },
  });
  assert.equal(config.machineType, 'pc-q35-7.2');
  assert.equal(config.useEmulation, true);
  assert.equal(config.runtimeUser, 0);
  assert.deepEqual(config.nodeSelectors, { zone: 'a' });
  assert.equal(config.defaultInterfaceBinding, 'masquerade');
  assert.equal(config.minimumTscFrequency, undefined);
  const tsc = { minimumClusterTSCFrequency: 2_000_000_000 };
  assert.equal(buildConfig({ developerConfiguration: tsc }).minimumTscFrequency, 2_000_000_000);
});

test('fields that ask for something about VMs which nothing does yet are known by name', () => {
  const changedBlockTrackingLabelSelectors = { virtualMachineLabelSelector: {}, namespaceLabelSelector: {} };
  const { unused, changeTracking } = buildConfig({ changedBlockTrackingLabelSelectors, machineType: 'q35' });
  assert.deepEqual(unused, ['changedBlockTrackingLabelSelectors.namespaceLabelSelector']);
  assert.deepEqual([changeTracking.isEnabled, changeTracking.vms !== undefined], [false, true]);
  const gates = { developerConfiguration: { featureGates: ['IncrementalBackup'] } };
  assert.deepEqual(buildConfig(gates).changeTracking, { isEnabled: true, vms: undefined });
  assert.deepEqual(buildConfig({ changedBlockTrackingLabelSelectors: null }).unused, []);
});

const wrong: readonly (readonly [Record<string, unknown>, RegExp])[] = [
  [{ imagePullPolicy: 'Sometimes' }, /imagePullPolicy must be one of/],
  [{ developerConfiguration: { memoryOvercommit: 0 } }, /memoryOvercommit must be above 0/],
  [{ developerConfiguration: { cpuAllocationRatio: -1 } }, /cpuAllocationRatio/],
  [{ developerConfiguration: { cpuAllocationRatio: 0 } }, /cpuAllocationRatio must be above 0/],
  [{ developerConfiguration: { cpuAllocationRatio: 1e-320 } }, /cpuAllocationRatio must be above 0, and whole/],
  [{ liveUpdateConfiguration: { maxHotplugRatio: 1.5 } }, /maxHotplugRatio must be above 0, and whole/],
  [{ liveUpdateConfiguration: { maxCpuSockets: -1 } }, /maxCpuSockets must be a whole number/],
  [{ liveUpdateConfiguration: { maxGuest: 'all' } }, /maxGuest must be a quantity above 0/],
  [{ developerConfiguration: { useEmulation: 'yes' } }, /useEmulation must be true or false/],
  [{ developerConfiguration: { minimumClusterTSCFrequency: 0 } }, /minimumClusterTSCFrequency must be above 0/],
  [{ network: { defaultNetworkInterface: 'slirp' } }, /defaultNetworkInterface/],
  [{ developerConfiguration: { nodeSelectors: ['a'] } }, /nodeSelectors/],
];
for (const [configuration, problem] of wrong) {
  test(`it cannot be used, and the field is named with what it must be, for ${JSON.stringify(configuration)}`, () => {
    const cr = { apiVersion: 'v1', kind: 'KubeVirt', metadata: { name: 'k' }, spec: { configuration } };
    const reading = controllerConfigReader(base).read(cr);
    assert.equal(reading.kind, 'unusable');
    assert.match('problem' in reading ? reading.problem : '', problem);
  });
}

test('a configuration that is no object is the default one', () => {
  for (const configuration of [null, 7, 'x', []]) {
    const cr = { apiVersion: 'v1', kind: 'KubeVirt', metadata: { name: 'k' }, spec: { configuration } };
    assert.equal(readControllerConfig(cr as never, base).machineType, 'q35');
  }
});

test('a CR counts only with a phase and while it is not being deleted', () => {
  const cr = (name: string, phase?: string, deletionTimestamp?: string) => ({
    apiVersion: 'v1',
    kind: 'KubeVirt',
    metadata: { name, ...(deletionTimestamp ? { deletionTimestamp } : {}) },
    ...(phase ? { status: { phase } } : {}),
  });
  assert.equal(activeKubeVirt([cr('a')]), undefined);
  assert.equal(activeKubeVirt([cr('a', 'Deployed'), cr('b', 'Deployed', 'x')])?.metadata.name, 'a');
});
