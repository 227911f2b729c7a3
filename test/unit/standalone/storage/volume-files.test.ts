import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, open, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { VolumeFiles } from '../../../../src/standalone/index.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'disks are given to QEMU’s user: this takes root';
const mebibyte = 2 ** 20;
const run = promisify(execFile);

describe('disks of volumes', { skip: needsRoot }, () => {
  let dir: string;
  let files: VolumeFiles;
  const makeFiles = (root: string) =>
    new VolumeFiles({
      volumesDir: path.join(root, 'volumes'),
      snapshotsDir: path.join(root, 'snapshots'),
      owner: { uid: 107, gid: 107 },
    });
  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'volume-files-'));
    files = makeFiles(dir);
    await files.sweep();
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const shape = { sizeBytes: 8 * mebibyte, isBlock: false };
  const never = { signal: new AbortController().signal, requireUnused: async () => undefined };

  test('a copy has the holes of its source, and no link to it', async () => {
    await files.create('a', { ...shape, sizeBytes: 512 * mebibyte }, undefined, never);
    const disk = await open(files.image('a'), 'r+');
    await disk.write(Buffer.alloc(4096, 'x'), 0, 4096, 256 * mebibyte);
    await disk.close();
    await files.create('b', { ...shape, sizeBytes: 512 * mebibyte }, { volume: 'a' }, never);
    const { size, blocks, nlink, mode, uid } = await stat(files.image('b'));
    assert.deepEqual([size, nlink, mode & 0o777, uid], [512 * mebibyte, 1, 0o600, 107]);
    assert.ok(blocks * 512 < mebibyte, `${blocks} blocks`);
  });

  test('a copy that is ended on the way leaves nothing', async () => {
    await files.create('a', shape, undefined, never);
    const ending = { ...never, signal: AbortSignal.abort(new Error('the node stops')) };
    await assert.rejects(files.create('b', shape, { volume: 'a' }, ending));
    await assert.rejects(files.snapshot('a', 'one', ending));
    assert.deepEqual(
      [await readdir(path.join(dir, 'volumes')), await readdir(path.join(dir, 'snapshots'))],
      [['a'], []],
    );
  });

  test('a disk is full: the error says so, and there is no half of a volume or a snapshot', async () => {
    const root = path.join(dir, 'small');
    await run('mkdir', [root]);
    await run('mount', ['-t', 'tmpfs', '-o', 'size=3m', 'tmpfs', root]);
    try {
      const small = makeFiles(root);
      await small.sweep();
      await small.create('a', shape, undefined, never);
      await writeFile(small.image('a'), Buffer.alloc(2 * mebibyte, 'x'), { flag: 'r+' });
      await assert.rejects(small.create('b', shape, { volume: 'a' }, never), /No space left on device/);
      await assert.rejects(small.snapshot('a', 'one', never), /No space left on device/);
      assert.deepEqual(
        [await readdir(path.join(root, 'volumes')), await readdir(path.join(root, 'snapshots'))],
        [['a'], []],
      );
    } finally {
      await run('umount', [root]);
    }
  });

  test('no pod gets a disk while it is copied block by block, and one that has it ends the copy', async () => {
    await files.create('a', shape, undefined, never);
    const canShare = await files.canShare();
    let wasHeld = false;
    const requireUnused = async () => {
      wasHeld = files.isBeingCopied('a');
    };
    await files.snapshot('a', 'one', { ...never, requireUnused });
    assert.deepEqual([wasHeld, files.isBeingCopied('a')], [!canShare, false]);
    let names: string[] = [];
    const look = async () => {
      names = (await readdir(path.join(dir, 'volumes'))).filter((name) => !/^\..+\.new$/.test(name));
    };
    await files.create('b', shape, { volume: 'a' }, { ...never, requireUnused: look });
    assert.deepEqual(names, canShare ? [] : ['a'], 'what is not whole yet has the name of a draft');
    const inUse = { ...never, requireUnused: async () => assert.fail('in use') };
    const copying = files.snapshot('a', 'two', inUse).then(
      () => 'copied',
      () => 'refused',
    );
    assert.equal(await copying, canShare ? 'copied' : 'refused');
    assert.equal(files.isBeingCopied('a'), false);
  });

  for (const handle of ['', '..', '../a', 'a/b', '.a.new', 'x'.repeat(300)]) {
    test(`no path is made of the handle ${JSON.stringify(handle.slice(0, 12))}`, async () => {
      await assert.rejects(files.create(handle, shape, undefined, never), { code: 'VOLUME_DAMAGED' });
      await assert.rejects(files.remove(handle), { code: 'VOLUME_DAMAGED' });
      await assert.rejects(files.removeSnapshot(handle), { code: 'VOLUME_DAMAGED' });
    });
  }

  test('a disk that grows keeps its bytes, and one that is larger stays', async () => {
    await files.create('a', shape, undefined, never);
    await files.grow('a', 9 * mebibyte);
    await files.grow('a', mebibyte);
    assert.equal((await stat(files.image('a'))).size, 9 * mebibyte);
  });
});
