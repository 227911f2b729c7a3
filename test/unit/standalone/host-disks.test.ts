import assert from 'node:assert/strict';
import {
  chmod,
  chown,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { HostDisks } from '../../../src/standalone/index.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'only root gives files away';

describe('files of the host as disks', { skip: needsRoot }, () => {
  let top: string;
  const at = (name: string) => path.join(top, name);
  const newDisks = (dirs = [at('open')]) =>
    new HostDisks({ dirs, ownersDir: at('owners'), nodeDirs: [at('state'), at('images')] });
  const ownerOf = async (file: string) => {
    const { uid, gid } = await stat(file);
    return [uid, gid];
  };
  const take = (file: string, pod = 'p1') => newDisks().take(pod, 'v', { path: file, type: 'Disk' });

  beforeEach(async () => {
    top = await mkdtemp(path.join(tmpdir(), 'virt-host-disks-'));
    for (const name of ['open', 'closed', 'state']) await mkdir(at(name));
    await writeFile(at('open/a.img'), 'a');
    await writeFile(at('closed/secret'), 's');
  });
  afterEach(() => rm(top, { recursive: true, force: true }));

  const refused: readonly [string, string, RegExp, (() => Promise<unknown>)?][] = [
    ['a file of the system', '/etc/shadow', /"\/etc\/shadow" is not a file below .*open: .*--host-disk-dirs \/etc/],
    ['a file outside', 'closed/secret', /is not a file below/],
    ['a path that climbs out', 'open/../closed/secret', /is not a file below/],
    ['a relative path', './open/a.img', /is not a file below/],
    ['a directory', 'open/dir', /is not an ordinary file/, () => mkdir(at('open/dir'))],
    ['a link', 'open/link', /is a symbolic link/, () => symlink(at('closed/secret'), at('open/link'))],
    ['a file behind a link', 'open/dir/secret', /behind a link/, () => symlink(at('closed'), at('open/dir'))],
    [
      'a second name of a file',
      'open/hard',
      /has 2 names \(hard links\)/,
      () => link(at('closed/secret'), at('open/hard')),
    ],
    ['a set-uid program', 'open/a.img', /set-id/, () => chmod(at('open/a.img'), 0o4755)],
    ['what is not there', 'open/none', /create it, or use type DiskOrCreate/],
    ['a file where others may write', 'open/a.img', /other users may write/, () => chmod(at('open'), 0o777)],
    ['a file in a sticky directory', 'open/a.img', /other users may write to it/, () => chmod(at('open'), 0o1777)],
    ['a file where a group may write', 'open/a.img', /other users may write/, () => chmod(at('open'), 0o1770)],
    ['a file that others may reach', 'open/a.img', /chmod o-x .*open\)/, () => chmod(top, 0o755)],
    [
      'a file below a directory of others',
      'open/a.img',
      /belongs to the user with the id 65534/,
      () => chown(at('open'), 65534, 0),
    ],
  ];
  for (const [what, file, message, arrange] of refused) {
    test(`${what} is refused with the field and what to do, and keeps its owner`, async () => {
      await arrange?.();
      const before = await ownerOf(at('closed/secret'));
      const given = file.startsWith('/') || file.startsWith('.') ? file : `${top}/${file}`;
      await assert.rejects(take(given), (error: Error & { code?: string }) => {
        assert.equal(error.code, 'HOST_DISK_REFUSED');
        assert.match(error.message, /^spec\.volumes\[v\]\.hostDisk: /);
        assert.match(error.message, message);
        return true;
      });
      assert.deepEqual(await ownerOf(at('closed/secret')), before);
    });
  }

  test('the system’s and the node’s own files are refused whatever directories are open', async () => {
    await writeFile(at('state/token'), 't');
    const disks = newDisks(['/etc', top]);
    const disk = (file: string) => disks.take('p', 'v', { path: file, type: 'Disk' });
    await assert.rejects(disk('/etc/hostname'), { code: 'HOST_DISK_REFUSED', message: /belongs to the system/ });
    await assert.rejects(disk(at('state/token')), { code: 'HOST_DISK_REFUSED', message: /belongs to the node/ });
    assert.equal((await disk(at('open/a.img'))).file, at('open/a.img'));
  });

  test('the node’s own files are refused also when the state directory, or a part of it, lies behind a link', async () => {
    for (const name of ['real', 'real/state', 'big', 'big/images']) await mkdir(at(name));
    await writeFile(at('real/state/token'), 't');
    await writeFile(at('big/images/base.img'), 'i');
    await writeFile(at('big/a.img'), 'a');
    await rm(at('state'), { recursive: true });
    await symlink(at('real/state'), at('state'));
    await symlink(at('big/images'), at('images'));
    const disks = newDisks([at('real'), at('big')]);
    const disk = (file: string) => disks.take('p', 'v', { path: at(file), type: 'Disk' });
    await assert.rejects(disk('real/state/token'), { code: 'HOST_DISK_REFUSED', message: /belongs to the node/ });
    await assert.rejects(disk('big/images/base.img'), { code: 'HOST_DISK_REFUSED', message: /belongs to the node/ });
    assert.equal((await disk('big/a.img')).file, at('big/a.img'));
  });

  test('a directory that only its owner and group may search keeps others from a disk that became a program', async () => {
    await chmod(top, 0o755);
    await chmod(at('open'), 0o750);
    const { file, identity } = await take(at('open/a.img'));
    const { dev, ino } = await stat(at('open/a.img'), { bigint: true });
    assert.deepEqual([file, identity], [at('open/a.img'), `${dev}-${ino}`]);
  });

  test('a new file with the number of a deleted one has its own owner, not that one’s', async () => {
    await chown(at('open/a.img'), 1234, 5678);
    await take(at('open/a.img'), 'p1');
    const [record = ''] = await readdir(at('owners'));
    const known = JSON.parse(await readFile(at(`owners/${record}`), 'utf8'));
    await chown(at('open/a.img'), 0, 0);
    await writeFile(at(`owners/${record}`), JSON.stringify({ ...known, born: '1' }));
    await take(at('open/a.img'), 'p2');
    await newDisks().release('p1');
    await newDisks().release('p2');
    assert.deepEqual(await ownerOf(at('open/a.img')), [0, 0]);
  });

  test('a record of an older version, which does not tell when the file was made, counts for its path only', async () => {
    const { dev, ino } = await stat(at('open/a.img'));
    const older = { file: at('open/a.img'), uid: 1234, gid: 5678, pods: ['p1'] };
    await mkdir(at('owners'));
    await writeFile(at(`owners/${dev}-${ino}.json`), JSON.stringify(older));
    await newDisks().release('p1');
    assert.deepEqual(await ownerOf(at('open/a.img')), [1234, 5678]);
    await chown(at('open/a.img'), 0, 0);
    await writeFile(at(`owners/${dev}-${ino}.json`), JSON.stringify({ ...older, file: at('open/old.img') }));
    await take(at('open/a.img'), 'p2');
    await newDisks().release('p2');
    assert.deepEqual(await ownerOf(at('open/a.img')), [0, 0]);
  });

  test('the owner from before gets the file back when the last pod that had it ends, whoever asks', async () => {
    await chown(at('open/a.img'), 1234, 5678);
    await take(at('open/a.img'), 'p1');
    assert.deepEqual(await ownerOf(at('open/a.img')), [107, 107], 'a launcher takes no other owner’s');
    await take(at('open/a.img'), 'p2');
    await take(at('open/a.img'), 'p1');
    await newDisks().release('p1');
    assert.deepEqual(await ownerOf(at('open/a.img')), [107, 107]);
    await newDisks().release('p2');
    assert.deepEqual(await ownerOf(at('open/a.img')), [1234, 5678]);
    assert.deepEqual(await readdir(at('owners')), []);
    await newDisks().release('p2');
  });

  test('after a crash, what pods had of which nothing is left is given back; what others have is not', async () => {
    await writeFile(at('open/b.img'), 'b');
    for (const [name, pod] of [
      ['a', 'gone'],
      ['b', 'there'],
    ] as const) {
      await take(at(`open/${name}.img`), pod);
      await chown(at(`open/${name}.img`), 107, 107);
    }
    await newDisks().keepOnly(new Set(['there']));
    assert.deepEqual(
      [await ownerOf(at('open/a.img')), await ownerOf(at('open/b.img'))],
      [
        [0, 0],
        [107, 107],
      ],
    );
  });

  test('a file that took the place of a disk meanwhile is not given to anybody', async () => {
    await chown(at('open/a.img'), 1234, 1234);
    await take(at('open/a.img'));
    await rename(at('open/a.img'), at('open/old'));
    await symlink(at('closed/secret'), at('open/a.img'));
    await newDisks().release('p1');
    assert.deepEqual(await ownerOf(at('closed/secret')), [0, 0]);
  });

  test('DiskOrCreate makes a sparse file for its VM only, whole or not at all, and keeps one that is there', async () => {
    const make = (capacity: string, file = at('open/new/c.img')) =>
      newDisks().take('p', 'v', { path: file, type: 'DiskOrCreate', capacity });
    await make('1Mi');
    const { size, mode, uid } = await stat(at('open/new/c.img'));
    assert.deepEqual([size, mode & 0o7777, uid], [2 ** 20, 0o600, 107]);
    await make('2Mi');
    assert.equal((await stat(at('open/new/c.img'))).size, 2 ** 20);
    await writeFile(at('open/.d.img.new'), 'another disk');
    await make('1Mi', at('open/d.img'));
    assert.equal(await readFile(at('open/.d.img.new'), 'utf8'), 'another disk');
    await rm(at('open/.d.img.new'));
    await rm(at('open/d.img'));
    await assert.rejects(make('1Pi', at('open/d.img')), { code: 'HOST_DISK_REFUSED', message: /are free/ });
    await assert.rejects(make('much', at('open/d.img')), { code: 'HOST_DISK_REFUSED', message: /is not a size/ });
    assert.deepEqual(await readdir(at('open')), ['a.img', 'new']);
  });
});
