import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { openBelow, openInRoot, openNoFollow, openTrusted, type SafePath } from '../../../src/host/index.ts';

let base: string;
let descriptors: number;
const openDescriptors = () => readdirSync('/proc/self/fd').length;

beforeEach(() => {
  base = mkdtempSync(path.join(tmpdir(), 'safe-'));
  mkdirSync(path.join(base, 'pod/dir'), { recursive: true });
  writeFileSync(path.join(base, 'pod/dir/file'), 'inside');
  writeFileSync(path.join(base, 'outside'), 'outside');
  descriptors = openDescriptors();
});
afterEach(() => {
  assert.equal(openDescriptors(), descriptors, 'a descriptor stayed open');
  rmSync(base, { recursive: true, force: true });
});

const link = (target: string, at: string) => symlinkSync(target, path.join(base, at));
const read = (opened: SafePath) => {
  try {
    // Of a file this leads to what was opened, as of a socket.
    return readFileSync(opened.socketAddress, 'utf8');
  } finally {
    opened.close();
  }
};

describe('openNoFollow', () => {
  it('opens a file element by element', () => assert.equal(read(openNoFollow(base, 'pod/dir/file')), 'inside'));

  it('follows a link in the trusted base', () => {
    link('pod', 'alias');
    assert.equal(read(openNoFollow(path.join(base, 'alias'), 'dir/file')), 'inside');
  });

  for (const [what, at, target] of [
    ['as last element', 'pod/dir/link', '/etc/hostname'],
    ['to a file beside it', 'pod/dir/link', 'file'],
    ['that leads nowhere', 'pod/dir/link', '/nowhere'],
  ] as const) {
    it(`refuses a link ${what}`, () => {
      link(target, at);
      assert.throws(() => openNoFollow(base, at), { code: 'SYMLINK' });
    });
  }

  it('refuses a link in the middle', () => {
    link('dir', 'pod/link');
    assert.throws(() => openNoFollow(base, 'pod/link/file'), { code: 'SYMLINK' });
  });

  for (const relative of ['', '/pod', 'pod/../outside', './pod', 'pod//dir', 'pod/', '..', 'pod/\0']) {
    it(`refuses ${JSON.stringify(relative)}`, () => {
      assert.throws(() => openNoFollow(base, relative), { code: 'NOT_CLEAN' });
    });
  }

  it('names what is missing', () => assert.throws(() => openNoFollow(base, 'pod/none'), { code: 'ENOENT' }));

  it('keeps meaning what it opened when the path is replaced by a link later', () => {
    const opened = openNoFollow(base, 'pod/dir/file');
    rmSync(path.join(base, 'pod/dir/file'));
    link('/etc/hostname', 'pod/dir/file');
    assert.equal(read(opened), 'inside');
  });
});

describe('openInRoot', () => {
  const root = () => path.join(base, 'pod');
  for (const [what, target] of [
    ['an absolute link', '/dir'],
    ['a relative link', 'dir'],
    ['a link with too many ..', '../../../../dir'],
    ['a link through itself', './x/../dir'],
  ] as const) {
    it(`takes ${what} relative to the root`, () => {
      mkdirSync(path.join(root(), 'x'));
      link(target, 'pod/link');
      assert.equal(read(openInRoot(root(), 'link/file')), 'inside');
    });
  }

  it('cannot be left: outside is not found', () => {
    link('../outside', 'pod/escape');
    assert.throws(() => openInRoot(root(), 'escape'), { code: 'ENOENT' });
    assert.throws(() => openInRoot(root(), '../outside'), { code: 'ENOENT' });
    assert.throws(() => openInRoot(root(), 'dir/../../outside'), { code: 'ENOENT' });
  });

  it('follows links to links, as /var/run in a pod', () => {
    mkdirSync(path.join(root(), 'run/kubevirt'), { recursive: true });
    mkdirSync(path.join(root(), 'var'));
    link('/run', 'pod/var/run');
    writeFileSync(path.join(root(), 'run/kubevirt/file'), 'found');
    assert.equal(read(openInRoot(root(), '/var/run/kubevirt/file')), 'found');
  });

  it('gives up on a loop of links', () => {
    link('b', 'pod/a');
    link('a', 'pod/b');
    assert.throws(() => openInRoot(root(), 'a'), { code: 'TOO_MANY_ELEMENTS' });
  });
});

describe('openBelow', () => {
  it('follows links of the image, and none below', () => {
    mkdirSync(path.join(base, 'pod/run/own'), { recursive: true });
    writeFileSync(path.join(base, 'pod/run/own/file'), 'own');
    link('/run', 'pod/alias');
    assert.equal(read(openBelow(path.join(base, 'pod'), '/alias', 'own/file')), 'own');
    link('own', 'pod/run/link');
    assert.throws(() => openBelow(path.join(base, 'pod'), '/alias', 'link/file'), { code: 'SYMLINK' });
    assert.throws(() => openBelow(path.join(base, 'pod'), '/alias', '../outside'), { code: 'NOT_CLEAN' });
  });
});

describe('SafePath', () => {
  it('uses a file that it made through its descriptor, whatever takes its name', () => {
    const directory = openTrusted(path.join(base, 'pod'));
    const file = directory.create('new', 0o600);
    assert.equal(file.isAt(directory, 'new'), true);
    directory.unlink('new');
    assert.equal(file.isAt(directory, 'new'), false);
    link(path.join(base, 'outside'), 'pod/new');
    file.setSize(1_000);
    assert.equal(file.isAt(directory, 'new'), false);
    for (const opened of [file, directory]) opened.close();
    file.close();
    assert.equal(readFileSync(path.join(base, 'outside'), 'utf8'), 'outside');
  });

  it('gives a second name only where there is none', () => {
    const directory = openTrusted(path.join(base, 'pod/dir'));
    directory.link('file', 'second');
    assert.throws(() => directory.link('file', 'second'), { code: 'EEXIST' });
    assert.deepEqual(directory.names().sort(), ['file', 'second']);
    directory.close();
  });

  it('has no text of a link where none is', () => {
    link('dir', 'pod/link');
    const directory = openTrusted(path.join(base, 'pod'));
    assert.deepEqual(
      ['link', 'dir', 'none'].map((name) => directory.linkText(name)),
      ['dir', undefined, undefined],
    );
    directory.close();
  });

  it('removes a link, not its target', () => {
    link(path.join(base, 'outside'), 'pod/link');
    const directory = openTrusted(path.join(base, 'pod'));
    directory.unlink('link');
    directory.close();
    assert.equal(readFileSync(path.join(base, 'outside'), 'utf8'), 'outside');
    assert.deepEqual(readdirSync(path.join(base, 'pod')), ['dir']);
  });

  it('does not touch through a link', () => {
    link(path.join(base, 'made-by-link'), 'pod/link');
    const directory = openTrusted(path.join(base, 'pod'));
    assert.throws(() => directory.touch('link', 0o666), { code: 'EEXIST' });
    directory.touch('new', 0o600);
    directory.close();
    assert.deepEqual(readdirSync(base).sort(), ['outside', 'pod']);
    assert.equal(statSync(path.join(base, 'pod/new')).mode & 0o777, 0o600);
  });

  it('refuses names with a slash', () => {
    const directory = openTrusted(base);
    assert.throws(() => directory.unlink('pod/dir'), { code: 'NOT_CLEAN' });
    assert.throws(() => directory.child('..'), { code: 'NOT_CLEAN' });
    directory.close();
    directory.close();
  });
});
