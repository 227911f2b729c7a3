import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
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
import type { VirtualMachineInstance, Volume } from '../../../src/api/index.ts';
import { prepareDisks } from '../../../src/launcher/disks/index.ts';
import { imageDir, noCloud, type Sandbox, sandbox } from '../../unit/launcher/disks/sandbox.ts';
import { vmiWith } from '../../unit/launcher/domain/cases.ts';

const qemuImg = (...args: string[]) => execFileSync('qemu-img', args, { encoding: 'utf8' });
const imageInfo = (file: string) => JSON.parse(qemuImg('info', '--output=json', file)) as Record<string, unknown>;
const isoFile = (iso: string, name: string) =>
  execFileSync('isoinfo', ['-R', '-i', iso, '-x', `/${name}`], { encoding: 'utf8' });
const isoNames = (iso: string) =>
  execFileSync('isoinfo', ['-R', '-i', iso, '-f'], { encoding: 'utf8' }).trim().split('\n').sort();
const isoLabel = (iso: string) =>
  /Volume id: (.*)/.exec(execFileSync('isoinfo', ['-d', '-i', iso], { encoding: 'utf8' }))?.[1];

const rootDisk = (fields: object = {}): Volume => ({ name: 'root', containerDisk: { image: 'fedora:40', ...fields } });
const withVolumes = (...volumes: Volume[]) => vmiWith({}, { volumes });

/** Every file below the sandbox with what shows a change: inode, size, change time. */
function snapshot(root: string): Record<string, string> {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    entries.map((entry) => {
      const file = path.join(entry.parentPath, entry.name);
      const { ino, size, ctimeMs } = statSync(file);
      return [file, `${ino} ${size} ${entry.isFile() ? ctimeMs : ''}`];
    }),
  );
}

function putImage(box: Sandbox, name = 'disk.qcow2', format = 'qcow2', index = 0): string {
  const file = box.put(`${imageDir(index)}/disk/${name}`);
  qemuImg('create', '-q', '-f', format, file, '8M');
  return file;
}

for (const format of ['raw', 'qcow2'] as const) {
  test(`a ${format} containerDisk gets a qcow2 layer of its own; a second call changes nothing`, async (t) => {
    const box = sandbox(t);
    const image = putImage(box, 'anything.img', format);
    const before = readFileSync(image);
    const vmi = withVolumes(rootDisk());
    const prepared = await prepareDisks(vmi, box.env);
    const disk = prepared.disks.get('root') ?? assert.fail();
    const link = path.join(box.root, 'var/run/kubevirt/container-disks/disk_0.img');
    assert.deepEqual(disk.backing, { path: link, format, isBlock: false });
    assert.equal(readlinkSync(link), image);
    const info = imageInfo(disk.path);
    assert.deepEqual(
      [info.format, info['virtual-size'], info['backing-filename'], info['backing-filename-format']],
      ['qcow2', 8 << 20, link, format],
    );
    assert.equal(statSync(disk.path).mode & 0o777, 0o640);
    const done = snapshot(box.root);
    assert.deepEqual(await prepareDisks(vmi, box.env), prepared);
    assert.deepEqual(snapshot(box.root), done);
    assert.deepEqual(readFileSync(image), before);
  });
}

test('the path of a containerDisk may name one of several files, also through links inside the image', async (t) => {
  const box = sandbox(t);
  putImage(box, 'a.img');
  const image = putImage(box, 'b.img');
  symlinkSync('/disk/b.img', path.join(box.root, imageDir(0), 'link'));
  await prepareDisks(withVolumes(rootDisk({ path: '/link' })), box.env);
  assert.equal(readlinkSync(path.join(box.root, 'var/run/kubevirt/container-disks/disk_0.img')), image);
});

const hostile: readonly (readonly [string, (box: Sandbox, file: string) => void, RegExp])[] = [
  [
    'a backing file',
    (box, file) => {
      const secret = box.put('secret', Buffer.alloc(1 << 20));
      qemuImg('create', '-q', '-f', 'qcow2', '-b', secret, '-F', 'raw', file);
    },
    /has a backing file; flatten it/,
  ],
  [
    'an external data file',
    (box, file) => {
      qemuImg(
        'create',
        '-q',
        '-f',
        'qcow2',
        '-o',
        `data_file=${path.join(box.root, 'data')},data_file_raw=on`,
        file,
        '1M',
      );
    },
    /keeps its data in another file/,
  ],
  [
    'another format',
    (_box, file) => qemuImg('create', '-q', '-f', 'vmdk', file, '1M'),
    /has the format vmdk; convert it/,
  ],
  [
    'a torn header',
    (_box, file) => {
      const header = Buffer.alloc(512);
      header.write('QFI\xfb', 'latin1');
      header.writeUInt32BE(3, 4);
      writeFileSync(file, header);
    },
    /is not a usable disk image/,
  ],
];

