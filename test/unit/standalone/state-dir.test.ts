import assert from 'node:assert/strict';
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { ensureStateDir, nodePaths } from '../../../src/standalone/index.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'only root can make files of other users';

describe('the state directory', { skip: needsRoot }, () => {
  let top: string;
  const mode = async (file: string) => (await stat(file)).mode & 0o7777;
  const ensure = (...names: string[]) => ensureStateDir(nodePaths(path.join(top, ...names)), 0);

  beforeEach(async () => {
    top = await mkdtemp(path.join(tmpdir(), 'virt-state-'));
  });
  afterEach(() => rm(top, { recursive: true, force: true }));

  test('is made for its owner only, with all parents that are missing', async () => {
    await ensure('a', 'state');
    assert.equal(await mode(path.join(top, 'a/state')), 0o700);
    for (const name of await readdir(path.join(top, 'a/state'))) {
      assert.equal(await mode(path.join(top, 'a/state', name)), 0o700, name);
    }
  });

  test('that is a file, or below one, is refused in words', async () => {
    await writeFile(path.join(top, 'file'), '');
    for (const names of [['file'], ['file', 'state'], ['file', 'a', 'b']])
      await assert.rejects(ensure(...names), { code: 'UNSAFE_STATE_DIR', message: /is a file, or below one: choose/ });
  });

  test('of an older version is tightened, with what lies in it', async () => {
    for (const name of ['pods', 'run', 'run/log', 'run/pod-logs', 'images', 'cache']) {
      await mkdir(path.join(top, 'state', name), { recursive: true });
      await chmod(path.join(top, 'state', name), 0o755);
    }
    await chmod(path.join(top, 'state'), 0o755);
    await ensure('state');
    for (const name of ['.', 'pods', 'run', 'run/log', 'run/pod-logs', 'images', 'cache', 'api']) {
      assert.equal(await mode(path.join(top, 'state', name)), 0o700, name);
    }
  });

  test('loses the cache of libvirt that pods of an older version could write to', async () => {
    await mkdir(path.join(top, 'state/cache/libvirt/qemu'), { recursive: true });
    await chmod(path.join(top, 'state'), 0o700);
    await symlink('/etc', path.join(top, 'state/cache/libvirt/qemu/capabilities'));
    await ensure('state');
    assert.deepEqual(await readdir(path.join(top, 'state/cache')), []);
    assert.ok((await stat('/etc')).isDirectory());
  });

  test('may lie in a sticky directory, and a part of it elsewhere behind a link of the owner', async () => {
    await chmod(top, 0o1777);
    await mkdir(path.join(top, 'disk'));
    await mkdir(path.join(top, 'state'), { mode: 0o700 });
    await symlink(path.join(top, 'disk'), path.join(top, 'state/images'));
    await ensure('state');
  });

  test('is not taken below a parent that somebody else made in between', async () => {
    await chmod(top, 0o1777);
    // He is as far as the node's first look, or a little before or behind.
    for (let round = 0; round < 120; round++) {
      const parent = path.join(top, `parent-${round}`);
      const theirs = path.join(top, `theirs-${round}`);
      await mkdir(theirs);
      await chown(theirs, 65534, 65534);
      const made = ensure(`parent-${round}`, 'state').then(
        () => 'taken',
        (error: { code?: string }) => error.code,
      );
      for (let step = 0; step < round % 12; step++) await lstat('/');
      const isTheirs = await rename(theirs, parent).then(
        () => true,
        () => false,
      );
      assert.equal(await made, isTheirs ? 'UNSAFE_STATE_DIR' : 'taken', `round ${round}`);
    }
  });

  const refused: readonly [string, RegExp, () => Promise<unknown>][] = [
    [
      'belongs to another user',
      /belongs to the user with the id 65534.*--state-dir/,
      () => chown(`${top}/state`, 65534, 65534),
    ],
    ['could be written by others', /could be written by other users/, () => chmod(`${top}/state`, 0o777)],
    ['could be written by a group', /could be written by other users/, () => chmod(`${top}/state`, 0o770)],
    ['lies in a directory that others may write', /other users may write to .*\/var\/lib/, () => chmod(top, 0o777)],
    ['lies in a directory of another user', /belongs to the user with the id 65534/, () => chown(top, 65534, 65534)],
    [
      'has a part of another user',
      /pods belongs to the user with the id 65534/,
      async () => {
        await mkdir(`${top}/state/pods`);
        await chown(`${top}/state/pods`, 65534, 65534);
      },
    ],
    [
      'is a symbolic link',
      /is a symbolic link/,
      async () => {
        await mkdir(`${top}/other`);
        await rm(`${top}/state`, { recursive: true });
        await symlink(`${top}/other`, `${top}/state`);
      },
    ],
  ];
  for (const [what, message, arrange] of refused) {
    test(`that ${what} is refused with what to do`, async () => {
      await mkdir(path.join(top, 'state'));
      await arrange();
      await assert.rejects(ensure('state'), { code: 'UNSAFE_STATE_DIR', message });
    });
  }
});
