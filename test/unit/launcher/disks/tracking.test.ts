import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { forgetChanges, noteGuestEnded, trackChanges, trackedImage } from '../../../../src/launcher/disks/tracking.ts';
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
  const track = (vmi = 'vmi-1', claim = 'c') =>
    trackChanges(vmi, volume(claim), { path: image, format: 'raw', isBlock: false }, { paths });
  const end = (vmi = 'vmi-1') => noteGuestEnded(vmi, { paths });
  const mark = () => execFileSync('qemu-img', ['bitmap', '--add', record, 'cp']);
  const bitmaps = () => {
    const info = JSON.parse(execFileSync('qemu-img', ['info', '--output=json', record], { encoding: 'utf8' }));
    const found = info['format-specific'].data.bitmaps ?? [];
    return [info['virtual-size'], found.map(({ name }: { name: string }) => name)];
  };
  return { root, paths, image, record, track, end, mark, bitmaps };
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

test('the next guest goes on with the record of an image that nobody has touched since the last one ended', async (t) => {
  const { image, track, end, mark, bitmaps } = place(t);
  await track('vmi-1');
  mark();
  writeFileSync(image, 'by the guest', { flag: 'r+' });
  await end('vmi-1');
  // What a kubelet does at each start.
  chmodSync(image, 0o660);
  await track('vmi-2');
  assert.deepEqual(bitmaps(), [mebibyte, ['cp']]);
  await end('vmi-2');
  await track('vmi-3');
  assert.deepEqual(bitmaps(), [mebibyte, ['cp']]);
});

test('an image that is gone when its guest ends costs the other disks nothing', async (t) => {
  const { root, paths, record, track, end, mark, bitmaps } = place(t);
  const gone = path.join(root, 'gone.img');
  writeFileSync(gone, '');
  truncateSync(gone, mebibyte);
  await track('vmi-1');
  await trackChanges(
    'vmi-1',
    { ...volume('other'), name: 'a-first' },
    { path: gone, format: 'raw', isBlock: false },
    { paths },
  );
  mark();
  rmSync(gone);
  await end('vmi-1');
  await track('vmi-2');
  assert.deepEqual(bitmaps(), [mebibyte, ['cp']], record);
});

test('what was written to the image beside a guest is not trusted to its record', async (t) => {
  const { image, track, end, mark, bitmaps } = place(t);
  const writes: Readonly<Record<string, () => void>> = {
    'in it': () => writeFileSync(image, 'restored', { flag: 'r+' }),
    'of an older copy with its times': () => utimesSync(image, 1, 1),
    'of its size': () => truncateSync(image, 2 * mebibyte),
  };
  for (const [what, write] of Object.entries(writes)) {
    await track('before');
    mark();
    await end('before');
    write();
    await track('after');
    assert.deepEqual(bitmaps()[1], [], what);
  }
});

test('a launcher or QEMU that was killed leaves a record that no other guest uses', async (t) => {
  const { record, track, end, mark, bitmaps } = place(t);
  await track('vmi-1');
  mark();
  await track('vmi-2');
  assert.deepEqual(bitmaps()[1], [], 'no end was seen');
  mark();
  await end('vmi-1');
  await track('vmi-3');
  assert.deepEqual(bitmaps()[1], [], 'an end of another guest');
  mark();
  const { signal } = spawnSync('qemu-io', ['-f', 'qcow2', '-c', 'write 0 512', '-c', 'sigraise 9', record]);
  assert.equal(signal, 'SIGKILL');
  await end('vmi-3');
  await track('vmi-4');
  assert.deepEqual(bitmaps()[1], [], 'what QEMU knew is lost');
});

test('a guest on its way to here keeps its record, which it has open elsewhere', async (t) => {
  const { image, record, track, mark, bitmaps } = place(t);
  await track('vmi-1');
  mark();
  const { ino } = lstatSync(record);
  writeFileSync(image, 'meanwhile', { flag: 'r+' });
  await track('vmi-1');
  assert.deepEqual([bitmaps(), lstatSync(record).ino], [[mebibyte, ['cp']], ino]);
});

test('a record that names another file, or has one below it, is made anew and nothing of it opened', async (t) => {
  const { root, image, record, track, mark, bitmaps } = place(t);
  const secret = path.join(root, 'secret');
  writeFileSync(secret, 'secret');
  truncateSync(secret, mebibyte);
  const changes: readonly (readonly string[])[] = [
    ['amend', '-f', 'qcow2', '-o', `data_file=${secret}`, record],
    ['amend', '-f', 'qcow2', '-o', 'data_file_raw=off', record],
    ['create', '-q', '-f', 'qcow2', record, '1M'],
    ['create', '-q', '-f', 'qcow2', '-F', 'raw', '-b', secret, record],
  ];
  for (const change of changes) {
    await track();
    mark();
    execFileSync('qemu-img', change);
    await track();
    const info = JSON.parse(execFileSync('qemu-img', ['info', '--output=json', record], { encoding: 'utf8' }));
    const { 'data-file': file, 'data-file-raw': isRaw } = info['format-specific'].data;
    assert.deepEqual(
      [file, isRaw, info['backing-filename'], bitmaps()[1]],
      [image, true, undefined, []],
      change.join(' '),
    );
  }
});

test('another image, another claim, a smaller image or half a record: what changed is not known', async (t) => {
  const { image, record, track, bitmaps } = place(t);
  const marked = async () => {
    await track();
    execFileSync('qemu-img', ['bitmap', '--add', record, 'cp']);
  };
  await marked();
  await track('vmi-1', 'other');
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

test('a file of the host stays whose it is', { skip: process.getuid?.() === 0 ? false : 'needs root' }, async (t) => {
  const { paths, image } = place(t);
  const owner = { uid: 107, gid: 107 };
  const data = { name: 'data', hostDisk: { path: image, type: 'Disk' as const } };
  const found = { path: image, format: 'raw' as const, isBlock: false };
  await trackChanges('vmi-1', data, { ...found, keepsOwner: true }, { paths, owner });
  assert.equal(lstatSync(image).uid, 0);
  await trackChanges('vmi-1', volume('c'), found, { paths, owner });
  assert.equal(lstatSync(image).uid, 107);
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
