import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { ImageStore, pageImages } from '../../../../src/standalone/index.ts';

const { signal } = new AbortController();
const disk = Buffer.alloc(65_536, 'a disk ');

describe('images that come over the page', () => {
  let top: string;
  let store: ImageStore;

  beforeEach(async () => {
    top = await mkdtemp(path.join(tmpdir(), 'page-images-'));
    store = new ImageStore({ dir: path.join(top, 'images') });
  });
  afterEach(() => rm(top, { recursive: true, force: true }));

  const upload = (reference: string, content: Buffer | Readable) =>
    pageImages(store).upload(reference, content instanceof Readable ? content : Readable.from([content]), signal);
  const left = async () => (await readdir(store.dir).catch(() => [])).sort();

  /** Made by the real qemu-img. */
  async function qcow2(...args: readonly string[]): Promise<Buffer> {
    const file = path.join(top, 'made.qcow2');
    execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', ...args, file, '1M']);
    return readFile(file);
  }

  test('a raw disk is there under its reference, whole, for every user of a pod', async () => {
    const image = await upload('my/raw:1', disk);
    assert.deepEqual(image, { reference: 'my/raw:1', boots: 'disk', format: 'raw', sizeBytes: 65_536 });
    const file = path.join(await store.resolve('my/raw:1'), 'disk/disk.img');
    assert.deepEqual(await readFile(file), disk);
    assert.equal((await stat(file)).mode & 0o777, 0o644);
    assert.deepEqual(
      (await pageImages(store).list()).map(({ reference, boots }) => [reference, boots]),
      [['my/raw:1', 'disk']],
    );
  });

  test('a qcow2 that qemu-img can read is taken', async () => {
    assert.equal((await upload('my/q', await qcow2())).format, 'qcow2');
  });

  test('what a launcher does not take becomes a qcow2, and what is packed is unpacked, as with virt-node image add', async () => {
    const packed = await upload('my/packed', gzipSync(disk));
    assert.deepEqual([packed.format, packed.boots], ['raw', 'disk']);
    assert.deepEqual(await readFile(path.join(await store.resolve('my/packed'), 'disk/disk.img')), disk);
    execFileSync('qemu-img', ['create', '-q', '-f', 'vmdk', path.join(top, 'made.vmdk'), '1M']);
    assert.equal((await upload('my/vmdk', await readFile(path.join(top, 'made.vmdk')))).format, 'qcow2');
    const record = await store.recordOf(await store.resolve('my/vmdk'));
    assert.deepEqual([record?.disk?.givenAs, record?.disk?.virtualBytes], ['vmdk', 2 ** 20]);
    assert.deepEqual(
      (await pageImages(store).list()).map(({ reference, format }) => [reference, format]),
      [
        ['my/packed', 'raw'],
        ['my/vmdk', 'qcow2'],
      ],
    );
  });

  test('one that names a file of this machine is refused before any program opens it, and nothing is left of it', async () => {
    await writeFile(path.join(top, 'secret'), disk);
    const backed = await qcow2('-b', path.join(top, 'secret'), '-F', 'raw');
    await assert.rejects(upload('my/a', backed), { code: 'DISK_REFUSED', message: /has a backing file: flatten it/ });
    const apart = await qcow2('-o', `data_file=${path.join(top, 'secret')},data_file_raw=on`);
    await assert.rejects(upload('my/b', apart), { code: 'DISK_REFUSED', message: /keeps its data in another file/ });
    assert.deepEqual(await left(), []);
  });

  const refused: readonly (readonly [what: string, content: Buffer, why: RegExp])[] = [
    ['nothing', Buffer.alloc(0), /the upload is empty/],
    ['what is packed twice', gzipSync(gzipSync(disk)), /is packed twice: unpack it first/],
    ['a vmdk that is none', Buffer.from(`KDMV${'x'.repeat(100)}`), /is no vmdk disk that QEMU can read/],
    ['a web page', Buffer.from('<!DOCTYPE html><title>404</title>'), /is a web page and no disk/],
  ];
  for (const [what, content, why] of refused) {
    test(`${what} is refused in words`, async () => {
      await assert.rejects(upload('my/x', content), { code: 'DISK_REFUSED', message: why });
      assert.deepEqual(await left(), []);
    });
  }

  test('half a qcow2 is refused in the words of qemu-img', async () => {
    const torn = (await qcow2()).subarray(0, 90);
    await assert.rejects(upload('my/x', torn), {
      code: 'DISK_REFUSED',
      message: /is no qcow2 disk that QEMU can read: /,
    });
  });

  test('what breaks off is not there, and an image that is there is not replaced', async () => {
    async function* breaks() {
      yield disk;
      throw new Error('the client has gone');
    }
    await assert.rejects(upload('my/x', Readable.from(breaks())), { message: 'the client has gone' });
    assert.deepEqual(await left(), []);
    await upload('my/x', disk);
    await assert.rejects(upload('my/x', disk), { code: 'IMAGE_INVALID', message: /there is an image my\/x already/ });
    await assert.rejects(upload('../x', disk), { code: 'IMAGE_INVALID', message: /is no image reference/ });
    assert.deepEqual(await left(), ['my%2Fx']);
  });

  test('a kernel with its RAM disk is told from a disk', async () => {
    await store.put('virt-node/demo', async ({ image }) => {
      await mkdir(path.join(image, 'boot'));
      for (const name of ['vmlinuz', 'initramfs.gz']) await writeFile(path.join(image, 'boot', name), 'x');
      return undefined;
    });
    const [found] = await pageImages(store).list();
    assert.deepEqual([found?.reference, found?.boots], ['virt-node/demo', 'kernel']);
  });
});
