import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseControllerFlags } from '../../../src/controller/index.ts';

test('flags have the defaults of upstream, a standalone scheduler makes root launchers', () => {
  const flags = parseControllerFlags([]);
  assert.deepEqual(
    [flags?.launcherImage, flags?.vmiWorkers, flags?.runtimeUser, flags?.lease?.durationMs],
    ['virt-launcher', 10, 107, 15_000],
  );
  assert.equal(parseControllerFlags(['--standalone-scheduler'])?.runtimeUser, 0);
  assert.equal(parseControllerFlags(['--leader-elect=false'])?.lease, undefined);
  assert.equal(flags?.migrationRetries, 1);
  assert.equal(parseControllerFlags(['--migration-retries=0'])?.migrationRetries, 0);
  assert.equal(parseControllerFlags(['--help']), undefined);
});

test('flags of launcher pods are carried on', () => {
  const argv = ['--image-pull-secret=pull', '--launcher-qemu-timeout=600', '--launcher-subgid=108'];
  const keys = ['--additional-launcher-annotations-sync=a.io/x, vendor.io/*', '--additional-launcher-labels-sync=team'];
  const flags = parseControllerFlags([...argv, ...keys]);
  assert.deepEqual(
    [flags?.imagePullSecret, flags?.qemuTimeoutSeconds, flags?.launcherGroup, flags?.synced],
    ['pull', 600, 108, { annotations: ['a.io/x', 'vendor.io/*'], labels: ['team'] }],
  );
});

test('a flag that nothing uses, yet or at all, is named when it asks for something', () => {
  assert.deepEqual(parseControllerFlags([])?.unused, []);
  const argv = [
    '--disruption-budget-controller-threads=7',
    '--kubevirt-share-dir=/var/run/kubevirt',
    '--ephemeral-disk-dir=/other',
  ];
  assert.deepEqual(parseControllerFlags(argv)?.unused, [
    '--ephemeral-disk-dir',
    '--disruption-budget-controller-threads',
  ]);
  const needless = ['--node-topology-update-period', '--snapshot-controller-resync-period'];
  const periods = needless.map((name) => `${name}=7s`);
  assert.deepEqual(parseControllerFlags(periods)?.unused, needless.toReversed());
});

for (const argv of [
  ['--no-such-flag'],
  ['--standalone-runtime-user', '5'],
  ['--vmi-controller-threads', '0'],
  ['--launcher-qemu-timeout', '0'],
  ['--launcher-subgid', '0'],
  ['--additional-launcher-labels-sync', '*'],
  ['--additional-launcher-labels-sync', 'a*b'],
  ['--additional-launcher-labels-sync', 'team,kubevirt.io*'],
  ['--additional-launcher-labels-sync', 'kubevirt.io'],
  ['--additional-launcher-labels-sync', 'vmi.kubevirt.io/id'],
  ['--additional-launcher-annotations-sync', 'k8s.v1.cni.cncf.io/*'],
  ['--migration-retries', '2'],
  ['--migration-retries', '-1'],
  ['--leader-elect-resource-lock', 'configmaps'],
  ['--leader-elect-renew-deadline', '20s'],
  ['--explain-socket', 'run/virt-controller.sock'],
  ['--export-ca-dir', 'exportca'],
  ['--backup-ca-dir', 'backupca'],
  ['--export-controller-threads', '0'],
]) {
  test(`the command line ${argv.join(' ')} is refused`, () => {
    assert.throws(() => parseControllerFlags(argv), { name: /FlagError|ControllerFlagsError/ });
  });
}
