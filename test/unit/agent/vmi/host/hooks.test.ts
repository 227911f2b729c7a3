import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { deviceOwnership, hostDiskImages } from '../../../../../src/agent/vmi/host/index.ts';
import type { VirtualMachineInstance } from '../../../../../src/api/index.ts';
import type { ClusterConfig } from '../../../../../src/cluster-config/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import { eventsOf, hookContext } from '../../../../fixtures/agent/host-hooks.ts';

const pid = 77;
const isRoot = process.getuid?.() === 0;

/** A launcher's root as `/proc/<pid>/root` shows it. */
function fakeLauncher(t: { after(fn: () => void): void }) {
  const procDir = mkdtempSync(path.join(tmpdir(), 'hooks-'));
  t.after(() => rmSync(procDir, { recursive: true, force: true }));
  const root = path.join(procDir, String(pid), 'root');
  mkdirSync(path.join(root, 'run'), { recursive: true });
  mkdirSync(path.join(root, 'var'));
  symlinkSync('/run', path.join(root, 'var/run'));
  mkdirSync(path.join(root, 'dev/net'), { recursive: true });
  return { procDir, root };
}

const contextOf = (vmi: VirtualMachineInstance, config: Partial<ClusterConfig> = {}) => hookContext(vmi, pid, config);

const codeOf = (code: string) => (error: unknown) => error instanceof Error && 'code' in error && error.code === code;

function diskVmi(capacity: string, name = 'data'): VirtualMachineInstance {
  const hostDisk = { path: `/somewhere/${name}.img`, type: 'DiskOrCreate' as const, capacity };
  return vmiOf('Scheduled', { spec: { domain: {}, volumes: [{ name, hostDisk }] } });
}

test('devices of a launcher go to the user qemu, without following links out of its root', {
  skip: !isRoot,
}, async (t) => {
  const { procDir, root } = fakeLauncher(t);
  writeFileSync(path.join(root, 'dev/kvm'), '');
  writeFileSync(path.join(procDir, 'outside'), '');
  symlinkSync(path.join(procDir, 'outside'), path.join(root, 'dev/net/tun'));
  const hook = deviceOwnership({ hostDevDir: '/dev', procDir });
  await hook.prepare(contextOf(vmiOf('Scheduled', { status: { runtimeUser: 107 } })));
  assert.equal(statSync(path.join(root, 'dev/kvm')).uid, 107);
  assert.equal(statSync(path.join(procDir, 'outside')).uid, process.getuid?.());
});

test('a block volume has a device of its own name, and leads nowhere else', { skip: !isRoot }, async (t) => {
  const { procDir, root } = fakeLauncher(t);
  writeFileSync(path.join(root, 'dev/data'), '');
  mkdirSync(path.join(root, 'etc'));
  const hook = deviceOwnership({ hostDevDir: '/dev', procDir });
  const block = (name: string) =>
    contextOf(
      vmiOf('Scheduled', {
        spec: { domain: {}, volumes: [{ name, persistentVolumeClaim: { claimName: 'c' } }] },
        status: {
          runtimeUser: 107,
          volumeStatus: [{ name, target: '', persistentVolumeClaimInfo: { volumeMode: 'Block' } }],
        },
      } as never),
      { useEmulation: true },
    );
  await hook.prepare(block('data'));
  assert.equal(statSync(path.join(root, 'dev/data')).uid, 107);
  for (const name of ['../etc', '..', 'x/../../etc'])
    await assert.rejects(hook.prepare(block(name)), codeOf('DISK_NAME'));
  for (const opened of ['etc', 'dev', '.']) assert.equal(statSync(path.join(root, opened)).uid, 0);
});

test('a missing /dev/kvm is an error that says what to do, unless emulation is allowed', async (t) => {
  const { procDir } = fakeLauncher(t);
  const hook = deviceOwnership({ hostDevDir: '/dev', procDir });
  await assert.rejects(hook.prepare(contextOf(vmiOf(), { useEmulation: false })), codeOf('NO_HYPERVISOR'));
  await hook.prepare(contextOf(vmiOf(), { useEmulation: true }));
});

