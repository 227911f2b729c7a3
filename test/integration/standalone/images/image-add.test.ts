import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import {
  addImage,
  describeImage,
  ImageStore,
  type ImageWish,
  listImages,
  nodePaths,
  refuseReplacing,
  removeImage,
} from '../../../../src/standalone/index.ts';
import { DiskServer } from '../../../fixtures/disk-server.ts';

describe('virt-node image', () => {
  let dir: string;
  let images: ImageStore;
  const inDir = (name: string) => path.join(dir, name);
  const deps = () => ({ paths: nodePaths(inDir('state')), images });
  const add = (reference: string, source: string, more: Partial<ImageWish> = {}) => {
    const wish = { reference, source, checksum: undefined, caFile: undefined, ...more };
    const { signal } = new AbortController();
    return addImage(wish, { images, signal, progress: () => undefined, now: () => new Date('2026-11-25T10:00:00Z') });
  };
  const sha256 = async (name: string) =>
    createHash('sha256')
      .update(await readFile(inDir(name)))
      .digest('hex');

  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-image-add-'));
    images = new ImageStore({ dir: path.join(inDir('state'), 'images') });
    await writeFile(inDir('raw'), Buffer.alloc(2 ** 20, 'data'));
    for (const format of ['qcow2', 'vmdk']) {
      execFileSync('qemu-img', ['convert', '-O', format, inDir('raw'), inDir(`disk.${format}`)]);
    }
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  test('a qcow2 stays as it is, and is known afterwards', async () => {
    const record = await add('my/debian:12', inDir('disk.qcow2'), { checksum: `sha256:${await sha256('disk.qcow2')}` });
    assert.deepEqual(record, {
      source: inDir('disk.qcow2'),
      addedAt: '2026-11-25T10:00:00Z',
      disk: {
        ...{ file: 'disk/disk.qcow2', format: 'qcow2', givenAs: 'qcow2', virtualBytes: 2 ** 20 },
        checksum: `sha256:${await sha256('disk.qcow2')}`,
      },
    });
    const file = path.join(images.directoryOf('my/debian:12'), 'disk/disk.qcow2');
    assert.deepEqual(await readFile(file), await readFile(inDir('disk.qcow2')));
    const { uid, mode } = await stat(file);
    assert.deepEqual([uid, mode & 0o777], [process.geteuid?.(), 0o644]);
    const text = (await describeImage(deps(), 'my/debian:12')).join('\n');
    assert.match(text, /size of the disk 1\.0 MiB \(1048576 bytes\)[\s\S]*used by +nobody/);
  });

  test('a VMDK becomes a qcow2, an ISO and a raw disk stay raw, packed ones are unpacked', async () => {
    execFileSync('xz', ['-k', inDir('raw')]);
    const iso = Buffer.concat([Buffer.alloc(0x8001), Buffer.from('CD001'), Buffer.alloc(2043)]);
    await writeFile(inDir('cd.iso'), iso);
    const given: [string, string, string][] = [
      ['disk.vmdk', 'qcow2', 'vmdk'],
      ['raw', 'raw', 'raw'],
      ['raw.xz', 'raw', 'raw'],
      ['cd.iso', 'raw', 'iso'],
    ];
    for (const [name, format, givenAs] of given) {
      const { disk } = await add(name, inDir(name));
      assert.deepEqual([disk?.format, disk?.givenAs], [format, givenAs], name);
    }
  });

  test('an address is fetched', async () => {
    const server = new DiskServer();
    const url = await server.start();
    server.files.set('/disk.qcow2', { bytes: await readFile(inDir('disk.qcow2')) });
    try {
      const { source, disk } = await add('far', `${url}/disk.qcow2?token=secret`);
      assert.deepEqual([source, disk?.format], [`${url}/disk.qcow2?…`, 'qcow2']);
    } finally {
      await server.stop();
    }
  });

  test('a directory comes as it is, without a record of another image', async () => {
    await add('one', inDir('raw'));
    await add('other', images.directoryOf('one'));
    assert.equal((await images.recordOf(images.directoryOf('other')))?.disk, undefined);
    assert.deepEqual(await readdir(path.join(images.directoryOf('other'), 'disk')), ['disk.img']);
  });

  test('my/x and my_x are two, with the disks that each was given', async () => {
    await add('my/x', inDir('raw'));
    await add('my_x', inDir('disk.qcow2'));
    assert.deepEqual(await listImages(deps(), true), ['my/x', 'my_x']);
    assert.match((await listImages(deps(), false)).join('\n'), /my\/x +raw +1\.0 MiB [\s\S]*my_x +qcow2 +1\.0 MiB/);
  });

  const wrong: readonly [string, Partial<ImageWish>, string, RegExp][] = [
    [
      'a wrong checksum',
      { checksum: `sha256:${'0'.repeat(64)}` },
      'CHECKSUM_DIFFERS',
      /has the sha256 checksum [0-9a-f]{64}, and should have 0{64}/,
    ],
    ['no checksum at all', { checksum: 'abc' }, 'USAGE', /--checksum: "abc" is none: give .*sha256/],
    ['no file', { source: '/nowhere' }, 'NOT_FOUND', /\/nowhere cannot be read \(ENOENT\)/],
    ['a registry', { source: 'docker://quay.io/x' }, 'USAGE', /docker is not spoken here/],
    ['a device', { source: '/dev/null' }, 'DISK_REFUSED', /neither a file nor a directory/],
    ['no reference', { reference: '../x' }, 'IMAGE_INVALID', /no image reference/],
  ];
  for (const [title, wish, code, words] of wrong) {
    test(`${title}: refused in words, and what was there stays`, async () => {
      const before = await add('x', inDir('raw'));
      await assert.rejects(add('x', inDir('disk.qcow2'), wish), (error: Error & { code?: string }) => {
        assert.match(error.message, words);
        assert.equal(error.code, code);
        return true;
      });
      assert.deepEqual(await images.recordOf(images.directoryOf('x')), before);
      assert.deepEqual(await readdir(images.dir), ['x']);
    });
  }

  test('an add that is interrupted leaves nothing', async () => {
    const server = new DiskServer();
    const url = await server.start();
    const stop = new AbortController();
    server.files.set('/disk', { bytes: Buffer.alloc(2 ** 20, 'x'), held: new Promise(() => undefined) });
    const wish = { reference: 'x', source: `${url}/disk`, checksum: undefined, caFile: undefined };
    const progress = () => stop.abort(new Error('asked to leave'));
    try {
      await assert.rejects(addImage(wish, { images, progress, signal: stop.signal }), /asked to leave/);
      assert.deepEqual(await readdir(images.dir), []);
    } finally {
      await server.stop();
    }
  });

  test('an image is removed by its name', async () => {
    await add('x', inDir('raw'));
    assert.equal(await removeImage(deps(), 'x', false), 'x is removed');
    assert.deepEqual(await readdir(images.dir), []);
    await assert.rejects(removeImage(deps(), 'x', false), { code: 'IMAGE_MISSING' });
  });

  test('an image that is not there is told with the one that was probably meant', async () => {
    await add('my/debian:12', inDir('raw'));
    const guessed = { code: 'IMAGE_MISSING', message: /image my\/debain:12 is not .*: did you mean my\/debian:12\?$/ };
    await assert.rejects(removeImage(deps(), 'my/debain:12', false), guessed);
    await assert.rejects(describeImage(deps(), 'other'), {
      message: /other is not on this node; virt-node image list/,
    });
    await assert.rejects(describeImage(deps(), '../x'), { code: 'IMAGE_INVALID' });
  });

  test('an image that no pod has mounted may be replaced while the node does not run', async () => {
    await add('x', inDir('raw'));
    await refuseReplacing(deps(), 'x');
    await refuseReplacing(deps(), 'never-there');
  });
});
