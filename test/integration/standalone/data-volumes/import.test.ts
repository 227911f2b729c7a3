import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { constants, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findCondition, type KubeObject, resources } from '../../../../src/api/index.ts';
import { ensureCertificates } from '../../../../src/apiserver/index.ts';
import { type DataVolumeNode, startDataVolumeNode, storage } from '../../../fixtures/data-volume-node.ts';
import { DiskServer } from '../../../fixtures/disk-server.ts';
import { eventually } from '../../../fixtures/eventually.ts';

const mib = 2 ** 20;

function sharesBlocks(): string | false {
  const dir = mkdtempSync(path.join(tmpdir(), 'virt-share-'));
  try {
    writeFileSync(path.join(dir, 'one'), 'x');
    copyFileSync(path.join(dir, 'one'), path.join(dir, 'two'), constants.COPYFILE_FICLONE_FORCE);
    return 'this file system copies a disk at one moment';
  } catch {
    return false;
  } finally {
    rmSync(dir, { recursive: true });
  }
}

describe('DataVolumes of the node', () => {
  let node: DataVolumeNode;
  let dir: string;
  const server = new DiskServer();
  let url: string;
  const content = Buffer.concat([Buffer.alloc(mib, 'data'), Buffer.alloc(mib)]);
  let qcow2: Buffer;
  const http = (file: string, size = '4Mi', more: object = {}) => ({
    source: { http: { url: `${url}${file}`, ...more } },
    ...storage(size),
  });
  const holds = async (name: string, bytes: Buffer, sizeBytes: number) => {
    const found = await readFile(await node.disk(name));
    assert.equal(found.length, sizeBytes);
    assert.ok(found.subarray(0, bytes.length).equals(bytes));
    assert.ok(found.subarray(bytes.length).every((byte) => byte === 0));
  };

  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-dv-'));
    await writeFile(path.join(dir, 'raw'), content);
    execFileSync('qemu-img', ['convert', '-O', 'qcow2', 'raw', 'disk.qcow2'], { cwd: dir });
    qcow2 = await readFile(path.join(dir, 'disk.qcow2'));
    url = await server.start();
    server.files.set('/disk.qcow2', { bytes: qcow2 });
    node = await startDataVolumeNode();
  });
  after(async () => {
    await node?.stop();
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  });

  test('an address becomes the disk of a claim that is the DataVolume’s, with the marks that KubeVirt reads', async () => {
    const digest = createHash('sha256').update(qcow2).digest('hex');
    await node.create('ordinary', http('/disk.qcow2', '4Mi', { checksum: `sha256:${digest}` }));
    const { status, metadata } = await node.until('ordinary', 'Succeeded');
    await holds('ordinary', content, 4 * mib);
    assert.deepEqual([status?.progress, status?.claimName, status?.restartCount], ['100.0%', 'ordinary', 0]);
    const states = status?.conditions?.map((one) => `${one.type}=${one.status}`);
    assert.deepEqual(states, ['Bound=True', 'Ready=True', 'Running=False']);
    assert.equal(findCondition(status?.conditions, 'Running')?.reason, 'Completed');
    const claim = await node.claim('ordinary');
    assert.deepEqual(
      claim.metadata.ownerReferences?.map(({ kind, uid, controller }) => [kind, uid, controller]),
      [['DataVolume', metadata.uid, true]],
    );
    const marks = claim.metadata.annotations ?? {};
    assert.equal(marks['cdi.kubevirt.io/storage.pod.phase'], 'Succeeded');
    assert.equal(marks['cdi.kubevirt.io/storage.import.source'], 'http');
    assert.equal(marks['cdi.kubevirt.io/storage.contentType'], 'kubevirt');
    await eventually(async () => assert.ok((await node.events('ordinary')).includes('ImportSucceeded')));
    assert.deepEqual(await node.leftovers(), []);
    const { mode } = await stat(await node.disk('ordinary'));
    assert.equal(mode & 0o777, 0o600);
  });

  test('a blank disk, and one without a size for a copy of another', async () => {
    await node.create('blank', { source: { blank: {} }, ...storage('3Mi') });
    await node.until('blank', 'Succeeded');
    await holds('blank', Buffer.alloc(0), 3 * mib);
    await node.create('source', http('/disk.qcow2'));
    await node.create('copy', { source: { pvc: { namespace: 'default', name: 'source' } }, storage: {} });
    await node.until('copy', 'Succeeded');
    await holds('copy', content, 4 * mib);
    await eventually(async () => assert.ok((await node.events('copy')).includes('CloneSucceeded')));
  });

  test('a DataSource stands for the claim that it names', async () => {
    await node.create('golden', http('/disk.qcow2'));
    await node.create('by-name', { sourceRef: { kind: 'DataSource', name: 'fedora' }, ...storage('5Mi') });
    await eventually(async () => {
      const problem = findCondition((await node.find('by-name'))?.status?.conditions, 'Running');
      assert.match(problem?.message ?? '', /DataSource default\/fedora does not exist/);
    });
    await node.client.create(resources.dataSources, {
      ...{
        apiVersion: 'cdi.kubevirt.io/v1beta1',
        kind: 'DataSource',
        metadata: { name: 'fedora', namespace: 'default' },
      },
      spec: { source: { pvc: { namespace: 'default', name: 'golden' } } },
    } as KubeObject);
    await node.until('by-name', 'Succeeded');
    await holds('by-name', content, 5 * mib);
  });

  test('an image of the node is a source, too; one that it has not got is said', async () => {
    await node.images.add('my/disk:1', path.join(dir, 'disk.qcow2'));
    await node.create('image', { source: { registry: { url: 'docker://my/disk:1' } }, ...storage('4Mi') });
    await node.until('image', 'Succeeded');
    await holds('image', content, 4 * mib);
    await node.create('no-image', { source: { registry: { url: 'docker://other' } }, ...storage('4Mi') });
    await node.until('no-image', 'Failed');
    await node.untilProblem('no-image', /image other is not on this node, and there is no registry/);
  });

  test('user, password, headers and authorities come from Secrets and ConfigMaps, and are waited for', async () => {
    const tls = await ensureCertificates(path.join(dir, 'tls'));
    const secure = new DiskServer();
    const address = await secure.start({ key: tls.key, cert: tls.cert });
    secure.files.set('/disk', { bytes: qcow2, user: 'me:secret' });
    try {
      const more = {
        secretRef: 'login',
        certConfigMap: 'ca',
        secretExtraHeaders: ['more'],
        extraHeaders: ['X-One: 1'],
      };
      await node.create('secure', { source: { http: { url: `${address}/disk`, ...more } }, ...storage('4Mi') });
      await node.untilProblem('secure', /there is no Secret default\/login: create it/);
      const ref = (name: string) => ({ metadata: { name, namespace: 'default' } });
      const secret = { apiVersion: 'v1', kind: 'Secret' };
      const login = { ...secret, ...ref('login'), stringData: { accessKeyId: 'me', secretKey: 'secret' } };
      const headers = { ...secret, ...ref('more'), stringData: { two: 'X-Two: 2\n' } };
      await node.client.create(resources.secrets, login as KubeObject);
      await node.client.create(resources.secrets, headers as KubeObject);
      const map = { apiVersion: 'v1', kind: 'ConfigMap', ...ref('ca'), data: { 'ca.pem': tls.ca } };
      await node.client.create(resources.configMaps, map as KubeObject);
      const { status } = await node.until('secure', 'Succeeded');
      assert.equal(status?.restartCount, 1);
      const sent = secure.requests.at(-1)?.headers;
      assert.deepEqual([sent?.['x-one'], sent?.['x-two']], ['1', '2']);
    } finally {
      await secure.stop();
    }
  });

  const hopeless: readonly [string, () => object, RegExp][] = [
    [
      'too-small',
      () => http('/disk.qcow2', '1Mi'),
      /is a disk of 2Mi \(2097152 bytes\), and the claim has 1Mi \(1048576 bytes\): ask for 2Mi or more/,
    ],
    [
      'wrong-sum',
      () => http('/disk.qcow2', '4Mi', { checksum: `md5:${'0'.repeat(32)}` }),
      /has the md5 checksum [0-9a-f]{32}, and should have 0{32}/,
    ],
    ['not-there', () => http('/nothing'), /was not found, or not given, by the server \(HTTP 404\)/],
    ['a-page', () => http('/page'), /is a web page and no disk/],
  ];
  for (const [name, spec, words] of hopeless) {
    test(`${name}: it fails in words, once, and the claim stays empty`, async () => {
      server.files.set('/page', { bytes: Buffer.from('<!DOCTYPE html><p>Log in') });
      await node.create(name, spec());
      await node.until(name, 'Failed');
      await node.untilProblem(name, words);
      await node.isBlank(name);
      assert.deepEqual(await node.leftovers(), []);
      await eventually(async () => assert.ok((await node.events(name)).includes('ImportFailed')));
    });
  }

  test('an import that is interrupted is begun anew, and nothing of it is seen before', async () => {
    server.files.set('/slow', { bytes: qcow2, held: new Promise(() => undefined) });
    await node.create('slow', http('/slow'));
    await node.until('slow', 'ImportInProgress');
    await eventually(async () => assert.ok(server.requests.some((request) => request.url === '/slow')));
    await node.isBlank('slow');
    await node.stopController();
    server.files.set('/slow', { bytes: qcow2 });
    await node.startController();
    await node.until('slow', 'Succeeded');
    await holds('slow', content, 4 * mib);
  });

  test('a DataVolume that is deleted ends its download', async () => {
    server.files.set('/held', { bytes: qcow2, held: new Promise(() => undefined) });
    await node.create('held', http('/held'));
    const request = () => server.requests.find((one) => one.url === '/held');
    await eventually(() => assert.ok(request()));
    await node.client.delete(resources.dataVolumes, { namespace: 'default', name: 'held' });
    await eventually(async () => assert.ok(request()?.socket.destroyed));
    await eventually(async () => assert.deepEqual(await node.leftovers(), []));
  });

  test('a claim that somebody else has made is never written', async () => {
    const metadata = { name: 'theirs', namespace: 'default' };
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '4Mi' } } };
    const claim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec };
    await node.client.create(resources.persistentVolumeClaims, claim as KubeObject);
    await node.create('theirs', http('/disk.qcow2'));
    await node.untilProblem('theirs', /claim default\/theirs exists and is not of this DataVolume/);
    await eventually(async () => assert.ok((await node.events('theirs')).includes('ErrClaimNotValid')));
    await node.isBlank('theirs');
  });

  test('a claim that grows while it is filled has the larger disk', async () => {
    const release = new EventEmitter();
    const held = once(release, 'go').then(() => undefined);
    server.files.set('/growing', { bytes: qcow2, held });
    await node.create('growing', http('/growing'));
    await node.until('growing', 'ImportInProgress');
    await node.grow('growing', '9Mi');
    release.emit('go');
    await node.until('growing', 'Succeeded');
    await holds('growing', content, 9 * mib);
  });

  const running = async (name: string, claimName: string) => {
    const volumes = [{ name: 'v', persistentVolumeClaim: { claimName } }];
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'default' } };
    const containers = [{ name: 'c', image: 'i' }];
    await node.client.create(resources.pods, { ...pod, spec: { containers, volumes } } as KubeObject);
    const ref = { namespace: 'default', name };
    const become = (phase: string) =>
      node.client.patch(resources.pods, ref, { status: { phase } }, 'merge', { subresource: 'status' });
    await become('Running');
    return { become, remove: () => node.client.delete(resources.pods, ref, { graceSeconds: 0 }) };
  };

  test('a claim that a pod runs with is neither copied nor filled', { skip: sharesBlocks() }, async () => {
    await node.create('busy', { source: { blank: {} }, ...storage('1Mi') });
    await node.until('busy', 'Succeeded');
    const pod = await running('user', 'busy');
    await node.create('of-busy', { source: { pvc: { namespace: 'default', name: 'busy' } }, ...storage('1Mi') });
    await node.untilProblem('of-busy', /claim busy is in use by pod user, .* stop the VM/);
    assert.equal((await node.find('of-busy'))?.status?.phase, 'CloneScheduled');
    assert.equal((await node.claim('of-busy')).status?.phase, 'Pending');
    await pod.remove();
    await node.until('of-busy', 'Succeeded');
  });

  test('a copy that is to be smaller fails in words; one of a claim that is not filled waits for that', async () => {
    await node.create('whole', http('/disk.qcow2'));
    await node.until('whole', 'Succeeded');
    const of = (name: string) => ({ source: { pvc: { namespace: 'default', name } } });
    await node.create('smaller', { ...of('whole'), ...storage('2Mi') });
    await node.until('smaller', 'Failed');
    await node.untilProblem('smaller', /what is copied has 4Mi: ask for as much, or more/);
    await node.create('empty', { source: { upload: {} }, ...storage('1Mi') });
    await node.create('of-empty', { ...of('empty'), ...storage('1Mi') });
    await node.untilProblem('of-empty', /claim empty is not filled yet/);
    assert.equal((await node.claim('of-empty')).status?.phase, 'Pending');
  });

  test('with a class that waits for a consumer the claim is filled when a pod asks for it', async () => {
    await node.client.create(resources.storageClasses, {
      ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name: 'late' } },
      ...{ provisioner: 'local.virt-node', volumeBindingMode: 'WaitForFirstConsumer' },
    } as KubeObject);
    const late = (size: string) => ({ storage: { ...storage(size).storage, storageClassName: 'late' } });
    await node.create('late', { ...http('/disk.qcow2'), ...late('4Mi') });
    await node.create('late-copy', { source: { pvc: { namespace: 'default', name: 'late' } }, ...late('4Mi') });
    await node.until('late', 'WaitForFirstConsumer');
    assert.equal((await node.claim('late')).status?.phase, 'Pending');
    const pod = await running('first', 'late');
    await node.untilProblem('late', /is used by pod default\/first/);
    await node.isBlank('late');
    await pod.become('Succeeded');
    await node.until('late', 'Succeeded');
    await holds('late', content, 4 * mib);
    await node.until('late-copy', 'WaitForFirstConsumer');
    const other = await running('second', 'late-copy');
    await node.until('late-copy', 'Succeeded');
    await holds('late-copy', content, 4 * mib);
    await other.remove();
    const annotations = { 'cdi.kubevirt.io/storage.bind.immediate.requested': '' };
    await node.create('at-once', { ...http('/disk.qcow2'), ...late('4Mi') }, annotations);
    await node.until('at-once', 'Succeeded');
  });

  test('a claim that a restore made for a DataVolume is the DataVolume’s at once, also where it waits for a pod, and is not filled again', async () => {
    await node.client.create(resources.storageClasses, {
      ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name: 'later' } },
      ...{ provisioner: 'local.virt-node', volumeBindingMode: 'WaitForFirstConsumer' },
    } as KubeObject);
    const later = { storage: { ...storage('4Mi').storage, storageClassName: 'later' } };
    await node.create('snapshot', http('/disk.qcow2'));
    await node.until('snapshot', 'Succeeded');
    await node.client.create(resources.persistentVolumeClaims, {
      ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
      metadata: {
        ...{ name: 'restored', namespace: 'default' },
        annotations: { 'cdi.kubevirt.io/storage.populatedFor': 'restored' },
      },
      spec: { ...later.storage, dataSource: { kind: 'PersistentVolumeClaim', name: 'snapshot' } },
    } as KubeObject);
    const prePopulated = { 'cdi.kubevirt.io/storage.prePopulated': 'true' };
    await node.create('restored', { source: { blank: {} }, ...later }, prePopulated);
    await node.until('restored', 'WaitForFirstConsumer');
    assert.equal((await node.claim('restored')).metadata.ownerReferences?.[0]?.kind, 'DataVolume');
    const pod = await running('restores', 'restored');
    await node.until('restored', 'Succeeded');
    await holds('restored', content, 4 * mib);
    await pod.remove();
  });

  const refused: readonly [string, object, RegExp][] = [
    ['no-source', storage('1Gi'), /spec\.source: Required value: one of http, blank, upload, pvc, registry, snapshot/],
    [
      's3',
      { source: { s3: { url: 's3://x' } }, ...storage('1Gi') },
      /does not speak S3: give a signed http\(s\) address/,
    ],
    ['vddk', { source: { vddk: {} }, ...storage('1Gi') }, /export the disk as a VMDK, and upload it/],
    ['ftp', { source: { http: { url: 'ftp://x/y' } }, ...storage('1Gi') }, /must be an address that begins with http/],
    ['two', { source: { blank: {}, upload: {} }, ...storage('1Gi') }, /must be exactly one of/],
    ['sum', { source: { http: { url: 'http://x/y', checksum: 'md5:1' } }, ...storage('1Gi') }, /and the digits/],
    ['size', { source: { blank: {} }, storage: {} }, /spec\.storage\.resources\.requests\.storage: Required/],
    ['archive', { source: { upload: {} }, contentType: 'archive', ...storage('1Gi') }, /unpacks no archives/],
    ['oci', { source: { registry: { url: 'oci-archive://x' } }, ...storage('1Gi') }, /there is no registry/],
  ];
  for (const [name, spec, words] of refused) {
    test(`${name}: refused before anything is made`, () => assert.rejects(node.create(name, spec), words));
  }
});
