import assert from 'node:assert/strict';
import { test } from 'node:test';
import { migrationOptionsOf } from '../../../../../src/agent/vmi/decide/index.ts';
import {
  defaultMigrationSettings,
  type MigrationSettings,
  readMigrationSettings,
} from '../../../../../src/cluster-config/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';

const cluster = { settings: defaultMigrationSettings, stallDetection: false, disableTls: false };

function vmiWith(migrationConfiguration: unknown, domain: object = {}) {
  return vmiOf('Running', {
    spec: { domain },
    status: { migrationState: { migrationUid: 'm1', migrationConfiguration } },
  });
}

const optionsOf = (configuration: unknown, settings: Partial<MigrationSettings> = {}) =>
  migrationOptionsOf(vmiWith(configuration), { ...cluster, settings: { ...defaultMigrationSettings, ...settings } });

test('a VMI without settings gets the defaults of upstream', () => {
  assert.deepEqual(optionsOf(undefined), {
    Bandwidth: '0',
    ProgressTimeout: 150,
    CompletionTimeoutPerGiB: 150,
    MaxDowntimeMs: 900,
    UnsafeMigration: false,
    AllowAutoConverge: false,
    AllowPostCopy: false,
    ParallelMigrationThreads: 8,
    AllowWorkloadDisruption: false,
    StallDetectorOptions: null,
    Compression: null,
  });
});

test('what the VMI says goes before what the cluster says, field by field', () => {
  const options = optionsOf(
    { bandwidthPerMigration: '64Mi', maxDowntimeMs: 300, allowAutoConverge: true },
    { bandwidth: '1Gi', progressTimeoutSeconds: 7, maxDowntimeMs: 1 },
  );
  assert.deepEqual(
    [options.Bandwidth, options.MaxDowntimeMs, options.AllowAutoConverge, options.ProgressTimeout],
    ['64Mi', 300, true, 7],
  );
});

for (const [given, disruption] of [
  [{ allowPostCopy: true }, true],
  [{ allowPostCopy: true, allowWorkloadDisruption: false }, false],
  [{ allowPostCopy: false, allowWorkloadDisruption: true }, true],
  [{}, false],
  [{ allowWorkloadDisruption: null, allowPostCopy: true }, true],
] as const) {
  test(`workload disruption follows post-copy unless it is named: ${JSON.stringify(given)}`, () => {
    assert.equal(optionsOf(given).AllowWorkloadDisruption, disruption);
  });
}

test('a VMI that names neither post-copy nor disruption has the cluster’s', () => {
  const settings = readMigrationSettings({ allowPostCopy: true }, defaultMigrationSettings);
  const options = optionsOf({ maxDowntimeMs: 5 }, settings);
  assert.deepEqual([options.AllowPostCopy, options.AllowWorkloadDisruption], [true, true]);
});

test('a value that cannot be used counts as not given', () => {
  const odd = {
    bandwidthPerMigration: 'fast',
    progressTimeout: -1,
    completionTimeoutPerGiB: '150',
    maxDowntimeMs: 1.5,
    allowPostCopy: 'true',
    unsafeMigrationOverride: 1,
    experimental: { compression: 'gzip', stallDetector: [] },
  };
  assert.deepEqual(optionsOf(odd), optionsOf(undefined));
  for (const configuration of ['text', 5, [], { experimental: 'none' }]) {
    assert.deepEqual(optionsOf(configuration), optionsOf(undefined));
  }
  assert.equal(optionsOf({ bandwidthPerMigration: '-1Mi' }).Bandwidth, '0');
  assert.equal(optionsOf({ bandwidthPerMigration: '0Mi' }).Bandwidth, '0');
  assert.equal(optionsOf({ bandwidthPerMigration: 1_000_000 }).Bandwidth, '1000000');
});

for (const [what, domain, threads] of [
  ['no CPU limit', { resources: { limits: { memory: '1Gi' } } }, 8],
  ['a CPU limit of 0', { resources: { limits: { cpu: '0' } } }, 8],
  ['a CPU limit', { resources: { limits: { cpu: '100m' } } }, null],
  ['a CPU limit as a number', { resources: { limits: { cpu: 2 } } }, null],
  ['a CPU limit that is none', { resources: { limits: { cpu: 'many' } } }, 8],
  ['CPUs of its own', { cpu: { dedicatedCpuPlacement: true } }, null],
] as const) {
  test(`a guest with ${what} is copied by ${threads ?? 'no'} extra threads`, () => {
    assert.equal(migrationOptionsOf(vmiWith(undefined, domain), cluster).ParallelMigrationThreads, threads);
  });
}

test('the stall detector is told of with its gate only, fractions as numbers of three places', () => {
  const detector = { stallMargin: 7, ewmaAlpha: '0.33333', precopyPossibleFactor: '1500m', searchLocalMinima: false };
  const configuration = { experimental: { compression: 'zstd', stallDetector: detector } };
  assert.equal(optionsOf(configuration).StallDetectorOptions, null);
  const options = migrationOptionsOf(vmiWith(configuration), { ...cluster, stallDetection: true });
  assert.equal(options.Compression, 'zstd');
  assert.equal(
    JSON.stringify(options.StallDetectorOptions),
    '{"StallMargin":0.07,"StallProgressTimeout":40,"SwitchoverTimeout":60,"EwmaAlpha":0.333,"PrecopyPossibleFactor":1.5,' +
      '"PatienceWindowDecayFactor":0.5,"SearchLocalMinima":false,"CompletionTimeoutFactor":2}',
  );
});

test('factors outside of what they can mean are the defaults', () => {
  const stallDetector = { ewmaAlpha: '0', precopyPossibleFactor: '0.5', patienceWindowDecayFactor: '1.5' };
  const vmi = vmiWith({ experimental: { stallDetector } });
  const { StallDetectorOptions: options } = migrationOptionsOf(vmi, { ...cluster, stallDetection: true });
  assert.deepEqual(
    [options?.EwmaAlpha, options?.PrecopyPossibleFactor, options?.PatienceWindowDecayFactor],
    [0.4, 1.5, 0.5],
  );
});
