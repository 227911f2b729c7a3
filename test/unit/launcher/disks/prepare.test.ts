import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import type { KernelBoot, Volume } from '../../../../src/api/index.ts';
import { type DiskEnv, DiskError, prepareDisks } from '../../../../src/launcher/disks/index.ts';
import { vmiWith } from '../domain/cases.ts';
import { imageDir, noCloud, sandbox } from './sandbox.ts';

const withVolumes = (...volumes: Volume[]) => vmiWith({}, { volumes });
const rootDisk = (fields: object = {}): Volume => ({ name: 'root', containerDisk: { image: 'fedora:40', ...fields } });

async function refusal(env: DiskEnv, vmi = vmiWith()): Promise<DiskError> {
  try {
    await prepareDisks(vmi, env);
  } catch (error) {
    assert.ok(error instanceof DiskError, `not a DiskError: ${error}`);
    return error;
  }
  return assert.fail('was accepted');
}

test('a VMI without disks needs nothing and makes nothing', async (t) => {
  const { env, root } = sandbox(t);
  assert.deepEqual(await prepareDisks(vmiWith(), env), { disks: new Map() });
  assert.deepEqual(readdirSync(root), []);
});

test('an image that is not on the node is reported with its name and the directory', async (t) => {
  const { env, root } = sandbox(t);
  const error = await refusal(env, withVolumes(rootDisk()));
  assert.equal(error.code, 'IMAGE_MISSING');
  assert.match(error.message, /spec\.volumes\[root\]\.containerDisk: the image fedora:40 is not mounted at/);
  assert.ok(error.message.includes(path.join(root, imageDir(0))));
});

test('an image directory that is a link is not followed', async (t) => {
  const { env, root, put } = sandbox(t);
  put('elsewhere/disk/disk.img', 'x');
  mkdirSync(path.join(root, path.dirname(imageDir(0))), { recursive: true });
  symlinkSync(path.join(root, 'elsewhere'), path.join(root, imageDir(0)));
  assert.equal((await refusal(env, withVolumes(rootDisk()))).code, 'IMAGE_MISSING');
});

test('an image without /disk, with an empty one or with several files says what to set', async (t) => {
  const { env, root, put } = sandbox(t);
  mkdirSync(path.join(root, imageDir(0)), { recursive: true });
  assert.match((await refusal(env, withVolumes(rootDisk()))).message, /has no directory \/disk/);
  mkdirSync(path.join(root, imageDir(0), 'disk'));
  assert.match((await refusal(env, withVolumes(rootDisk()))).message, /is empty/);
  put(`${imageDir(0)}/disk/a.img`);
  put(`${imageDir(0)}/disk/b.img`);
  assert.match((await refusal(env, withVolumes(rootDisk()))).message, /2 files in \/disk \(a\.img, b\.img\): set path/);
});

test('a path or link that leads out of the image finds nothing', async (t) => {
  const { env, root, put } = sandbox(t);
  put('etc/shadow', 'secret');
  put(`${imageDir(0)}/readme`);
  assert.equal((await refusal(env, withVolumes(rootDisk({ path: '../../../../etc/shadow' })))).code, 'IMAGE_MISSING');
  mkdirSync(path.join(root, imageDir(0), 'disk'));
  symlinkSync(path.join(root, 'etc/shadow'), path.join(root, imageDir(0), 'disk/disk.img'));
  assert.equal((await refusal(env, withVolumes(rootDisk()))).code, 'IMAGE_MISSING');
});

test('without image volumes the file that the agent mounts must be there and no link', async (t) => {
  const { env, root, put } = sandbox(t, { imageVolume: false });
  const error = await refusal(env, withVolumes(rootDisk()));
  assert.match(error.message, /disk_0\.img is not there: the agent mounts it/);
  const file = put('etc/shadow', 'secret');
  mkdirSync(path.join(root, 'var/run/kubevirt/container-disks'), { recursive: true });
  symlinkSync(file, path.join(root, 'var/run/kubevirt/container-disks/disk_0.img'));
  assert.equal((await refusal(env, withVolumes(rootDisk()))).code, 'IMAGE_MISSING');
});

const hostDisk = (fields: object): Volume => ({
  name: 'data',
  hostDisk: { path: '/mnt/vms/data.img', type: 'DiskOrCreate', capacity: '3Mi', ...fields },
});
const hostDir = 'var/run/kubevirt-private/vmi-disks/data';