for (const [what, make, pattern] of hostile) {
  test(`an image with ${what} is refused, and no layer is made above it`, async (t) => {
    const box = sandbox(t);
    const file = path.join(box.root, imageDir(0), 'disk/disk.img');
    mkdirSync(path.dirname(file), { recursive: true });
    make(box, file);
    await assert.rejects(prepareDisks(withVolumes(rootDisk()), box.env), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'BAD_IMAGE');
      assert.match(error.message, pattern);
      assert.match(error.message, /spec\.volumes\[root\]\.containerDisk/);
      return true;
    });
    assert.equal(existsSync(path.join(box.root, 'var/run/kubevirt-ephemeral-disks')), false);
  });
}

// qemu-img, left to guess the format, opens what such an image names before it knows the format. A launcher of the standalone node is
// root and sees the devices of the machine: to open a watchdog is to start it.
test('no tool opens the file that a foreign image names', { timeout: 20_000 }, async (t) => {
  const box = sandbox(t);
  const pipe = path.join(box.root, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const named = `# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=ffffffff\ncreateType="monolithicFlat"\nRW 2048 FLAT "${pipe}" 0\n`;
  box.put(`${imageDir(0)}/disk/disk.img`, named);
  await assert.rejects(prepareDisks(withVolumes(rootDisk()), box.env), {
    code: 'BAD_IMAGE',
    message: /has the format vmdk; convert it/,
  });
});

for (const format of ['vdi', 'vhdx', 'vpc', 'qed']) {
  test(`an image of the format ${format} is refused with what to do`, async (t) => {
    const box = sandbox(t);
    putImage(box, 'disk.img', format);
    await assert.rejects(prepareDisks(withVolumes(rootDisk()), box.env), {
      code: 'BAD_IMAGE',
      message: new RegExp(`has the format ${format}; convert it`),
    });
  });
}

test('an image that needs more memory to look at than allowed is refused in time', async (t) => {
  const box = sandbox(t, { diskMemoryLimitBytes: 16 << 20 });
  putImage(box);
  await assert.rejects(prepareDisks(withVolumes(rootDisk()), box.env), { code: 'BAD_IMAGE' });
});

test('a layer half made by a crash is made again, and only a whole one gets the name', async (t) => {
  const box = sandbox(t);
  putImage(box);
  const part = box.put('var/run/kubevirt-ephemeral-disks/disk-data/root/disk.qcow2.part', 'torn');
  const { disks } = await prepareDisks(withVolumes(rootDisk()), box.env);
  assert.equal(imageInfo(disks.get('root')?.path ?? '').format, 'qcow2');
  assert.deepEqual(readdirSync(path.dirname(part)), ['disk.qcow2']);
});

test('an empty disk has its capacity rounded down to whole MiB and is kept', async (t) => {
  const box = sandbox(t);
  const vmi = withVolumes({ name: 'scratch', emptyDisk: { capacity: '2500Ki' } });
  const disk = (await prepareDisks(vmi, box.env)).disks.get('scratch') ?? assert.fail();
  assert.equal(disk.path, path.join(box.root, 'var/run/libvirt/empty-disks/scratch.qcow2'));
  assert.equal(imageInfo(disk.path)['virtual-size'], 2 << 20);
  const done = snapshot(box.root);
  await prepareDisks(vmi, box.env);
  assert.deepEqual(snapshot(box.root), done);
});

test('an ephemeral claim gets a layer, and the claim itself is not written', async (t) => {
  const box = sandbox(t);
  const claim = box.put('var/run/kubevirt-private/vmi-disks/tmp/disk.img', Buffer.alloc(1 << 20, 7));
  const vmi = withVolumes({ name: 'tmp', ephemeral: { persistentVolumeClaim: { claimName: 'c' } } });
  const disk = (await prepareDisks(vmi, box.env)).disks.get('tmp');
  assert.deepEqual(disk?.backing, { path: claim, format: 'raw', isBlock: false });
  assert.equal(imageInfo(disk?.path ?? '')['backing-filename'], claim);
});

test('cache none is refused where the file system has no direct I/O, and chosen where it has', async (t) => {
  const box = sandbox(t);
  putImage(box);
  const vmi = withVolumes(rootDisk());
  const found = (await prepareDisks(vmi, box.env)).disks.get('root')?.cache;
  vmi.spec.domain.devices = { disks: [{ name: 'root', cache: 'none' }] };
  const outcome = await prepareDisks(vmi, box.env).then(
    () => 'none',
    (error: { code: string }) => error.code,
  );
  assert.equal(outcome, found === 'none' ? 'none' : 'DIRECT_IO_UNSUPPORTED');
});

const seedPath = 'var/run/kubevirt-ephemeral-disks/cloud-init-data/default/testvm';

test('NoCloud data becomes a CD labelled cidata that a guest can read, and nothing secret stays beside it', async (t) => {
  const box = sandbox(t);
  const userData = '#cloud-config\npassword: "secret" # ü\n';
  const source = { userData, networkDataBase64: Buffer.from('version: 2').toString('base64') };
  const vmi: VirtualMachineInstance = vmiWith(
    { firmware: { uuid: '5D307CA9-B3EF-428C-8861-06E72D69F223' } },
    { volumes: [noCloud('seed', source)] },
    { name: 'testvm', annotations: { 'kubevirt.io/instancetype-name': 'small' } },
  );
  const { disks } = await prepareDisks(vmi, box.env);
  const iso = disks.get('seed')?.path ?? '';
  assert.equal(iso, path.join(box.root, seedPath, 'noCloud.iso'));
  assert.equal(isoLabel(iso), 'cidata');
  assert.deepEqual(isoNames(iso), ['/meta-data', '/network-config', '/user-data']);
  assert.equal(isoFile(iso, 'user-data'), userData);
  assert.equal(isoFile(iso, 'network-config'), 'version: 2');
  assert.deepEqual(JSON.parse(isoFile(iso, 'meta-data')), {
    'instance-type': 'small',
    'instance-id': '5d307ca9-b3ef-428c-8861-06e72d69f223',
    'local-hostname': 'testvm',
  });
  assert.deepEqual(readdirSync(path.join(box.root, seedPath)), ['noCloud.iso']);
  const done = snapshot(box.root);
  await prepareDisks(vmi, box.env);
  assert.deepEqual(snapshot(box.root), done);
});

// QEMU with direct I/O on such a file system said: "Image size is not a multiple of request alignment".
for (const userDataBytes of [1, 3000]) {
  test(`a CD of ${userDataBytes} bytes of user data ends on a block of 4096 bytes`, async (t) => {
    const box = sandbox(t);
    const vmi = withVolumes(noCloud('seed', { userData: 'x'.repeat(userDataBytes) }));
    const iso = (await prepareDisks(vmi, box.env)).disks.get('seed')?.path ?? '';
    assert.equal(statSync(iso).size % 4096, 0);
    assert.equal(isoFile(iso, 'user-data').length, userDataBytes);
  });
}

test('the user data of a secret is read in either spelling, also when the kubelet made a directory of the other', async (t) => {
  for (const [key, other] of [
    ['userData', 'userdata'],
    ['userdata', 'userData'],
  ]) {
    const box = sandbox(t);
    box.put(`var/run/kubevirt-private/secret/seed/${key}`, '#!/bin/sh');
    mkdirSync(path.join(box.root, `var/run/kubevirt-private/secret/seed/${other}`));
    const iso = (await prepareDisks(withVolumes(noCloud('seed', { secretRef: { name: 's' } })), box.env)).disks.get(
      'seed',
    );
    assert.equal(isoFile(iso?.path ?? '', 'user-data'), '#!/bin/sh');
  }
});

test('ConfigDrive data from secrets, with SSH keys, becomes a CD labelled config-2', async (t) => {
  const box = sandbox(t);
  box.put('var/run/kubevirt-private/secret/seed/userData', '#!/bin/sh');
  box.put('var/run/kubevirt-private/secret/seed/networkdata', '{"links":[]}');
  box.put('var/run/kubevirt-private/secret/keys-access-cred/alice', 'ssh-ed25519 AAAA alice');
  box.put('var/run/kubevirt-private/secret/keys-access-cred/..data/alice', 'not a key');
  const vmi = vmiWith(
    {},
    {
      hostname: `${'h'.repeat(80)}`,
      volumes: [
        { name: 'seed', cloudInitConfigDrive: { secretRef: { name: 's' }, networkDataSecretRef: { name: 'n' } } },
      ],
      accessCredentials: [
        {
          sshPublicKey: { source: { secret: { secretName: 'keys' } }, propagationMethod: { configDrive: {} } },
        },
        { sshPublicKey: { source: { secret: { secretName: 'other' } }, propagationMethod: { noCloud: {} } } },
      ],
    },
  );
  const iso = (await prepareDisks(vmi, box.env)).disks.get('seed')?.path ?? '';
  assert.equal(path.basename(iso), 'configdrive.iso');
  assert.equal(isoLabel(iso), 'config-2');
  assert.equal(isoFile(iso, 'openstack/latest/user_data'), '#!/bin/sh');
  assert.equal(isoFile(iso, 'openstack/latest/network_data.json'), '{"links":[]}');
  assert.deepEqual(JSON.parse(isoFile(iso, 'openstack/latest/meta_data.json')), {
    instance_id: 'testvm.default',
    hostname: 'h'.repeat(63),
    uuid: 'b3f5e2a0-5a2e-4a53-9f43-3a6a3c3b6f10',
    public_keys: { 0: 'ssh-ed25519 AAAA alice' },
  });
});

test('a config map becomes a CD with its keys, as the kubelet mounts them', async (t) => {
  const box = sandbox(t);
  const dir = 'var/run/kubevirt-private/config-map/cfg';
  box.put(`${dir}/..2026/app.conf`, 'a=1');
  symlinkSync('..2026', path.join(box.root, dir, '..data'));
  symlinkSync('..data/app.conf', path.join(box.root, dir, 'app.conf'));
  const iso =
    (
      await prepareDisks(withVolumes({ name: 'cfg', configMap: { name: 'c', volumeLabel: 'APPCONF' } }), box.env)
    ).disks.get('cfg')?.path ?? '';
  assert.equal(iso, path.join(box.root, 'var/run/kubevirt-private/config-map-disks/cfg.iso'));
  assert.equal(isoLabel(iso), 'APPCONF');
  assert.deepEqual(isoNames(iso), ['/app.conf']);
  assert.equal(isoFile(iso, 'app.conf'), 'a=1');
});

test('a link in a mounted secret that leads out of it is not followed into the CD', async (t) => {
  const box = sandbox(t);
  const outside = box.put('etc/shadow', 'root:x');
  const dir = path.join(box.root, 'var/run/kubevirt-private/secret/tls');
  mkdirSync(dir, { recursive: true });
  symlinkSync(outside, path.join(dir, 'key'));
  const volume: Volume = { name: 'tls', secret: { secretName: 's' } };
  await assert.rejects(prepareDisks(withVolumes(volume), box.env), { code: 'IMAGE_MISSING' });
});

test('sysprep without an answer file is refused, with one it becomes a CD', async (t) => {
  const box = sandbox(t);
  const vmi = withVolumes({ name: 'win', sysprep: { configMap: { name: 'c' } } });
  box.put('var/run/kubevirt-private/sysprep/win/readme', 'x');
  await assert.rejects(prepareDisks(vmi, box.env), { code: 'MISSING_SOURCE', message: /autounattend\.xml/ });
  box.put('var/run/kubevirt-private/sysprep/win/Unattend.xml', '<unattend/>');
  assert.equal(isoLabel((await prepareDisks(vmi, box.env)).disks.get('win')?.path ?? ''), 'unattendCD');
});

test('a tool that is stopped from outside leaves no half file', async (t) => {
  const box = sandbox(t, { signal: AbortSignal.abort() });
  const vmi = withVolumes({ name: 'scratch', emptyDisk: { capacity: '1Mi' } });
  await assert.rejects(prepareDisks(vmi, box.env), { code: 'TOOL_FAILED', message: /qemu-img was stopped/ });
  assert.deepEqual(readdirSync(path.join(box.root, 'var/run/libvirt/empty-disks')), []);
});
