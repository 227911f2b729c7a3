import assert from 'node:assert/strict';
import { test } from 'node:test';
import { activeKubeVirt } from '../../../src/controller/config.ts';
import { parseControllerFlags, readClusterConfig } from '../../../src/controller/index.ts';
import { base, buildConfig } from './builders.ts';

test('without a KubeVirt CR everything has its default', () => {
  const config = readClusterConfig(undefined, { ...base, runtimeUser: 107 });
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
});

const wrong: readonly (readonly [Record<string, unknown>, RegExp])[] = [
  [{ imagePullPolicy: 'Sometimes' }, /imagePullPolicy must be one of/],
  [{ developerConfiguration: { memoryOvercommit: 0 } }, /memoryOvercommit must be above 0/],
  [{ developerConfiguration: { cpuAllocationRatio: -1 } }, /cpuAllocationRatio/],
  [{ developerConfiguration: { useEmulation: 'yes' } }, /useEmulation must be true or false/],
  [{ network: { defaultNetworkInterface: 'slirp' } }, /defaultNetworkInterface/],
  [{ developerConfiguration: { nodeSelectors: ['a'] } }, /nodeSelectors/],
];
for (const [configuration, problem] of wrong) {
  test(`the last good configuration stays, for ${JSON.stringify(configuration)}`, () => {
    const last = buildConfig({ cpuModel: 'Skylake' });
    const cr = { apiVersion: 'v1', kind: 'KubeVirt', metadata: { name: 'k' }, spec: { configuration } };
    const config = readClusterConfig(cr, base, last);
    assert.match(config.problem ?? '', problem);
    assert.deepEqual({ ...config, problem: undefined }, { ...last, problem: undefined });
  });
}

test('a configuration that is no object is the default one', () => {
  for (const configuration of [null, 7, 'x', []]) {
    const cr = { apiVersion: 'v1', kind: 'KubeVirt', metadata: { name: 'k' }, spec: { configuration } };
    assert.equal(readClusterConfig(cr as never, base).machineType, 'q35');
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

test('flags have the defaults of upstream, a standalone scheduler makes root launchers', () => {
  const flags = parseControllerFlags([]);
  assert.deepEqual(
    [flags?.launcherImage, flags?.vmiWorkers, flags?.runtimeUser, flags?.lease?.durationMs],
    ['virt-launcher', 10, 107, 15_000],
  );
  assert.equal(parseControllerFlags(['--standalone-scheduler'])?.runtimeUser, 0);
  assert.equal(parseControllerFlags(['--leader-elect=false'])?.lease, undefined);
  assert.equal(parseControllerFlags(['--help']), undefined);
});

for (const argv of [
  ['--no-such-flag'],
  ['--standalone-runtime-user', '5'],
  ['--vmi-controller-threads', '0'],
  ['--leader-elect-resource-lock', 'configmaps'],
  ['--leader-elect-renew-deadline', '20s'],
]) {
  test(`the command line ${argv.join(' ')} is refused`, () => {
    assert.throws(() => parseControllerFlags(argv), { name: /FlagError|ControllerFlagsError/ });
  });
}