test('a host disk is made sparse with the asked size, and never made or changed again', async (t) => {
  const { env, root } = sandbox(t);
  const file = path.join(root, hostDir, 'data.img');
  const first = await prepareDisks(withVolumes(hostDisk({})), env);
  const { size, blocks } = statSync(file);
  assert.deepEqual([size, blocks], [3 << 20, 0]);
  writeFileSync(file, 'guest data', { flag: 'r+' });
  const before = statSync(file);
  assert.deepEqual(await prepareDisks(withVolumes(hostDisk({ capacity: '9Mi' })), env), first);
  assert.deepEqual(statSync(file), before);
  assert.deepEqual(first.disks.get('data')?.path, file);
  assert.deepEqual(readdirSync(path.dirname(file)), ['data.img']);
});

test('a host disk of type Disk that is missing is reported with the directory of the node', async (t) => {
  const { env } = sandbox(t);
  const error = await refusal(env, withVolumes(hostDisk({ type: 'Disk' })));
  assert.equal(error.code, 'IMAGE_MISSING');
  assert.match(error.message, /data\.img does not exist in \/mnt\/vms of the node/);
});

test('a host disk that is a link or a directory is refused', async (t) => {
  const { env, root, put } = sandbox(t);
  const shadow = put('etc/shadow', 'secret');
  mkdirSync(path.join(root, hostDir), { recursive: true });
  symlinkSync(shadow, path.join(root, hostDir, 'data.img'));
  assert.match((await refusal(env, withVolumes(hostDisk({})))).message, /is a symbolic link/);
  mkdirSync(path.join(root, hostDir, 'dir.img'));
  const error = await refusal(env, withVolumes(hostDisk({ path: '/mnt/vms/dir.img' })));
  assert.equal(error.code, 'UNSAFE_PATH');
});

const qemu = { uid: 64_107, gid: 64_107 };

test('a file of the host that is not QEMU’s own is not given to a guest by a root launcher', async (t) => {
  const { env, put } = sandbox(t, { owner: qemu });
  const secret = put(`${hostDir}/shadow`, 'root:x');
  for (const type of ['Disk', 'DiskOrCreate']) {
    const error = await refusal(env, withVolumes(hostDisk({ path: '/etc/shadow', type })));
    assert.equal(error.code, 'UNSAFE_PATH');
    assert.match(error.message, /\/etc\/shadow belongs to user \d+, not to QEMU \(64107\): .*chown 64107:64107/);
  }
  assert.equal(statSync(secret).uid, process.getuid?.());
});

test('a host disk that is QEMU’s own stays his, whatever libvirt would do to its owner', async (t) => {
  const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const { env, put } = sandbox(t, { owner: own });
  put(`${hostDir}/data.img`, 'guest data');
  const { disks } = await prepareDisks(withVolumes(hostDisk({})), env);
  assert.equal(disks.get('data')?.keepsOwner, true);
});

test('the file of a claim is the claim’s matter, whoever owns it', async (t) => {
  const { env, put } = sandbox(t, { owner: qemu });
  put(`${hostDir}/disk.img`, 'guest data');
  const claim = hostDisk({ path: '/var/run/kubevirt-private/vmi-disks/data/disk.img' });
  const { disks } = await prepareDisks(withVolumes(claim), env);
  assert.equal(disks.get('data')?.keepsOwner, undefined);
});

for (const [what, fields, code] of [
  ['no capacity', { capacity: undefined }, 'INVALID_FIELD'],
  ['a capacity that is no quantity', { capacity: 'big' }, 'INVALID_FIELD'],
  ['more than the file system has', { capacity: '4Pi' }, 'NO_SPACE'],
  ['a path that names no file', { path: '/' }, 'INVALID_FIELD'],
  ['an unknown type', { type: 'Folder' }, 'INVALID_FIELD'],
] as const) {
  test(`a host disk cannot be made with ${what}, and nothing is left behind`, async (t) => {
    const { env, root } = sandbox(t);
    assert.equal((await refusal(env, withVolumes(hostDisk(fields)))).code, code);
    assert.equal(existsSync(path.join(root, hostDir, 'data.img')), false);
  });
}

