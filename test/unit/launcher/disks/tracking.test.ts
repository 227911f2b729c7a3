import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { forgetChanges, trackChanges, trackedImage } from '../../../../src/launcher/disks/tracking.ts';
import { launcherPaths } from '../../../../src/launcher/domain/index.ts';

const mebibyte = 2 ** 20;
const volume = (claimName: string) => ({ name: 'data', persistentVolumeClaim: { claimName } });

function place(t: TestContext) {
  const root = mkdtempSync(path.join(tmpdir(), 'tracking-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const paths = launcherPaths({ nonRoot: true, root });
  mkdirSync(paths.trackingDir, { recursive: true });
  // A comma would end an option of qemu-img.
  const image = path.join(root, 'disk,one.img');
  writeFileSync(image, 'guest');
  truncateSync(image, mebibyte);
  const record = path.join(paths.trackingDir, 'data.qcow2');
  const track = (claim = 'c') => trackChanges(volume(claim), { path: image, format: 'raw', isBlock: false }, { paths });
  const bitmaps = () => {
    const info = JSON.parse(execFileSync('qemu-img', ['info', '--output=json', record], { encoding: 'utf8' }));
    const found = info['format-specific'].data.bitmaps ?? [];
    return [info['virtual-size'], found.map(({ name }: { name: string }) => name)];
  };
  return { paths, image, record, track, bitmaps };
}

test('the image keeps what it has and becomes the data of its record', async (t) => {
  const { paths, image, record, track, bitmaps } = place(t);
  const disk = await track();
  assert.deepEqual(disk, { path: record, format: 'qcow2', isBlock: false, dataStore: { path: image, isBlock: false } });
  assert.equal(readFileSync(image).subarray(0, 5).toString(), 'guest');
  assert.deepEqual(bitmaps(), [mebibyte, []]);
  assert.equal(existsSync(`${record}.empty`), false);
  execFileSync('qemu-io', ['-f', 'qcow2', '-c', 'write -P 0x41 4096 512', record]);
  assert.equal(readFileSync(image).subarray(4096, 4099).toString(), 'AAA');
  assert.deepEqual((await trackedImage('data', { paths }))?.path, image);
});

test('a second start keeps the bitmaps, also of an image that has grown', async (t) => {
  const { image, record, track, bitmaps } = place(t);
  await track();
  execFileSync('qemu-img', ['bitmap', '--add', record, 'cp']);
  await track();
  assert.deepEqual(bitmaps(), [mebibyte, ['cp']]);
  truncateSync(image, 2 * mebibyte);
  await track();
  assert.deepEqual(bitmaps(), [2 * mebibyte, ['cp']]);
});

test('another image, another claim, a smaller image or half a record: what changed is not known', async (t) => {
  const { image, record, track, bitmaps } = place(t);
  const marked = async () => {
    await track();
    execFileSync('qemu-img', ['bitmap', '--add', record, 'cp']);
  };
  await marked();
  await track('other');
  assert.deepEqual(bitmaps(), [mebibyte, []]);
  await marked();
  writeFileSync(`${image}.new`, 'other');
  truncateSync(`${image}.new`, mebibyte);
  renameSync(`${image}.new`, image);
  await track();
  assert.deepEqual(bitmaps(), [mebibyte, []]);
  await marked();
  truncateSync(image, mebibyte / 2);
  await track();
  assert.deepEqual(bitmaps(), [mebibyte / 2, []]);
  writeFileSync(record, 'rubbish');
  await track();
  assert.deepEqual(bitmaps(), [mebibyte / 2, []]);
});

test('a pod without a place for records says so, and an unplugged volume leaves none', async (t) => {
  const { paths, record, track } = place(t);
  await track();
  await forgetChanges('data', { paths });
  assert.deepEqual([existsSync(record), await trackedImage('data', { paths })], [false, undefined]);
  rmSync(paths.trackingDir, { recursive: true });
  await assert.rejects(track(), {
    code: 'MISSING_SOURCE',
    message: /cannot be recorded: .* is not mounted; restart the VM/,
  });
});
