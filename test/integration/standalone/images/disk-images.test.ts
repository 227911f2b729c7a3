import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { detect } from '../../../../src/standalone/disk-images/detect.ts';
import { convert, findDisk, giveToImport, makeWorkDirectory } from '../../../../src/standalone/disk-images/index.ts';

const mib = 2 ** 20;
const gib = 2 ** 30;

describe('disk images from anywhere', () => {
  let dir: string;
  const signal = new AbortController().signal;
  const inDir = (name: string) => path.join(dir, name);
  const tool = (name: string, ...args: string[]) => execFileSync(name, args, { cwd: dir, stdio: 'pipe' });
  const find = async (name: string, maxBytes = gib) => {
    await giveToImport(inDir(name));
    return findDisk({ dir, name, what: name }, { maxBytes }, signal);
  };

  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-disks-'));
    await makeWorkDirectory(dir);
    await writeFile(inDir('raw'), Buffer.concat([Buffer.alloc(mib, 'data'), Buffer.alloc(mib)]));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  for (const kind of ['qcow2', 'vmdk', 'vdi', 'vhdx', 'vpc'] as const) {
    test(`a ${kind} is known by its content, and becomes the same raw disk`, async () => {
      tool('qemu-img', 'convert', '-f', 'raw', '-O', kind, 'raw', 'disk.img');
      const { file, info } = await find('disk.img');
      assert.equal(info.kind, kind);
      const shares: number[] = [];
      const raw = await convert(file, info, { to: 'raw', signal, onProgress: (share) => shares.push(share) });
      const bytes = await readFile(inDir(raw.name));
      assert.deepEqual(bytes.subarray(0, 2 * mib), await readFile(inDir('raw')));
      assert.equal(shares.at(-1), 1);
    });
  }

  test('a VMDK for streaming is taken, too', async () => {
    tool('qemu-img', 'convert', '-f', 'raw', '-O', 'vmdk', '-o', 'subformat=streamOptimized', 'raw', 'disk');
    assert.equal((await find('disk')).info.virtualBytes, 2 * mib);
  });

  test('raw, packed by gzip or xz, is unpacked and stays raw; zeros take no room', async () => {
    tool('gzip', '-k', 'raw');
    tool('xz', '-k', 'raw');
    for (const name of ['raw.gz', 'raw.xz']) {
      const { file, info } = await find(name);
      assert.deepEqual(info, { kind: 'raw', virtualBytes: 2 * mib });
      const raw = await convert(file, info, { to: 'raw', signal });
      const { blocks } = await stat(inDir(raw.name));
      assert.ok(blocks * 512 < 1.5 * mib, `${blocks} blocks`);
    }
  });

  test('an ISO is one by its volume descriptor', async () => {
    await writeFile(inDir('cd'), Buffer.concat([Buffer.alloc(0x8001), Buffer.from('CD001'), Buffer.alloc(2043)]));
    assert.equal((await find('cd')).info.kind, 'iso');
  });

  test('what names other files is refused by its first bytes, before any tool opens it', async () => {
    tool('qemu-img', 'create', '-f', 'qcow2', '-u', '-b', '/etc/passwd', '-F', 'raw', 'backed', '1M');
    tool('qemu-img', 'create', '-f', 'qcow2', '-o', 'data_file=data', 'apart', '1M');
    const header = Buffer.alloc(512);
    header.write('KDMV');
    await writeFile(inDir('described'), header);
    for (const name of ['backed', 'apart', 'described']) {
      await assert.rejects(detect(inDir(name), name), { code: 'DISK_REFUSED' }, name);
    }
  });

  const refused: readonly [string, () => Promise<void> | void, RegExp][] = [
    ['an empty file', () => writeFile(inDir('disk'), ''), /disk is empty/],
    ['a web page', () => writeFile(inDir('disk'), '<!DOCTYPE html>'), /is a web page and no disk/],
    [
      'zstd',
      () => writeFile(inDir('disk'), Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0])),
      /packed by zstd: unpack it first/,
    ],
    [
      'a qcow2 with a backing file',
      () => void tool('qemu-img', 'create', '-f', 'qcow2', '-u', '-b', '/etc/passwd', '-F', 'raw', 'disk', '1M'),
      /has a backing file: flatten it/,
    ],
    [
      'a qcow2 with its data elsewhere',
      () => void tool('qemu-img', 'create', '-f', 'qcow2', '-o', 'data_file=data', 'disk', '1M'),
      /keeps its data in another file/,
    ],
    [
      'a VMDK with its data elsewhere',
      () => void tool('qemu-img', 'create', '-f', 'vmdk', '-o', 'subformat=monolithicFlat', 'disk', '1M'),
      /data is in other files/,
    ],
    [
      'a qcow2 of a petabyte',
      () => void tool('qemu-img', 'create', '-f', 'qcow2', '-o', 'cluster_size=2M', 'disk', '1P'),
      /says that it is a disk of 1125899906842624 bytes; at most/,
    ],
    [
      'a torn qcow2',
      async () => {
        tool('qemu-img', 'convert', '-O', 'qcow2', 'raw', 'disk');
        await truncate(inDir('disk'), 100);
      },
      /is no qcow2 disk that QEMU can read/,
    ],
    ['a qcow2 of nothing', () => void tool('qemu-img', 'create', '-f', 'qcow2', 'disk', '0'), /size of 0 bytes/],
    ['packed twice', () => writeFile(inDir('disk'), gzipSync(gzipSync('x'))), /is packed twice/],
    ['a torn gzip', () => writeFile(inDir('disk'), gzipSync(Buffer.alloc(mib)).subarray(0, 50)), /cannot be unpacked/],
    ['a bomb', () => writeFile(inDir('disk'), gzipSync(Buffer.alloc(80 * mib))), /is more than 67108864 bytes when/],
  ];
  for (const [title, make, words] of refused) {
    test(`${title} is refused in words`, async () => {
      await make();
      await assert.rejects(find('disk', 64 * mib), (error: Error & { code?: string }) => {
        assert.match(error.message, words);
        return error.code === 'DISK_REFUSED';
      });
    });
  }
});