test('a launcher that shares the devices of the machine has none changed', async (t) => {
  const { procDir, root } = fakeLauncher(t);
  writeFileSync(path.join(root, 'dev/kvm'), '');
  const hook = deviceOwnership({ hostDevDir: path.join(root, 'dev'), procDir });
  await hook.prepare(contextOf(vmiOf('Scheduled'), { useEmulation: false }));
  assert.notEqual(statSync(path.join(root, 'dev/kvm')).uid, 107);
});

test('a missing disk image is made sparse, whole and once', { skip: !isRoot }, async (t) => {
  const { procDir, root } = fakeLauncher(t);
  const directory = path.join(root, 'run/kubevirt-private/vmi-disks/data');
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, '.disk-image.new'), 'torn by a crash');
  const hook = hostDiskImages({ procDir });
  await hook.prepare(contextOf(diskVmi('64Mi')));
  await hook.prepare(contextOf(diskVmi('128Mi')));
  const image = statSync(path.join(directory, 'data.img'));
  assert.equal(image.size, 64 * 2 ** 20);
  assert.equal(image.blocks, 0);
  assert.equal(image.uid, 107);
  assert.deepEqual(readdirSync(directory), ['data.img']);
});

test('an image larger than the volume is refused, a little larger is made smaller and told', {
  skip: !isRoot,
}, async (t) => {
  const { procDir, root } = fakeLauncher(t);
  mkdirSync(path.join(root, 'run/kubevirt-private/vmi-disks/data'), { recursive: true });
  const hook = hostDiskImages({ procDir });
  await assert.rejects(hook.prepare(contextOf(diskVmi('100000Ti'))), codeOf('DISK_TOO_LARGE'));
  await assert.rejects(hook.prepare(contextOf(diskVmi('0'))), codeOf('DISK_TOO_LARGE'));
  const events = eventsOf(await hook.prepare(contextOf(diskVmi('100000Ti'), { tolerateLessPvcSpacePercent: 100 })));
  assert.equal(events[0]?.reason, 'ToleratedSmallPV');
});

test('what devices and images there are is given as facts, the same on every try, and read again by a later process', {
  skip: !isRoot,
}, async (t) => {
  const { procDir, root } = fakeLauncher(t);
  for (const device of ['kvm', 'net/tun']) writeFileSync(path.join(root, 'dev', device), '');
  mkdirSync(path.join(root, 'run/kubevirt-private/vmi-disks/data'), { recursive: true });
  const [disks, devices] = [hostDiskImages({ procDir }), deviceOwnership({ hostDevDir: '/dev', procDir })];
  const vmi = diskVmi('64Mi');
  vmi.status = { ...vmi.status, runtimeUser: 107 };
  const images = [{ volume: 'data', sizeBytes: 64 * 2 ** 20, wantedBytes: 64 * 2 ** 20 }];
  for (const _try of [1, 2]) {
    const made = await disks.prepare(contextOf(vmi));
    assert.deepEqual(made.kind === 'done' && made.facts, { images });
    assert.equal(made.kind === 'done' && made.summary, 'data of 67108864 bytes');
    const given = await devices.prepare(contextOf(vmi));
    assert.deepEqual(given.kind === 'done' && given.facts, { devices: ['/dev/kvm', '/dev/net/tun'] });
  }
  assert.deepEqual(disks.readFacts?.({ images: [...images, { volume: 1 }, null] }), { images });
  assert.deepEqual(devices.readFacts?.({ devices: ['/dev/kvm', 7] }), { devices: ['/dev/kvm'] });
  for (const foreign of ['x', 7, [], { devices: 1, images: 1 }]) {
    assert.deepEqual(disks.readFacts?.(foreign), { images: [] });
    assert.deepEqual(devices.readFacts?.(foreign), { devices: [] });
  }
});