test('a claim is its disk.img; without one the message names both places', async (t) => {
  const { env, put } = sandbox(t);
  const volume: Volume = { name: 'pvc', persistentVolumeClaim: { claimName: 'c', readOnly: true } };
  const error = await refusal(env, withVolumes(volume));
  assert.equal(error.code, 'MISSING_SOURCE');
  assert.match(error.message, /disk\.img nor the block device .*dev\/pvc/);
  const file = put('var/run/kubevirt-private/vmi-disks/pvc/disk.img', Buffer.alloc(4096, 1));
  const { disks } = await prepareDisks(withVolumes(volume), env);
  const { cache, io, ...rest } = disks.get('pvc') ?? assert.fail();
  assert.deepEqual(rest, { path: file, format: 'raw', isBlock: false, readonly: true });
  assert.deepEqual([cache, io], cache === 'none' ? ['none', 'native'] : ['writethrough', undefined]);
});

test('a plugged volume is left out until its file is there', async (t) => {
  const { env, put } = sandbox(t);
  const vmi = withVolumes({ name: 'plug', dataVolume: { name: 'd', hotpluggable: true } });
  vmi.spec.domain.devices = { disks: [{ name: 'plug', disk: { bus: 'scsi' } }] };
  vmi.status = { volumeStatus: [{ name: 'plug', target: '', phase: 'Ready' }] };
  assert.equal((await prepareDisks(vmi, env)).disks.size, 0);
  put('var/run/kubevirt/hotplug-disks/plug.img', 'x');
  assert.equal((await prepareDisks(vmi, env)).disks.get('plug')?.format, 'raw');
});

test('a volume name that is a path is refused before anything is touched', async (t) => {
  const { env, root } = sandbox(t);
  const vmi = withVolumes({ name: '../../etc', emptyDisk: { capacity: '1Mi' } });
  await assert.rejects(prepareDisks(vmi, env), { code: 'INVALID_FIELD', message: /cannot be part of a file name/ });
  assert.deepEqual(readdirSync(root), []);
});

test('a volume that no disk can be made of is refused, never left out', async (t) => {
  const { env } = sandbox(t);
  const error = await refusal(env, withVolumes({ name: 'odd', floppy: {} } as never));
  assert.equal(error.code, 'UNSUPPORTED_FIELD');
  assert.match(error.message, /spec\.volumes\[odd\]: a disk with floppy/);
});

test('the disk of downward metrics is made once, empty and read-only: the agent writes into it', async (t) => {
  const { env, root } = sandbox(t);
  const vmi = withVolumes({ name: 'metrics', downwardMetrics: {} });
  const file = path.join(root, 'var/run/kubevirt-private/downwardapi-disks/vhostmd0');
  const found = (await prepareDisks(vmi, env)).disks.get('metrics');
  assert.deepEqual(found, { path: file, format: 'raw', isBlock: false, readonly: true, cache: found?.cache });
  const bytes = readFileSync(file);
  assert.equal(bytes.length, 262_144);
  assert.equal(bytes.toString('latin1', 16, 36), '<metrics></metrics>\n');
  writeFileSync(file, 'figures', { flag: 'r+' });
  await prepareDisks(vmi, env);
  assert.equal(readFileSync(file, 'latin1').slice(0, 7), 'figures');
});

for (const capacity of ['0', '1023Ki', 'large', -1]) {
  test(`an empty disk needs a size of at least 1Mi: ${capacity}`, async (t) => {
    const { env } = sandbox(t);
    assert.equal((await refusal(env, withVolumes({ name: 'e', emptyDisk: { capacity } }))).code, 'INVALID_FIELD');
  });
}

for (const [what, source, pattern] of [
  ['no data at all', {}, /has no data/],
  ['base64 that is none', { userDataBase64: 'I2Nsb3Vk*Y29uZmln' }, /userDataBase64: is not base64/],
  ['base64 that is cut off', { userDataBase64: 'I2Nsb3VkLWNvbmZpZ' }, /userDataBase64: is not base64/],
  ['network data that is broken', { userData: 'x', networkDataBase64: '%%%' }, /networkDataBase64: is not base64/],
  ['too much data', { userData: 'x'.repeat((1 << 20) + 1) }, /1048577 bytes, 1048576 are possible/],
] as const) {
  test(`cloud-init with ${what} is refused with its field, and no image is made`, async (t) => {
    const { env, root } = sandbox(t);
    const error = await refusal(env, withVolumes(noCloud('seed', source)));
    assert.equal(error.code, 'BAD_CLOUD_INIT');
    assert.match(error.message, /spec\.volumes\[seed\]\.cloudInitNoCloud/);
    assert.match(error.message, pattern);
    const left = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    assert.deepEqual(left, []);
  });
}

