import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launcherUsage, parseLauncherFlags } from '../../../src/launcher/flags.ts';
import { launcherEnvironment } from '../../../src/launcher/options.ts';

function optionsOf(...argv: string[]) {
  const parsed = parseLauncherFlags(argv);
  assert.equal(parsed.kind, 'options');
  return parsed.kind === 'options' ? parsed.options : assert.fail();
}

test("the defaults are upstream's", () => {
  const options = optionsOf();
  assert.equal(options.qemuTimeoutMs, 180_000);
  assert.equal(options.shareDir, '/var/run/kubevirt');
  assert.equal(options.hotplugDiskDir, '/var/run/kubevirt/hotplug-disks/');
  assert.equal(options.gracePeriodSeconds, 30);
  assert.equal(options.diskMemoryLimitBytes, 2_097_152_000);
  assert.equal(options.qemuAgentSysIntervalMs, 120_000);
  assert.equal(options.qemuFsfreezeStatusIntervalMs, 5000);
  assert.equal(options.hypervisor, 'kvm');
  assert.equal(options.allowEmulation, false);
});

test("a controller's command line is understood", () => {
  const options = optionsOf(
    ...['--qemu-timeout', '275s', '--name', 'vm', '--namespace=ns', '--uid', 'u', '--grace-period-seconds', '45'],
    ...['--hook-sidecars', '0', '--ovmf-path', '/ovmf', '--run-as-nonroot', '--image-volume', '--allow-emulation'],
    ...['--disk-memory-limit=1', '-v', '4'],
  );
  assert.equal(options.qemuTimeoutMs, 275_000);
  assert.deepEqual([options.name, options.namespace, options.uid], ['vm', 'ns', 'u']);
  assert.equal(options.gracePeriodSeconds, 45);
  assert.equal(options.runAsNonroot && options.imageVolume && options.allowEmulation, true);
  assert.equal(options.verbosity, 4);
});

for (const argv of [
  ['--nope'],
  ['--qemu-timeout', 'soon'],
  ['--name'],
  ['extra'],
  ['--allow-emulation=maybe'],
  ['-x'],
]) {
  test(`${argv.join(' ')} is refused`, () => {
    assert.throws(() => parseLauncherFlags(argv), { code: 'BAD_FLAG' });
  });
}

test('help names every flag of the specification', () => {
  assert.deepEqual(parseLauncherFlags(['--help']), { kind: 'help', text: launcherUsage() });
  for (const name of ['container-disk-dir', 'vgpu-dedicated-hook', 'libvirt-log-filters', 'qemu-agent-file-interval']) {
    assert.match(launcherUsage(), new RegExp(`--${name}`));
  }
});

test('the environment is read once, with what it does not say left out', () => {
  const ids = { uid: 1, gid: 2 };
  const none = launcherEnvironment({}, ids);
  assert.deepEqual(
    [none.network, none.kvm, none.standaloneVmi, none.sharedFilesystemPaths],
    ['tap', undefined, undefined, []],
  );
  const all = launcherEnvironment(
    { VIRT_LAUNCHER_NETWORK: 'user', VIRT_LAUNCHER_KVM: 'fails', SHARED_FILESYSTEM_PATHS: '/a:/b', POD_NAME: 'p' },
    ids,
  );
  assert.deepEqual(
    [all.network, all.kvm, all.sharedFilesystemPaths, all.podName],
    ['user', 'fails', ['/a', '/b'], 'p'],
  );
  assert.equal(launcherEnvironment({ VIRT_LAUNCHER_KVM: 'perhaps' }, ids).kvm, undefined);
});
