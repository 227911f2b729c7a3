import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { resolveDirInRoot, resolveFileInRoot } from '../../../../src/launcher/disks/image-path.ts';
import { sandbox } from './sandbox.ts';

test('a path is looked up as if the image were the whole file system', async (t) => {
  const { root, put } = sandbox(t);
  put('secret');
  put('image/boot/vmlinuz-6.1');
  const image = path.join(root, 'image');
  symlinkSync('vmlinuz-6.1', path.join(image, 'boot/relative'));
  symlinkSync('/boot/vmlinuz-6.1', path.join(image, 'boot/absolute'));
  symlinkSync('../../../../secret', path.join(image, 'boot/upwards'));
  symlinkSync(path.join(root, 'secret'), path.join(image, 'boot/host'));
  symlinkSync('/', path.join(image, 'slash'));
  const kernel = path.join(image, 'boot/vmlinuz-6.1');
  for (const way of [
    '/boot/vmlinuz-6.1',
    'boot/relative',
    '//boot/./absolute',
    'slash/boot/absolute',
    '../../boot/relative',
  ]) {
    assert.equal(await resolveFileInRoot(image, way), kernel, way);
  }
  for (const outside of ['boot/upwards', 'boot/host', '../secret', '/../secret', 'slash/../secret']) {
    await assert.rejects(resolveFileInRoot(image, outside), { code: 'IMAGE_MISSING' }, outside);
  }
});

test('links in a circle end with an error instead of a hang', async (t) => {
  const { root } = sandbox(t);
  symlinkSync('b', path.join(root, 'a'));
  symlinkSync('a', path.join(root, 'b'));
  await assert.rejects(resolveFileInRoot(root, 'a'), { code: 'UNSAFE_PATH', message: /too many elements/ });
});

test('only an ordinary file passes as a file', async (t) => {
  const { root, put } = sandbox(t);
  mkdirSync(path.join(root, 'dir'));
  symlinkSync('/dev/zero', path.join(root, 'zero'));
  put('file');
  await assert.rejects(resolveFileInRoot(root, 'dir'), { code: 'UNSAFE_PATH' });
  await assert.rejects(resolveFileInRoot(root, 'zero'), { code: 'IMAGE_MISSING' });
  await assert.rejects(resolveFileInRoot(root, 'file/below'), { code: 'IMAGE_MISSING' });
  await assert.rejects(resolveFileInRoot(root, 'a\0b'), { code: 'UNSAFE_PATH' });
  await assert.rejects(resolveFileInRoot(root, ''), { code: 'UNSAFE_PATH' });
  await assert.rejects(resolveDirInRoot(root, 'file'), { code: 'UNSAFE_PATH' });
  assert.equal(await resolveDirInRoot(root, 'dir'), path.join(root, 'dir'));
});
