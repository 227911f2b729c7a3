import assert from 'node:assert/strict';
import { link, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { resources } from '../../../src/api/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { namespace, StorageNode } from '../../fixtures/storage-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'disks are given to QEMU’s user: this takes root';
const mebibyte = 2 ** 20;

describe('snapshots and copies of the standalone node', { skip: needsRoot }, () => {
  let node: StorageNode;
  before(async () => {
    node = await StorageNode.create();
  });
  after(() => node.dispose());

  test('links that a guest’s launcher left are not followed: not when it grows, not by a snapshot, not when it goes', async () => {
    const victim = path.join(node.paths.stateDir, 'secret');
    await writeFile(victim, 'of the machine');
    await node.ask('hostile');
    const found = await node.bound('hostile');
    await rm(node.image(found));
    await symlink(victim, node.image(found));
    await node.snapshotOf('steals', 'hostile');
    await node.says('steals', /SnapshotCreationFailed: .*disk\.img is a symbolic link/);
    await node.client.patch(
      resources.persistentVolumeClaims,
      found.metadata,
      { spec: { resources: { requests: { storage: '9Mi' } } } },
      'merge',
    );
    await node.says('hostile', /VolumeResizeFailed: .*is a symbolic link/);
    await rm(node.image(found));
    await link(victim, node.image(found));
    await node.ask('copies', { dataSource: { kind: 'PersistentVolumeClaim', name: 'hostile' } });
    await node.says('copies', /has 2 names \(hard links\)/);
    await node.client.delete(resources.volumeSnapshots, { namespace, name: 'steals' });
    for (const name of ['copies', 'hostile']) await node.remove(name);
    for (const name of ['copies', 'hostile']) await node.gone(name);
    assert.equal(await readFile(victim, 'utf8'), 'of the machine');
    await eventually(async () => assert.deepEqual(await readdir(node.paths.snapshotsDir), []));
  });

  test('a snapshot is a copy of the disk; a new claim begins with it, and so does one that names another claim', async () => {
    await node.ask('origin');
    const origin = await node.bound('origin');
    await writeFile(node.image(origin), 'first', { flag: 'r+' });
    await node.snapshotOf('one', 'origin');
    const made = await node.ready('one');
    assert.deepEqual([made.status?.restoreSize, made.spec.volumeSnapshotClassName], ['4Mi', 'local']);
    await writeFile(node.image(origin), 'later', { flag: 'r+' });
    const dataSource = { kind: 'VolumeSnapshot', apiGroup: 'snapshot.storage.k8s.io', name: 'one' };
    await node.ask('restored', { dataSource }, '6Mi');
    const restored = await node.bound('restored');
    assert.match(await readFile(node.image(restored), 'latin1'), /^first/);
    assert.equal((await stat(node.image(restored))).size, 6 * mebibyte);
    await node.ask('cloned', { dataSource: { kind: 'PersistentVolumeClaim', name: 'origin' } });
    assert.match(await readFile(node.image(await node.bound('cloned')), 'latin1'), /^later/);
    await node.ask('small', { dataSource }, '1Mi');
    await node.says('small', /what is copied has 4Mi: ask for as much, or more/);
    const columns = (await node.kubectl.run(['get', 'volumesnapshot', 'one', '--no-headers'])).split(/ +/);
    assert.deepEqual([columns[0], columns[1], columns[2]], ['one', 'true', 'origin']);
    await node.client.delete(resources.volumeSnapshots, { namespace, name: 'one' });
    await eventually(async () => assert.equal(await node.snapshot('one'), undefined));
    await eventually(async () => assert.deepEqual(await readdir(node.paths.snapshotsDir), []));
    await eventually(async () =>
      assert.deepEqual((await node.client.list(resources.volumeSnapshotContents)).items, []),
    );
    for (const name of ['origin', 'restored', 'cloned', 'small']) await node.remove(name);
    for (const name of ['origin', 'restored', 'cloned', 'small']) await node.gone(name);
  });

  test('the claim of a running guest is copied at one moment or not at all, and the snapshot says what it waits for', async () => {
    await node.ask('busy');
    await node.bound('busy');
    const end = await node.pod('guest', 'busy');
    await node.snapshotOf('awaits', 'busy');
    await node.says('awaits', /(SnapshotCreationFailed: claim busy is in use by pod guest|SnapshotReady)/);
    await end();
    await node.ready('awaits');
    await node.client.delete(resources.volumeSnapshots, { namespace, name: 'awaits' });
    await node.remove('busy');
    await node.gone('busy');
  });

  test('a claim that is still being filled is not copied', async () => {
    const annotations = { 'cdi.kubevirt.io/storage.upload.target': '' };
    const unfilled = node.claimOf('unfilled');
    await node.client.create(resources.persistentVolumeClaims, {
      ...unfilled,
      metadata: { ...unfilled.metadata, annotations },
    });
    await node.bound('unfilled');
    await node.ask('eager', { dataSource: { kind: 'PersistentVolumeClaim', name: 'unfilled' } });
    await node.says('eager', /claim unfilled is not filled yet/);
    const done = { metadata: { annotations: { 'cdi.kubevirt.io/storage.pod.phase': 'Succeeded' } } };
    await node.client.patch(resources.persistentVolumeClaims, { namespace, name: 'unfilled' }, done, 'merge');
    await node.bound('eager');
    for (const name of ['unfilled', 'eager']) await node.remove(name);
    for (const name of ['unfilled', 'eager']) await node.gone(name);
  });

  test('a snapshot that cannot be made says why: claim, class', async () => {
    await node.snapshotOf('orphan', 'nobody');
    await node.says('orphan', /claim nobody does not exist/);
    assert.equal((await node.snapshot('orphan'))?.status?.error?.message, 'claim nobody does not exist');
    await node.snapshotOf('unclassed', 'nobody', { volumeSnapshotClassName: 'fast' });
    await node.says('unclassed', /snapshot class fast does not exist/);
    for (const name of ['orphan', 'unclassed'])
      await node.client.delete(resources.volumeSnapshots, { namespace, name });
  });
});