test('a cloud-init secret without the expected key is reported with keys and directory', async (t) => {
  const { env } = sandbox(t);
  const error = await refusal(env, withVolumes(noCloud('seed', { secretRef: { name: 's' } })));
  assert.equal(error.code, 'MISSING_SOURCE');
  assert.match(error.message, /secretRef: the secret has no key userdata or userData \(looked in .*secret\/seed\)/);
});

test('a key that the secret lacks is reported the same when the kubelet made a directory of it', async (t) => {
  const { env } = sandbox(t);
  for (const name of ['userdata', 'userData'])
    mkdirSync(path.join(env.paths.privateDir, 'secret/seed', name), { recursive: true });
  const error = await refusal(env, withVolumes(noCloud('seed', { secretRef: { name: 's' } })));
  assert.equal(error.code, 'MISSING_SOURCE');
  assert.match(error.message, /the secret has no key userdata or userData .*: add one/);
});

test('two cloud-init disks are refused: which one a guest takes would be chance', async (t) => {
  const { env } = sandbox(t);
  const second: Volume = { name: 'b', cloudInitConfigDrive: { userData: 'x' } };
  const error = await refusal(env, withVolumes(noCloud('a', { userData: 'x' }), second));
  assert.match(error.message, /a and b are all cloud-init disks/);
});

test('a config map that is not mounted is reported', async (t) => {
  const { env } = sandbox(t);
  const error = await refusal(env, withVolumes({ name: 'cfg', configMap: { name: 'c' } }));
  assert.equal(error.code, 'MISSING_SOURCE');
  assert.match(error.message, /config-map\/cfg/);
});

const booting = (container: Partial<NonNullable<KernelBoot['container']>>) =>
  vmiWith({ firmware: { kernelBoot: { container: { image: 'kernel:1', ...container } } } });

test('kernel and initrd are found inside their image and linked under stable names', async (t) => {
  const { env, root, put } = sandbox(t);
  put('var/run/kubevirt-kernel-boot/boot/vmlinuz-6.1', 'kernel');
  put('var/run/kubevirt-kernel-boot/initrd.gz', 'initrd');
  symlinkSync('boot/vmlinuz-6.1', path.join(root, 'var/run/kubevirt-kernel-boot/vmlinuz'));
  const vmi = booting({ kernelPath: '/vmlinuz', initrdPath: '/initrd.gz' });
  const dir = path.join(root, 'var/run/kubevirt/container-disks/kernel-boot');
  const expected = { kernelPath: path.join(dir, 'vmlinuz'), initrdPath: path.join(dir, 'initrd.gz') };
  assert.deepEqual((await prepareDisks(vmi, env)).kernelBoot, expected);
  assert.deepEqual((await prepareDisks(vmi, env)).kernelBoot, expected);
  assert.equal(readlinkSync(expected.kernelPath), path.join(root, 'var/run/kubevirt-kernel-boot/boot/vmlinuz-6.1'));
});

for (const [what, container, code] of [
  ['an image that is not mounted', { kernelPath: '/vmlinuz' }, 'IMAGE_MISSING'],
  ['neither kernel nor initrd', {}, 'INVALID_FIELD'],
  ['one name for both', { kernelPath: '/a/x', initrdPath: '/b/x' }, 'INVALID_FIELD'],
] as const) {
  test(`kernel boot is refused with ${what}`, async (t) => {
    const { env } = sandbox(t);
    assert.equal((await refusal(env, booting(container))).code, code);
  });
}

test('a kernel that is missing in its image is reported with its path', async (t) => {
  const { env, put } = sandbox(t);
  put('var/run/kubevirt-kernel-boot/readme');
  const error = await refusal(env, booting({ kernelPath: '/boot/vmlinuz' }));
  assert.match(error.message, /kernelPath: the image kernel:1 has no file \/boot\/vmlinuz/);
});

test('an error of the operating system names the volume and what to look at', async (t) => {
  const { env, put } = sandbox(t);
  put('var/run/libvirt/empty-disks', 'a file where a directory should be');
  const error = await refusal(env, withVolumes({ name: 'scratch', emptyDisk: { capacity: '1Mi' } }));
  assert.equal(error.code, 'IO_FAILED');
  assert.match(error.message, /^spec\.volumes\[scratch\]: .*: look at its rights on the node$/);
});
