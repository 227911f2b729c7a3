import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type KubeObject, resources } from '../../../src/api/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { getIfThere } from '../../../src/kube/index.ts';
import { driver } from '../../../src/standalone/index.ts';
import { NodeStorage } from '../../../src/standalone/supervisor/node-storage.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { namespace, StorageNode } from '../../fixtures/storage-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'disks are given to QEMU’s user: this takes root';
const needsLoop = needsRoot || (existsSync('/dev/loop-control') ? false : 'there are no loop devices');
const mebibyte = 2 ** 20;

describe('storage of the standalone node', { skip: needsRoot }, () => {
  let node: StorageNode;
  before(async () => {
    node = await StorageNode.create();
  });
  after(() => node.dispose());

  test('a claim gets the default class, a volume with a sparse disk of its size, and is bound; kubectl shows all of it', async () => {
    await node.ask('data', {}, '20Mi');
    const found = await node.bound('data');
    assert.deepEqual(
      [found.spec.storageClassName, found.status?.capacity, found.status?.accessModes],
      ['local', { storage: '20Mi' }, ['ReadWriteOnce']],
    );
    const { size, blocks, uid, mode } = await stat(node.image(found));
    assert.deepEqual([size, blocks, uid, mode & 0o777], [20 * mebibyte, 0, 107, 0o600]);
    await node.says('data', /Normal ProvisioningSucceeded: Successfully provisioned volume pvc-/);
    const name = `pvc-${found.metadata.uid}`;
    const table = (text: string) =>
      text
        .trim()
        .split('\n')
        .map((line) => line.split(/ {2,}/).slice(0, -1));
    assert.deepEqual(table(await node.kubectl.run(['get', 'pvc', 'data'])), [
      ['NAME', 'STATUS', 'VOLUME', 'CAPACITY', 'ACCESS MODES', 'STORAGECLASS'],
      ['data', 'Bound', name, '20Mi', 'RWO', 'local'],
    ]);
    await eventually(async () =>
      assert.deepEqual(table(await node.kubectl.run(['get', 'pv', name]))[1]?.slice(0, 7), [
        ...[name, '20Mi', 'RWO', 'Delete', 'Bound', 'default/data', 'local'],
      ]),
    );
    assert.deepEqual(table(await node.kubectl.run(['get', 'sc'])).slice(0, 3), [
      ['NAME', 'PROVISIONER', 'RECLAIMPOLICY', 'VOLUMEBINDINGMODE', 'ALLOWVOLUMEEXPANSION'],
      ['local (default)', driver, 'Delete', 'Immediate', 'true'],
      ['local-retain', driver, 'Retain', 'Immediate', 'true'],
    ]);
    const described = await node.kubectl.run(['describe', 'pvc', 'data']);
    assert.match(described, /Finalizers: +\[kubernetes\.io\/pvc-protection\]/);
    assert.match(described, /ProvisioningSucceeded/);
  });

  test('deleted, a claim stays while a pod has it; then it goes with its volume and its data', async () => {
    const found = await node.claim('data');
    assert.ok(found);
    const end = await node.pod('user', 'data');
    await node.remove('data');
    await stays(async () => {
      assert.ok((await node.claim('data'))?.metadata.deletionTimestamp);
      assert.ok(existsSync(node.image(found)));
    }, 300);
    assert.match(await node.kubectl.run(['get', 'pvc', 'data', '--no-headers']), /^data +Terminating /);
    await end();
    await node.gone('data');
    await eventually(async () => assert.equal(await node.volume(found.spec.volumeName), undefined));
    await eventually(async () => assert.deepEqual(await readdir(node.paths.claimsDir), []));
  });

  test('with Retain the data stays, and another claim gets it once the volume is free again', async () => {
    await node.ask('kept', { storageClassName: 'local-retain' });
    const first = await node.bound('kept');
    await writeFile(node.image(first), 'precious', { flag: 'r+' });
    await node.remove('kept');
    const name = first.spec.volumeName ?? '';
    await eventually(async () => assert.equal((await node.volume(name))?.status?.phase, 'Released'));
    assert.match(await readFile(node.image(first), 'latin1'), /^precious/);
    await node.client.patch(resources.persistentVolumes, { name }, { spec: { claimRef: null } }, 'merge');
    await eventually(async () => assert.equal((await node.volume(name))?.status?.phase, 'Available'));
    await node.ask('again', { storageClassName: 'local-retain' }, '2Mi');
    const second = await node.bound('again');
    assert.deepEqual([second.spec.volumeName, second.status?.capacity], [name, { storage: '4Mi' }]);
    await node.remove('again');
    await eventually(async () => assert.equal((await node.volume(name))?.status?.phase, 'Released'));
    await node.client.delete(resources.persistentVolumes, { name });
    await eventually(async () => assert.equal(await node.volume(name), undefined));
    assert.match(await readFile(node.image(first), 'latin1'), /^precious/);
    await rm(node.directory(first), { recursive: true });
  });

  test('a claim that grows: disk, volume and claim follow; it never shrinks, and classes without expansion refuse', async () => {
    await node.ask('grows');
    const found = await node.bound('grows');
    const resize = (storage: string, name = 'grows') =>
      node.client.patch(
        resources.persistentVolumeClaims,
        { namespace, name },
        { spec: { resources: { requests: { storage } } } },
        'merge',
      );
    await resize('9Mi');
    await eventually(async () => assert.deepEqual((await node.claim('grows'))?.status?.capacity, { storage: '9Mi' }));
    assert.equal((await stat(node.image(found))).size, 9 * mebibyte);
    assert.deepEqual((await node.volume(found.spec.volumeName))?.spec.capacity, { storage: '9Mi' });
    await node.says('grows', /Normal VolumeResizeSuccessful: volume pvc-\S+ has 9Mi now/);
    await assert.rejects(
      resize('5Mi'),
      /spec\.resources\.requests\.storage: Forbidden: field can not be less than status\.capacity/,
    );
    await node.client.create(resources.storageClasses, {
      ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name: 'rigid' }, provisioner: driver },
    } as KubeObject);
    await node.ask('rigid', { storageClassName: 'rigid' });
    await node.bound('rigid');
    await assert.rejects(
      resize('9Mi', 'rigid'),
      /"rigid" is forbidden: only dynamically provisioned pvc can be resized/,
    );
    const rename = node.client.patch(
      resources.persistentVolumeClaims,
      { namespace, name: 'rigid' },
      { spec: { storageClassName: 'local' } },
      'merge',
    );
    await assert.rejects(rename, /spec: Forbidden: spec is immutable after creation except resources\.requests/);
    for (const name of ['grows', 'rigid']) await node.remove(name);
    for (const name of ['grows', 'rigid']) await node.gone(name);
  });

  test('data that was removed by hand is said to be lost, and the claim is bound again when it is back', async () => {
    await node.ask('lost');
    const found = await node.bound('lost');
    await rename(node.directory(found), `${node.directory(found)}.away`);
    await node.stop();
    await node.start();
    await eventually(async () => assert.equal((await node.claim('lost'))?.status?.phase, 'Lost'));
    await node.says('lost', /Warning ClaimLost: its data is gone: .*cannot be looked at \(ENOENT\).*put the data back/);
    await rename(`${node.directory(found)}.away`, node.directory(found));
    await node.stop();
    await node.start();
    await node.bound('lost');
    await node.remove('lost');
    await node.gone('lost');
  });

  test('a claim that was deleted and made anew under its name has not the volume of the one before, whatever its status says', async () => {
    const spec = { storageClassName: 'local-retain' };
    await node.ask('twice', spec);
    const first = await node.bound('twice');
    await node.stop();
    const claims = resources.persistentVolumeClaims;
    await node.remove('twice');
    await node.client.patch(claims, first.metadata, { metadata: { finalizers: null } }, 'merge');
    await node.gone('twice');
    await node.ask('twice', { ...spec, volumeName: first.spec.volumeName });
    const body = { status: { phase: 'Bound', capacity: { storage: '4Mi' } } };
    await node.client.patch(claims, { namespace, name: 'twice' }, body, 'merge', { subresource: 'status' });
    await node.start();
    await eventually(async () => assert.equal((await node.claim('twice'))?.status?.phase, 'Lost'));
    await node.says('twice', new RegExp(`bound to claim default/twice of UID ${first.metadata.uid}, and this one is`));
    const volume = await node.volume(first.spec.volumeName);
    assert.equal(volume?.spec.claimRef?.uid, first.metadata.uid);
    await node.remove('twice');
    await node.gone('twice');
    await node.client.delete(resources.persistentVolumes, { name: first.spec.volumeName ?? '' });
    await rm(node.directory(first), { recursive: true });
  });

  test('what was begun and not finished when the node was killed is swept away; whole data is taken as it is', async () => {
    await node.stop();
    await node.ask('torn');
    const torn = await node.claim('torn');
    assert.ok(torn);
    const draft = path.join(node.paths.claimsDir, `.${path.basename(node.directory(torn))}.new`);
    await mkdir(draft, { recursive: true });
    await writeFile(path.join(draft, 'disk.img'), 'half');
    await node.ask('whole');
    const whole = await node.claim('whole');
    assert.ok(whole);
    // The node was killed between the data and the volume.
    await mkdir(node.directory(whole), { recursive: true });
    await writeFile(node.image(whole), 'all of it');
    await node.start();
    assert.equal((await stat(node.image(await node.bound('torn')))).size, 4 * mebibyte);
    await node.bound('whole');
    assert.equal(await readFile(node.image(whole), 'utf8'), 'all of it');
    const names = await readdir(node.paths.claimsDir);
    assert.deepEqual(
      names.filter((name) => name.startsWith('.')),
      [],
    );
    for (const name of ['torn', 'whole']) await node.remove(name);
    for (const name of ['torn', 'whole']) await node.gone(name);
  });

  test('the directory of a claim of an older version, which was bound without a volume, is its volume’s', async () => {
    await node.stop();
    await node.ask('older');
    const older = await node.claim('older');
    assert.ok(older);
    await node.client.patch(
      resources.persistentVolumeClaims,
      older.metadata,
      { status: { phase: 'Bound', capacity: { storage: '4Mi' } } },
      'merge',
      { subresource: 'status' },
    );
    await mkdir(node.directory(older), { recursive: true });
    await writeFile(node.image(older), 'of before');
    await node.start();
    await eventually(async () => assert.ok((await node.claim('older'))?.spec.volumeName));
    await node.bound('older');
    assert.equal(await readFile(node.image(older), 'utf8'), 'of before');
    await node.remove('older');
    await node.gone('older');
  });

  const odd: readonly [string, object, string, RegExp][] = [
    [
      'an unknown class',
      { storageClassName: 'fast' },
      '1Mi',
      /ProvisioningFailed: storageclass\.storage\.k8s\.io "fast" not found: use local/,
    ],
    [
      'a class of another provisioner',
      { storageClassName: 'ceph' },
      '1Mi',
      /provisioner rbd\.csi\.ceph\.com, which this node does not have/,
    ],
    ['a class with parameters', { storageClassName: 'tuned' }, '1Mi', /local\.virt-node has no parameter fsType/],
    ['ReadWriteOncePod', { accessModes: ['ReadWriteOncePod'] }, '1Mi', /use ReadWriteOnce/],
    ['more than a file can hold', {}, '20Ti', /no file can be as large as 20Ti/],
    ['no class, and no volume', { storageClassName: '' }, '1Mi', /FailedBinding: no persistent volumes available/],
    ['a volume that does not exist', { volumeName: 'nowhere' }, '1Mi', /volume nowhere does not exist/],
    ['a selector', { selector: { matchLabels: { a: 'b' } } }, '1Mi', /spec\.selector/],
    [
      'a source of another kind',
      { dataSource: { kind: 'Book', apiGroup: 'x.y', name: 'b' } },
      '1Mi',
      /nothing here fills a claim from a Book/,
    ],
    [
      'a source besides a volume',
      { volumeName: 'nowhere', dataSource: { kind: 'PersistentVolumeClaim', name: 'b' } },
      '1Mi',
      /spec\.volumeName: a copy of PersistentVolumeClaim b gets a volume of its own/,
    ],
    [
      'a source that does not exist',
      { dataSource: { kind: 'PersistentVolumeClaim', name: 'b' } },
      '1Mi',
      /claim b, which is to be copied, does not exist/,
    ],
  ];
  for (const [index, [title, spec, storage, words]] of odd.entries()) {
    test(`a claim with ${title} stays pending, and says why`, async () => {
      const create = (name: string, provisioner: string, more: object = {}) =>
        node.client
          .create(resources.storageClasses, {
            apiVersion: 'storage.k8s.io/v1',
            kind: 'StorageClass',
            metadata: { name },
            provisioner,
            ...more,
          } as KubeObject)
          .catch(() => undefined);
      await create('ceph', 'rbd.csi.ceph.com');
      await create('tuned', driver, { parameters: { fsType: 'xfs' } });
      const name = `odd-${index}`;
      await node.ask(name, spec, storage);
      await node.says(name, words);
      assert.equal((await node.claim(name))?.status?.phase, 'Pending');
      await node.remove(name);
      await node.gone(name);
      await eventually(async () => assert.deepEqual(await readdir(node.paths.claimsDir), []));
    });
  }

  test('a claim that is larger than what is free is made, and says so', async () => {
    await node.ask('large', {}, '15Ti');
    const found = await node.bound('large');
    await node.says(
      'large',
      /ProvisioningSucceeded: .* of 15Ti; only \S+i are free now, and a guest that writes more than that gets errors/,
    );
    assert.equal((await stat(node.image(found))).blocks, 0);
    await node.remove('large');
    await node.gone('large');
  });

  test('a class that waits for a consumer makes the volume when a pod asks for the claim', async () => {
    await node.client.create(resources.storageClasses, {
      ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name: 'late' }, provisioner: driver },
      volumeBindingMode: 'WaitForFirstConsumer',
    } as KubeObject);
    await node.ask('late', { storageClassName: 'late' });
    await node.says('late', /Normal WaitForFirstConsumer/);
    await eventually(async () => assert.deepEqual(await readdir(node.paths.claimsDir), []));
    const end = await node.pod('first', 'late');
    await node.bound('late');
    await end();
    await node.remove('late');
    await node.gone('late');
  });

  test('volumes of other kinds are refused in words, and none of their data is touched', async () => {
    const victim = path.join(node.paths.stateDir, 'victim');
    await mkdir(victim);
    const common = { capacity: { storage: '1Mi' }, accessModes: ['ReadWriteOnce'], storageClassName: 'local' };
    const create = (name: string, spec: object) =>
      node.client.create(resources.persistentVolumes, {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: { name },
        spec: { ...common, ...spec },
      } as KubeObject);
    await create('by-path', { hostPath: { path: victim }, persistentVolumeReclaimPolicy: 'Delete' });
    await create('climbs', { csi: { driver, volumeHandle: '../victim' } });
    await create('no-data', { csi: { driver, volumeHandle: 'nothing' } });
    const statusOf = async (name: string) => (await node.volume(name))?.status;
    await eventually(async () => assert.equal((await statusOf('by-path'))?.reason, 'UnsupportedSource'));
    await eventually(async () => assert.equal((await statusOf('climbs'))?.reason, 'UnsupportedSource'));
    await eventually(async () => assert.equal((await statusOf('no-data'))?.reason, 'DataMissing'));
    assert.match(String((await statusOf('by-path'))?.message), /no volume of hostPath: use .* a hostDisk volume/);
    await node.ask('wants', { volumeName: 'by-path' }, '1Mi');
    await node.says('wants', /FailedBinding: volume by-path is not of the driver/);
    for (const name of ['by-path', 'climbs', 'no-data'])
      await node.client.delete(resources.persistentVolumes, { name });
    await node.remove('wants');
    await node.gone('wants');
    assert.ok(existsSync(victim));
  });

  test('two volumes with one handle: the first has the data, which does not go with the second', async () => {
    await node.ask('owner');
    const found = await node.bound('owner');
    const handle = path.basename(node.directory(found));
    await node.client.create(resources.persistentVolumes, {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'thief' },
      spec: {
        ...{ capacity: { storage: '1Mi' }, accessModes: ['ReadWriteOnce'], storageClassName: 'local' },
        ...{ csi: { driver, volumeHandle: handle }, persistentVolumeReclaimPolicy: 'Delete' },
        claimRef: { name: 'nobody', namespace, uid: '00000000-0000-0000-0000-000000000000' },
      },
    } as KubeObject);
    await eventually(async () => assert.equal((await node.volume('thief'))?.status?.phase, 'Released'));
    await stays(() => assert.ok(existsSync(node.image(found))), 300);
    await node.client.delete(resources.persistentVolumes, { name: 'thief' });
    await stays(() => assert.ok(existsSync(node.image(found))), 300);
    await node.remove('owner');
    await node.gone('owner');
  });

  test('a namespace goes with its claims and their data', async () => {
    const other = 'other';
    await node.client.create(resources.namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: other } });
    const wanted = node.claimOf('theirs');
    await node.client.create(resources.persistentVolumeClaims, {
      ...wanted,
      metadata: { name: 'theirs', namespace: other },
    });
    await eventually(async () => assert.equal((await readdir(node.paths.claimsDir)).length, 1));
    await node.client.delete(resources.namespaces, { name: other });
    await eventually(async () =>
      assert.equal(await getIfThere(node.client, resources.namespaces, { name: other }), undefined),
    );
    await eventually(async () => assert.deepEqual(await readdir(node.paths.claimsDir), []));
    await eventually(async () => assert.deepEqual((await node.client.list(resources.persistentVolumes)).items, []));
  });

  test('a block claim is a file that pods never see; its loop device grows with it and goes with the last pod', {
    skip: needsLoop,
  }, async () => {
    await node.ask('raw', { volumeMode: 'Block' });
    const found = await node.bound('raw');
    const { mode, uid } = await stat(node.directory(found));
    assert.deepEqual([mode & 0o777, uid], [0o700, 0]);
    const claims = new NodeStorage(node.paths, { client: node.client, log: silentLogger }).claims;
    const end = await node.pod('vm', 'raw');
    const device = await claims.loops.attach(node.image(found));
    assert.equal(await claims.loops.attach(node.image(found)), device, 'one device for all pods');
    const sectors = async () => Number(await readFile(`/sys/class/block/${path.basename(device)}/size`, 'utf8'));
    assert.equal(await sectors(), (4 * mebibyte) / 512);
    await node.client.patch(
      resources.persistentVolumeClaims,
      found.metadata,
      { spec: { resources: { requests: { storage: '9Mi' } } } },
      'merge',
    );
    await eventually(async () => assert.equal(await sectors(), (9 * mebibyte) / 512));
    await end();
    await eventually(async () => assert.equal(await sectors(), 0));
    await claims.loops.attach(node.image(found));
    await node.stop();
    assert.equal(await sectors(), 0, 'what no pod has is detached when the node stops');
    await node.start();
    await node.remove('raw');
    await node.gone('raw');
  });
});
