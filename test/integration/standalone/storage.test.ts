import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { link, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  type EventObject,
  type KubeObject,
  type PersistentVolume,
  type PersistentVolumeClaim,
  resources,
  type VolumeSnapshot,
} from '../../../src/api/index.ts';
import { type Component, silentLogger } from '../../../src/base/index.ts';
import { getIfThere, KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { driver, type NodePaths, nodePaths } from '../../../src/standalone/index.ts';
import { NodeStorage } from '../../../src/standalone/supervisor/node-storage.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { Kubectl } from '../../fixtures/kubectl.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'disks are given to QEMU’s user: this takes root';
const needsLoop = needsRoot || (existsSync('/dev/loop-control') ? false : 'there are no loop devices');
const namespace = 'default';
const mebibyte = 2 ** 20;

describe('storage of the standalone node', { skip: needsRoot }, () => {
  let api: EmbeddedApi;
  let client: KubeClient;
  let kubectl: Kubectl;
  let paths: NodePaths;
  let running: Component[] = [];

  before(async () => {
    api = await startEmbeddedApi();
    client = new KubeClient({ userAgent: 'test' }, { access: await loadKubeAccess({ kubeconfig: api.kubeconfig }) });
    kubectl = new Kubectl(api.kubeconfig, api.dir);
    paths = nodePaths(await mkdtemp(path.join(tmpdir(), 'node-storage-')));
    await start();
  });
  after(async () => {
    await stop();
    client.close();
    await api.stop();
    await rm(paths.stateDir, { recursive: true, force: true });
  });

  async function start(): Promise<void> {
    running = await new NodeStorage(paths, { client, log: silentLogger }).components();
    for (const component of running) await component.start(AbortSignal.timeout(10_000));
  }
  async function stop(): Promise<void> {
    for (const component of running.splice(0).reverse()) await component.stop();
  }

  const claimOf = (name: string, spec: object = {}, storage = '4Mi') => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage } }, ...spec },
  });
  const ask = (name: string, spec: object = {}, storage = '4Mi') =>
    client.create(resources.persistentVolumeClaims, claimOf(name, spec, storage));
  const claim = (name: string) =>
    getIfThere<PersistentVolumeClaim>(client, resources.persistentVolumeClaims, { namespace, name });
  const volume = (name: string | undefined) =>
    getIfThere<PersistentVolume>(client, resources.persistentVolumes, { name: name ?? '' });
  async function bound(name: string): Promise<PersistentVolumeClaim> {
    await eventually(async () => assert.equal((await claim(name))?.status?.phase, 'Bound', await eventsOf(name)));
    const found = await claim(name);
    assert.ok(found);
    return found;
  }
  async function gone(name: string): Promise<void> {
    await eventually(async () => assert.equal(await claim(name), undefined));
  }
  const remove = (name: string) => client.delete(resources.persistentVolumeClaims, { namespace, name });
  const directory = ({ metadata }: PersistentVolumeClaim) =>
    path.join(paths.claimsDir, `${namespace}_${metadata.name}_${metadata.uid}`);
  const image = (of: PersistentVolumeClaim) => path.join(directory(of), 'disk.img');
  async function eventsOf(name: string): Promise<string> {
    const { items } = await client.list<EventObject>(resources.events, { namespace });
    const about = items.filter(({ involvedObject }) => involvedObject.name === name);
    return about.map(({ type, reason, message }) => `${type} ${reason}: ${message}`).join('\n');
  }
  const says = (name: string, words: RegExp) => eventually(async () => assert.match(await eventsOf(name), words));
  async function pod(name: string, claimName: string): Promise<() => Promise<unknown>> {
    const spec = {
      nodeName: 'box',
      containers: [{ name: 'compute', image: 'i' }],
      volumes: [{ name: 'v', persistentVolumeClaim: { claimName } }],
    };
    await client.create(resources.pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace },
      spec,
    } as KubeObject);
    return () => client.delete(resources.pods, { namespace, name }, { graceSeconds: 0 });
  }
  const snapshotOf = (name: string, persistentVolumeClaimName: string, more: object = {}) =>
    client.create(resources.volumeSnapshots, {
      apiVersion: 'snapshot.storage.k8s.io/v1',
      kind: 'VolumeSnapshot',
      metadata: { name, namespace },
      spec: { source: { persistentVolumeClaimName }, ...more },
    } as KubeObject);
  const snapshot = (name: string) => getIfThere<VolumeSnapshot>(client, resources.volumeSnapshots, { namespace, name });
  async function ready(name: string): Promise<VolumeSnapshot> {
    await eventually(async () => assert.equal((await snapshot(name))?.status?.readyToUse, true, await eventsOf(name)));
    const found = await snapshot(name);
    assert.ok(found);
    return found;
  }

  test('a claim gets the default class, a volume with a sparse disk of its size, and is bound; kubectl shows all of it', async () => {
    await ask('data', {}, '20Mi');
    const found = await bound('data');
    assert.deepEqual(
      [found.spec.storageClassName, found.status?.capacity, found.status?.accessModes],
      ['local', { storage: '20Mi' }, ['ReadWriteOnce']],
    );
    const { size, blocks, uid, mode } = await stat(image(found));
    assert.deepEqual([size, blocks, uid, mode & 0o777], [20 * mebibyte, 0, 107, 0o600]);
    await says('data', /Normal ProvisioningSucceeded: Successfully provisioned volume pvc-/);
    const name = `pvc-${found.metadata.uid}`;
    const table = (text: string) =>
      text
        .trim()
        .split('\n')
        .map((line) => line.split(/ {2,}/).slice(0, -1));
    assert.deepEqual(table(await kubectl.run(['get', 'pvc', 'data'])), [
      ['NAME', 'STATUS', 'VOLUME', 'CAPACITY', 'ACCESS MODES', 'STORAGECLASS'],
      ['data', 'Bound', name, '20Mi', 'RWO', 'local'],
    ]);
    await eventually(async () =>
      assert.deepEqual(table(await kubectl.run(['get', 'pv', name]))[1]?.slice(0, 7), [
        ...[name, '20Mi', 'RWO', 'Delete', 'Bound', 'default/data', 'local'],
      ]),
    );
    assert.deepEqual(table(await kubectl.run(['get', 'sc'])).slice(0, 3), [
      ['NAME', 'PROVISIONER', 'RECLAIMPOLICY', 'VOLUMEBINDINGMODE', 'ALLOWVOLUMEEXPANSION'],
      ['local (default)', driver, 'Delete', 'Immediate', 'true'],
      ['local-retain', driver, 'Retain', 'Immediate', 'true'],
    ]);
    const described = await kubectl.run(['describe', 'pvc', 'data']);
    assert.match(described, /Finalizers: +\[kubernetes\.io\/pvc-protection\]/);
    assert.match(described, /ProvisioningSucceeded/);
  });

  test('deleted, a claim stays while a pod has it; then it goes with its volume and its data', async () => {
    const found = await claim('data');
    assert.ok(found);
    const end = await pod('user', 'data');
    await remove('data');
    await stays(async () => {
      assert.ok((await claim('data'))?.metadata.deletionTimestamp);
      assert.ok(existsSync(image(found)));
    }, 300);
    assert.match(await kubectl.run(['get', 'pvc', 'data', '--no-headers']), /^data +Terminating /);
    await end();
    await gone('data');
    await eventually(async () => assert.equal(await volume(found.spec.volumeName), undefined));
    await eventually(async () => assert.deepEqual(await readdir(paths.claimsDir), []));
  });

  test('with Retain the data stays, and another claim gets it once the volume is free again', async () => {
    await ask('kept', { storageClassName: 'local-retain' });
    const first = await bound('kept');
    await writeFile(image(first), 'precious', { flag: 'r+' });
    await remove('kept');
    const name = first.spec.volumeName ?? '';
    await eventually(async () => assert.equal((await volume(name))?.status?.phase, 'Released'));
    assert.match(await readFile(image(first), 'latin1'), /^precious/);
    await client.patch(resources.persistentVolumes, { name }, { spec: { claimRef: null } }, 'merge');
    await eventually(async () => assert.equal((await volume(name))?.status?.phase, 'Available'));
    await ask('again', { storageClassName: 'local-retain' }, '2Mi');
    const second = await bound('again');
    assert.deepEqual([second.spec.volumeName, second.status?.capacity], [name, { storage: '4Mi' }]);
    await remove('again');
    await eventually(async () => assert.equal((await volume(name))?.status?.phase, 'Released'));
    await client.delete(resources.persistentVolumes, { name });
    await eventually(async () => assert.equal(await volume(name), undefined));
    assert.match(await readFile(image(first), 'latin1'), /^precious/);
    await rm(directory(first), { recursive: true });
  });

  test('a claim that grows: disk, volume and claim follow; it never shrinks, and classes without expansion refuse', async () => {
    await ask('grows');
    const found = await bound('grows');
    const resize = (storage: string, name = 'grows') =>
      client.patch(
        resources.persistentVolumeClaims,
        { namespace, name },
        { spec: { resources: { requests: { storage } } } },
        'merge',
      );
    await resize('9Mi');
    await eventually(async () => assert.deepEqual((await claim('grows'))?.status?.capacity, { storage: '9Mi' }));
    assert.equal((await stat(image(found))).size, 9 * mebibyte);
    assert.deepEqual((await volume(found.spec.volumeName))?.spec.capacity, { storage: '9Mi' });
    await says('grows', /Normal VolumeResizeSuccessful: volume pvc-\S+ has 9Mi now/);
    await assert.rejects(
      resize('5Mi'),
      /spec\.resources\.requests\.storage: Forbidden: field can not be less than status\.capacity/,
    );
    await client.create(resources.storageClasses, {
      ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name: 'rigid' }, provisioner: driver },
    } as KubeObject);
    await ask('rigid', { storageClassName: 'rigid' });
    await bound('rigid');
    await assert.rejects(
      resize('9Mi', 'rigid'),
      /"rigid" is forbidden: only dynamically provisioned pvc can be resized/,
    );
    const rename = client.patch(
      resources.persistentVolumeClaims,
      { namespace, name: 'rigid' },
      { spec: { storageClassName: 'local' } },
      'merge',
    );
    await assert.rejects(rename, /spec: Forbidden: spec is immutable after creation except resources\.requests/);
    for (const name of ['grows', 'rigid']) await remove(name);
    for (const name of ['grows', 'rigid']) await gone(name);
  });

  test('data that was removed by hand is said to be lost, and the claim is bound again when it is back', async () => {
    await ask('lost');
    const found = await bound('lost');
    await rename(directory(found), `${directory(found)}.away`);
    await stop();
    await start();
    await eventually(async () => assert.equal((await claim('lost'))?.status?.phase, 'Lost'));
    await says('lost', /Warning ClaimLost: its data is gone: .*cannot be looked at \(ENOENT\).*put the data back/);
    await rename(`${directory(found)}.away`, directory(found));
    await stop();
    await start();
    await bound('lost');
    await remove('lost');
    await gone('lost');
  });

  test('what was begun and not finished when the node was killed is swept away; whole data is taken as it is', async () => {
    await stop();
    await ask('torn');
    const torn = await claim('torn');
    assert.ok(torn);
    const draft = path.join(paths.claimsDir, `.${path.basename(directory(torn))}.new`);
    await mkdir(draft, { recursive: true });
    await writeFile(path.join(draft, 'disk.img'), 'half');
    await ask('whole');
    const whole = await claim('whole');
    assert.ok(whole);
    // The node was killed between the data and the volume.
    await mkdir(directory(whole), { recursive: true });
    await writeFile(image(whole), 'all of it');
    await start();
    assert.equal((await stat(image(await bound('torn')))).size, 4 * mebibyte);
    await bound('whole');
    assert.equal(await readFile(image(whole), 'utf8'), 'all of it');
    const names = await readdir(paths.claimsDir);
    assert.deepEqual(
      names.filter((name) => name.startsWith('.')),
      [],
    );
    for (const name of ['torn', 'whole']) await remove(name);
    for (const name of ['torn', 'whole']) await gone(name);
  });

  test('the directory of a claim of an older version, which was bound without a volume, is its volume’s', async () => {
    await stop();
    await ask('older');
    const older = await claim('older');
    assert.ok(older);
    await client.patch(
      resources.persistentVolumeClaims,
      older.metadata,
      { status: { phase: 'Bound', capacity: { storage: '4Mi' } } },
      'merge',
      { subresource: 'status' },
    );
    await mkdir(directory(older), { recursive: true });
    await writeFile(image(older), 'of before');
    await start();
    await eventually(async () => assert.ok((await claim('older'))?.spec.volumeName));
    await bound('older');
    assert.equal(await readFile(image(older), 'utf8'), 'of before');
    await remove('older');
    await gone('older');
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
      'a source that does not exist',
      { dataSource: { kind: 'PersistentVolumeClaim', name: 'b' } },
      '1Mi',
      /claim b, which is to be copied, does not exist/,
    ],
  ];
  for (const [index, [title, spec, storage, words]] of odd.entries()) {
    test(`a claim with ${title} stays pending, and says why`, async () => {
      const create = (name: string, provisioner: string, more: object = {}) =>
        client
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
      await ask(name, spec, storage);
      await says(name, words);
      assert.equal((await claim(name))?.status?.phase, 'Pending');
      await remove(name);
      await gone(name);
      await eventually(async () => assert.deepEqual(await readdir(paths.claimsDir), []));
    });
  }

  test('a claim that is larger than what is free is made, and says so', async () => {
    await ask('large', {}, '15Ti');
    const found = await bound('large');
    await says(
      'large',
      /ProvisioningSucceeded: .* of 15Ti; only \S+i are free now, and a guest that writes more than that gets errors/,
    );
    assert.equal((await stat(image(found))).blocks, 0);
    await remove('large');
    await gone('large');
  });

  test('a class that waits for a consumer makes the volume when a pod asks for the claim', async () => {
    await client.create(resources.storageClasses, {
      ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name: 'late' }, provisioner: driver },
      volumeBindingMode: 'WaitForFirstConsumer',
    } as KubeObject);
    await ask('late', { storageClassName: 'late' });
    await says('late', /Normal WaitForFirstConsumer/);
    await eventually(async () => assert.deepEqual(await readdir(paths.claimsDir), []));
    const end = await pod('first', 'late');
    await bound('late');
    await end();
    await remove('late');
    await gone('late');
  });

  test('volumes of other kinds are refused in words, and none of their data is touched', async () => {
    const victim = path.join(paths.stateDir, 'victim');
    await mkdir(victim);
    const common = { capacity: { storage: '1Mi' }, accessModes: ['ReadWriteOnce'], storageClassName: 'local' };
    const create = (name: string, spec: object) =>
      client.create(resources.persistentVolumes, {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: { name },
        spec: { ...common, ...spec },
      } as KubeObject);
    await create('by-path', { hostPath: { path: victim }, persistentVolumeReclaimPolicy: 'Delete' });
    await create('climbs', { csi: { driver, volumeHandle: '../victim' } });
    await create('no-data', { csi: { driver, volumeHandle: 'nothing' } });
    const statusOf = async (name: string) => (await volume(name))?.status;
    await eventually(async () => assert.equal((await statusOf('by-path'))?.reason, 'UnsupportedSource'));
    await eventually(async () => assert.equal((await statusOf('climbs'))?.reason, 'UnsupportedSource'));
    await eventually(async () => assert.equal((await statusOf('no-data'))?.reason, 'DataMissing'));
    assert.match(String((await statusOf('by-path'))?.message), /no volume of hostPath: use .* a hostDisk volume/);
    await ask('wants', { volumeName: 'by-path' }, '1Mi');
    await says('wants', /FailedBinding: volume by-path is not of the driver/);
    for (const name of ['by-path', 'climbs', 'no-data']) await client.delete(resources.persistentVolumes, { name });
    await remove('wants');
    await gone('wants');
    assert.ok(existsSync(victim));
  });

  test('two volumes with one handle: the first has the data, which does not go with the second', async () => {
    await ask('owner');
    const found = await bound('owner');
    const handle = path.basename(directory(found));
    await client.create(resources.persistentVolumes, {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'thief' },
      spec: {
        ...{ capacity: { storage: '1Mi' }, accessModes: ['ReadWriteOnce'], storageClassName: 'local' },
        ...{ csi: { driver, volumeHandle: handle }, persistentVolumeReclaimPolicy: 'Delete' },
        claimRef: { name: 'nobody', namespace, uid: '00000000-0000-0000-0000-000000000000' },
      },
    } as KubeObject);
    await eventually(async () => assert.ok((await volume('thief'))?.status?.phase));
    await client.delete(resources.persistentVolumes, { name: 'thief' });
    await stays(() => assert.ok(existsSync(image(found))), 300);
    await remove('owner');
    await gone('owner');
  });

  test('links that a guest’s launcher left are not followed: not when it grows, not by a snapshot, not when it goes', async () => {
    const victim = path.join(paths.stateDir, 'secret');
    await writeFile(victim, 'of the machine');
    await ask('hostile');
    const found = await bound('hostile');
    await rm(image(found));
    await symlink(victim, image(found));
    await snapshotOf('steals', 'hostile');
    await says('steals', /SnapshotCreationFailed: .*disk\.img is a symbolic link/);
    await client.patch(
      resources.persistentVolumeClaims,
      found.metadata,
      { spec: { resources: { requests: { storage: '9Mi' } } } },
      'merge',
    );
    await says('hostile', /VolumeResizeFailed: .*is a symbolic link/);
    await rm(image(found));
    await link(victim, image(found));
    await ask('copies', { dataSource: { kind: 'PersistentVolumeClaim', name: 'hostile' } });
    await says('copies', /has 2 names \(hard links\)/);
    await client.delete(resources.volumeSnapshots, { namespace, name: 'steals' });
    for (const name of ['copies', 'hostile']) await remove(name);
    for (const name of ['copies', 'hostile']) await gone(name);
    assert.equal(await readFile(victim, 'utf8'), 'of the machine');
    await eventually(async () => assert.deepEqual(await readdir(paths.snapshotsDir), []));
  });

  test('a snapshot is a copy of the disk; a new claim begins with it, and so does one that names another claim', async () => {
    await ask('origin');
    const origin = await bound('origin');
    await writeFile(image(origin), 'first', { flag: 'r+' });
    await snapshotOf('one', 'origin');
    const made = await ready('one');
    assert.deepEqual([made.status?.restoreSize, made.spec.volumeSnapshotClassName], ['4Mi', 'local']);
    await writeFile(image(origin), 'later', { flag: 'r+' });
    const dataSource = { kind: 'VolumeSnapshot', apiGroup: 'snapshot.storage.k8s.io', name: 'one' };
    await ask('restored', { dataSource }, '6Mi');
    const restored = await bound('restored');
    assert.match(await readFile(image(restored), 'latin1'), /^first/);
    assert.equal((await stat(image(restored))).size, 6 * mebibyte);
    await ask('cloned', { dataSource: { kind: 'PersistentVolumeClaim', name: 'origin' } });
    assert.match(await readFile(image(await bound('cloned')), 'latin1'), /^later/);
    await ask('small', { dataSource }, '1Mi');
    await says('small', /what is copied has 4Mi: ask for as much, or more/);
    const columns = (await kubectl.run(['get', 'volumesnapshot', 'one', '--no-headers'])).split(/ +/);
    assert.deepEqual([columns[0], columns[1], columns[2]], ['one', 'true', 'origin']);
    await client.delete(resources.volumeSnapshots, { namespace, name: 'one' });
    await eventually(async () => assert.equal(await snapshot('one'), undefined));
    await eventually(async () => assert.deepEqual(await readdir(paths.snapshotsDir), []));
    await eventually(async () => assert.deepEqual((await client.list(resources.volumeSnapshotContents)).items, []));
    for (const name of ['origin', 'restored', 'cloned', 'small']) await remove(name);
    for (const name of ['origin', 'restored', 'cloned', 'small']) await gone(name);
  });

  test('the claim of a running guest is copied at one moment or not at all, and the snapshot says what it waits for', async () => {
    await ask('busy');
    await bound('busy');
    const end = await pod('guest', 'busy');
    await snapshotOf('awaits', 'busy');
    await says('awaits', /(SnapshotCreationFailed: claim busy is in use by pod guest|SnapshotReady)/);
    await end();
    await ready('awaits');
    await client.delete(resources.volumeSnapshots, { namespace, name: 'awaits' });
    await remove('busy');
    await gone('busy');
  });

  test('a claim that is still being filled is not copied', async () => {
    const annotations = { 'cdi.kubevirt.io/storage.upload.target': '' };
    const unfilled = claimOf('unfilled');
    await client.create(resources.persistentVolumeClaims, {
      ...unfilled,
      metadata: { ...unfilled.metadata, annotations },
    });
    await bound('unfilled');
    await ask('eager', { dataSource: { kind: 'PersistentVolumeClaim', name: 'unfilled' } });
    await says('eager', /claim unfilled is not filled yet/);
    const done = { metadata: { annotations: { 'cdi.kubevirt.io/storage.pod.phase': 'Succeeded' } } };
    await client.patch(resources.persistentVolumeClaims, { namespace, name: 'unfilled' }, done, 'merge');
    await bound('eager');
    for (const name of ['unfilled', 'eager']) await remove(name);
    for (const name of ['unfilled', 'eager']) await gone(name);
  });

  test('a snapshot that cannot be made says why: claim, class', async () => {
    await snapshotOf('orphan', 'nobody');
    await says('orphan', /claim nobody does not exist/);
    assert.equal((await snapshot('orphan'))?.status?.error?.message, 'claim nobody does not exist');
    await snapshotOf('unclassed', 'nobody', { volumeSnapshotClassName: 'fast' });
    await says('unclassed', /snapshot class fast does not exist/);
    for (const name of ['orphan', 'unclassed']) await client.delete(resources.volumeSnapshots, { namespace, name });
  });

  test('a namespace goes with its claims and their data', async () => {
    const other = 'other';
    await client.create(resources.namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: other } });
    const wanted = claimOf('theirs');
    await client.create(resources.persistentVolumeClaims, {
      ...wanted,
      metadata: { name: 'theirs', namespace: other },
    });
    await eventually(async () => assert.equal((await readdir(paths.claimsDir)).length, 1));
    await client.delete(resources.namespaces, { name: other });
    await eventually(async () =>
      assert.equal(await getIfThere(client, resources.namespaces, { name: other }), undefined),
    );
    await eventually(async () => assert.deepEqual(await readdir(paths.claimsDir), []));
    await eventually(async () => assert.deepEqual((await client.list(resources.persistentVolumes)).items, []));
  });

  test('a block claim is a file that pods never see; its loop device grows with it and goes with the last pod', {
    skip: needsLoop,
  }, async () => {
    await ask('raw', { volumeMode: 'Block' });
    const found = await bound('raw');
    const { mode, uid } = await stat(directory(found));
    assert.deepEqual([mode & 0o777, uid], [0o700, 0]);
    const claims = new NodeStorage(paths, { client, log: silentLogger }).claims;
    const end = await pod('vm', 'raw');
    const device = await claims.loops.attach(image(found));
    assert.equal(await claims.loops.attach(image(found)), device, 'one device for all pods');
    const sectors = async () => Number(await readFile(`/sys/class/block/${path.basename(device)}/size`, 'utf8'));
    assert.equal(await sectors(), (4 * mebibyte) / 512);
    await client.patch(
      resources.persistentVolumeClaims,
      found.metadata,
      { spec: { resources: { requests: { storage: '9Mi' } } } },
      'merge',
    );
    await eventually(async () => assert.equal(await sectors(), (9 * mebibyte) / 512));
    await end();
    await eventually(async () => assert.equal(await sectors(), 0));
    await remove('raw');
    await gone('raw');
  });
});
