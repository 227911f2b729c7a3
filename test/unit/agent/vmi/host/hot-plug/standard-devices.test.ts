import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { standardDevices } from '../../../../../../src/agent/vmi/host/hot-plug/standard-devices.ts';
import type { VirtualMachineInstance } from '../../../../../../src/api/index.ts';
import { vmiOf } from '../../../../../fixtures/agent/builders.ts';

const skip = process.getuid?.() === 0 ? false : 'only root makes nodes';
const drivers =
  'Character devices:\n  1 mem\n 10 misc\n189 usb_device\n237 vfio\n\nBlock devices:\n  8 sd\n237 device-mapper\n';

function launcher(t: TestContext, nodes: readonly (readonly [string, 'b' | 'c', number, number])[]) {
  const directory = mkdtempSync(path.join(tmpdir(), 'standard-devices-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const dev = path.join(directory, '42/root/dev');
  mkdirSync(dev, { recursive: true });
  for (const [name, type, major, minor] of nodes) {
    mkdirSync(path.dirname(path.join(dev, name)), { recursive: true });
    execFileSync('mknod', [path.join(dev, name), type, String(major), String(minor)]);
  }
  writeFileSync(path.join(directory, 'devices'), drivers);
  const options = { procDir: directory, driversFile: path.join(directory, 'devices') };
  const none = standardDevices(vmiOf(), 43, options).length;
  const numbers = (vmi: VirtualMachineInstance) =>
    standardDevices(vmi, 42, options)
      .slice(none)
      .map(({ type, major, minor }) => `${type[0]} ${major}:${minor}`);
  return { dev, numbers };
}

const claim = (name: string) => ({ name, persistentVolumeClaim: { claimName: name } });
const withBlock = () => {
  const vmi = vmiOf('Running', { spec: { domain: {}, volumes: [claim('disk'), claim('files')] } });
  const block = { persistentVolumeClaimInfo: { volumeMode: 'Block' } };
  const volumeStatus = [
    { name: 'disk', target: 'vda', ...block },
    { name: 'files', target: 'vdb' },
    { name: 'gone', target: '', ...block },
  ];
  return { ...vmi, status: { ...vmi.status, volumeStatus } };
};

test('what the pod was given is kept: KVM, block claims, devices of device plugins', { skip }, (t) => {
  const { numbers } = launcher(t, [
    ['kvm', 'c', 10, 232],
    ['disk', 'b', 252, 3],
    ['vfio/vfio', 'c', 10, 196],
    ['vfio/12', 'c', 237, 1],
    ['bus/usb/001/002', 'c', 189, 1],
    ['vhost-vsock', 'c', 10, 241],
  ]);
  const kept = ['c 10:232', 'b 252:3', 'c 10:196', 'c 237:1', 'c 189:1'];
  assert.deepEqual(numbers(withBlock()).sort(), [...kept].sort());
  const vmi = withBlock();
  vmi.spec.domain.devices = { autoattachVSOCK: true };
  assert.deepEqual(numbers(vmi).sort(), [...kept, 'c 10:241'].sort());
});

test('what the launcher made there itself is not: other names, other numbers, other types', { skip }, (t) => {
  const { dev, numbers } = launcher(t, [
    ['sda', 'b', 8, 0],
    ['mem', 'c', 1, 1],
    ['kvm', 'c', 1, 1],
    ['files', 'b', 8, 1],
    ['gone', 'b', 8, 2],
    ['vfio/12', 'b', 237, 1],
    ['vfio/sda', 'b', 8, 0],
    ['vfio/mem', 'c', 1, 1],
    ['bus/usb/001/002', 'b', 189, 1],
    ['hidden/sda', 'b', 8, 0],
  ]);
  symlinkSync('sda', path.join(dev, 'disk'));
  assert.deepEqual(numbers(withBlock()), []);
});

test('however many there are, a bounded number is looked at', { skip }, (t) => {
  const { numbers } = launcher(
    t,
    Array.from({ length: 700 }, (_, index) => [`vfio/${index % 7}/${index}`, 'c', 237, index] as const),
  );
  const found = numbers(vmiOf()).length;
  assert.ok(found > 100 && found <= 256, String(found));
});
