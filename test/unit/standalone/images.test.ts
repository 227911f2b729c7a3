import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { ImageStore } from '../../../src/standalone/index.ts';

describe('images of the node', () => {
  let top: string;
  let images: ImageStore;
  const references = async () => (await images.list()).map(({ reference }) => reference);

  beforeEach(async () => {
    top = await mkdtemp(path.join(tmpdir(), 'virt-images-'));
    images = new ImageStore({ dir: path.join(top, 'images') });
  });
  afterEach(() => rm(top, { recursive: true, force: true }));

  const word = fc
    .stringMatching(/^[a-z0-9][a-zA-Z0-9._:/@+-]{0,60}$/)
    .filter((text) => !/(^|\/)\.\.?(\/|$)/.test(text));

  test('no two references have one directory, and a directory tells its reference', () => {
    const seen = new Map<string, string>();
    fc.assert(
      fc.property(
        fc.oneof(word, fc.constantFrom('a/b', 'a:b', 'a_b', 'a%2Fb'.replace('%', '@'), 'A/b')),
        (reference) => {
          const name = path.basename(images.directoryOf(reference));
          assert.equal(decodeURIComponent(name), reference);
          assert.equal(seen.get(name) ?? reference, reference);
          seen.set(name, reference);
        },
      ),
    );
    const [one, two, three] = ['a/b', 'a:b', 'a_b'].map((reference) => images.directoryOf(reference));
    assert.equal(new Set([one, two, three]).size, 3);
  });

  for (const reference of [
    '',
    '.',
    '..',
    'a/../b',
    '/a',
    'a\0b',
    'a\nb',
    'a b',
    'ａ',
    'a‮b',
    'a%2Fb',
    '-a',
    `a${'/'.repeat(100)}`,
  ]) {
    test(`${JSON.stringify(reference)} is refused`, () => {
      assert.throws(() => images.directoryOf(reference), { code: 'IMAGE_INVALID' });
    });
  }

  test('a disk file or a directory is added, replacing what was there, and listed by its reference', async () => {
    const disk = path.join(top, 'my.qcow2');
    await writeFile(disk, 'one');
    await images.add('a/b', disk);
    await writeFile(disk, 'two');
    const target = await images.add('a/b', disk);
    assert.equal(await readFile(path.join(target, 'disk/my.qcow2'), 'utf8'), 'two');
    assert.deepEqual(await references(), ['a/b']);
    await assert.rejects(images.add('a/b', path.join(top, 'missing')), { code: 'NOT_FOUND' });
    assert.deepEqual(await readdir(images.dir), ['a%2Fb']);
  });

  test('every user of a pod may read an image, whatever the rights of its source; set-id bits and links’ targets do not come along', async () => {
    await mkdir(path.join(top, 'source/disk'), { recursive: true, mode: 0o700 });
    await writeFile(path.join(top, 'source/disk/a.img'), 'a');
    await chmod(path.join(top, 'source/disk/a.img'), 0o4700);
    await symlink('/etc/shadow', path.join(top, 'source/disk/link'));
    const umask = process.umask(0o077);
    const dir = await images.add('a', path.join(top, 'source')).finally(() => process.umask(umask));
    const modes = await Promise.all(['.', 'disk', 'disk/a.img'].map((name) => stat(path.join(dir, name))));
    assert.deepEqual(
      modes.map(({ mode }) => mode & 0o7777),
      [0o755, 0o755, 0o644],
    );
    assert.deepEqual((await readdir(path.join(dir, 'disk'))).sort(), ['a.img', 'link']);
  });

  test('of adds at once each leaves a whole image, and the last one stays', async () => {
    const contents = Array.from({ length: 8 }, (_, at) => `content ${at}`);
    for (const content of contents) {
      await mkdir(path.join(top, content));
      for (const name of ['a', 'b', 'c']) await writeFile(path.join(top, content, name), content);
    }
    await Promise.all(contents.map((content) => images.add('x/y', path.join(top, content))));
    const dir = await images.resolve('x/y');
    const parts = await Promise.all(['a', 'b', 'c'].map((name) => readFile(path.join(dir, name), 'utf8')));
    assert.equal(new Set(parts).size, 1);
    assert.ok(contents.includes(parts[0] ?? ''));
    assert.deepEqual(await readdir(images.dir), ['x%2Fy']);
  });

  test('what a killed add left is removed a day later', async () => {
    for (const name of ['.draft-old', '.draft-new']) await mkdir(path.join(images.dir, name), { recursive: true });
    await utimes(path.join(images.dir, '.draft-old'), new Date(0), new Date(0));
    await writeFile(path.join(top, 'f'), 'f');
    await images.add('a', path.join(top, 'f'));
    assert.deepEqual((await readdir(images.dir)).sort(), ['.draft-new', 'a']);
  });

  test('a directory of an older version becomes the image of the first reference that asks for it, and of no other', async () => {
    await mkdir(path.join(images.dir, 'virt-node_demo_1/disk'), { recursive: true });
    assert.deepEqual(await images.list(), [{ reference: undefined, name: 'virt-node_demo_1' }]);
    assert.equal(path.basename(await images.resolve('virt-node/demo:1')), 'virt-node%2Fdemo%3A1');
    await assert.rejects(images.resolve('virt-node:demo/1'), { code: 'IMAGE_MISSING' });
    await assert.rejects(images.resolve('virt-node_demo_1'), { code: 'IMAGE_MISSING' });
    assert.deepEqual(await references(), ['virt-node/demo:1']);
  });

  test('an image of now is never taken for one of an older version', async () => {
    await writeFile(path.join(top, 'f'), 'f');
    await images.add('a_b', path.join(top, 'f'));
    for (const other of ['a/b', 'a:b']) await assert.rejects(images.resolve(other), { code: 'IMAGE_MISSING' });
    assert.equal(await images.resolve('a_b'), path.join(images.dir, 'a%5Fb'));
    assert.deepEqual(await references(), ['a_b']);
  });

  test('an image whose reference has no such letter is where it was', async () => {
    await mkdir(path.join(images.dir, 'debian'), { recursive: true });
    assert.equal(await images.resolve('debian'), path.join(images.dir, 'debian'));
  });
});
