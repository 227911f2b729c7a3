import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  findCondition,
  type KubeObject,
  type Pod,
  resources,
  type VirtualMachineExport,
} from '../../../src/api/index.ts';
import { memberAt } from '../../../src/base/index.ts';
import { orMissing } from '../../../src/kube/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { SnapshotNode } from '../../fixtures/controller/snapshot-node.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { namespace } from '../../fixtures/storage-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'disks are given to QEMU’s user: this takes root';
const type = resources.virtualMachineExports;
const ofClaim = (name: string) => ({ source: { kind: 'PersistentVolumeClaim', name } });
const ofVm = (name: string) => ({ source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name } });
const ofSnapshot = (name: string) => ({
  source: { apiGroup: 'snapshot.kubevirt.io', kind: 'VirtualMachineSnapshot', name },
});

describe('exports, on the storage of a standalone node', { skip: needsRoot }, () => {
  let node: SnapshotNode;
  let authority: TestAuthority;
  before(async () => {
    authority = await TestAuthority.make('export.kubevirt.io');
    const caDir = path.join(authority.dir, 'exportca');
    await mkdir(caDir);
    await writeFile(path.join(caDir, 'tls.crt'), authority.pair.cert);
    await writeFile(path.join(caDir, 'tls.key'), authority.pair.key);
    node = await SnapshotNode.start({ exportCaDir: caDir });
    await node.createClaim('root', 'first');
    await node.createVm('box', ['root']);
  });
  after(async () => {
    await node?.stop();
    await authority?.remove();
  });

  const create = (name: string, spec: object, metadata: object = {}) =>
    node.cluster.client.create<VirtualMachineExport>(type, {
      ...{ apiVersion: 'export.kubevirt.io/v1', kind: type.kind, metadata: { name, namespace, ...metadata } },
      spec,
    } as KubeObject as VirtualMachineExport);
  const until = (name: string, what: string, holds: (vmExport: VirtualMachineExport) => boolean) =>
    node.cluster.until<VirtualMachineExport>(type, name, what, holds);
  const says = (name: string, reason: string, words = /./) =>
    until(name, `says ${reason}`, ({ status }) => {
      const ready = findCondition(status?.conditions, 'Ready');
      return ready?.reason === reason && words.test(ready.message ?? ' ');
    });
  const podOf = async (name: string) => {
    let found: Pod | undefined;
    await eventually(async () => {
      found = await node.cluster.find<Pod>(resources.pods, `virt-export-${name}`);
      assert.ok(found?.spec.nodeName);
    });
    assert.ok(found);
    return found;
  };
  const secret = (name: string) => node.cluster.find<KubeObject>(resources.secrets, name);
  const setPod = (pod: Pod, status: object) =>
    node.cluster.client.patch(resources.pods, pod.metadata, { status }, 'merge', { subresource: 'status' });
  const serve = async (name: string) => {
    const pod = await podOf(name);
    await setPod(pod, { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] });
    return until(name, 'is ready', ({ status }) => status?.phase === 'Ready');
  };
  const remove = async (name: string) => {
    await node.cluster.client.delete(type, { namespace, name });
    await node.cluster.untilGone(type, name);
    await node.cluster.untilGone(resources.pods, `virt-export-${name}`, { orEnding: true });
    await node.cluster.untilGone(resources.services, `virt-export-${name}`);
    const pod = await node.cluster.find<Pod>(resources.pods, `virt-export-${name}`);
    // A kubelet takes the last of it away.
    if (pod) await orMissing(node.cluster.client.delete(resources.pods, pod.metadata, { graceSeconds: 0 }));
  };

  test('a claim: pod, service, token, certificate and links; all of it goes with the export', async () => {
    await create('one', ofClaim('root'));
    const pod = await podOf('one');
    assert.equal(pod.spec.nodeName, 'node1');
    const { status } = await serve('one');
    assert.equal(status?.serviceName, 'virt-export-one');
    assert.equal(status?.tokenSecretRef, 'export-token-one');
    assert.equal(findCondition(status?.conditions, 'PVCReady')?.reason, 'PVCBound');
    const [volume] = status?.links?.internal?.volumes ?? [];
    assert.deepEqual(volume, {
      name: 'root',
      formats: [
        { format: 'raw', url: 'https://virt-export-one.default.svc/volumes/root/disk.img' },
        { format: 'gzip', url: 'https://virt-export-one.default.svc/volumes/root/disk.img.gz' },
      ],
    });
    assert.equal(status?.links?.external, undefined);
    const token = Buffer.from(String(memberAt(await secret('export-token-one'), 'data', 'token')), 'base64');
    assert.match(token.toString(), /^[A-Za-z0-9]{20}$/);
    const made = pod.spec.volumes?.find(({ name }) => name === 'certificates')?.secret?.secretName ?? '';
    const cert = Buffer.from(String(memberAt(await secret(made), 'data', 'tls.crt')), 'base64');
    const leaf = new X509Certificate(cert);
    assert.ok(leaf.verify(new X509Certificate(authority.pair.cert).publicKey));
    assert.equal(leaf.checkHost('virt-export-one.default.svc'), 'virt-export-one.default.svc');
    assert.equal(status?.links?.internal?.cert, authority.pair.cert.trim());
    const line = await node.storage.kubectl.run(['get', 'vmexport', 'one', '--no-headers']);
    assert.match(line, /^one +PersistentVolumeClaim +root +Ready *\n?$/);
    await remove('one');
    await eventually(async () => assert.equal(await secret('export-token-one'), undefined));
  });

  test('a stopped VM with its manifest; its start takes the exporter away, its stop brings it back', async () => {
    await create('two', { ...ofVm('box'), tokenSecretRef: 'mine' });
    const { status } = await serve('two');
    assert.deepEqual([status?.virtualMachineName, status?.tokenSecretRef], ['box', 'mine']);
    assert.deepEqual(
      status?.links?.internal?.manifests?.map(({ type: kind }) => kind),
      ['all', 'auth-header-secret'],
    );
    const manifest = await node.cluster.find<KubeObject>(resources.configMaps, 'exporter-vm-manifest-two');
    const vm = JSON.parse(String(memberAt(manifest, 'data', 'virtualmachine-manifest')));
    assert.deepEqual([vm.metadata.name, vm.metadata.uid, vm.status], ['box', undefined, undefined]);
    assert.equal(await secret('mine'), undefined, 'the user’s own is not made');
    const patch = (runStrategy: string) =>
      node.cluster.client.patch(
        resources.virtualMachines,
        { namespace, name: 'box' },
        { spec: { runStrategy } },
        'merge',
      );
    await patch('Always');
    await node.runGuest('box');
    await says('two', 'InUse', /box is running/);
    await node.cluster.untilEvent('two', 'ExportPaused');
    await node.cluster.untilGone(resources.pods, 'virt-export-two', { orEnding: true });
    await patch('Halted');
    await node.setVmi('box', { phase: 'Succeeded' });
    await node.endPods();
    await serve('two');
    await remove('two');
  });

  test('two exports of one claim serve side by side; who writes to it keeps both away', async () => {
    await create('left', ofClaim('root'));
    await create('right', ofClaim('root'));
    await serve('left');
    await serve('right');
    await serve('left');
    await remove('left');
    await remove('right');
    const end = await node.storage.pod('writer', 'root');
    await create('left', ofClaim('root'));
    await says('left', 'InUse', /in use by pod writer/);
    await end();
    await podOf('left');
    await remove('left');
  });

  test('a snapshot: claims are made of it, and go with the export', async () => {
    await node.createSnapshot('snap', 'box');
    await node.untilTaken('snap');
    await node.write('root', 'changed');
    await create('three', ofSnapshot('snap'));
    const { status } = await serve('three');
    assert.equal(await node.read('three-root'), 'first');
    assert.equal(status?.virtualMachineName, 'box');
    await until(
      'three',
      'has all claims',
      (one) => findCondition(one.status?.conditions, 'VolumesCreated')?.status === 'True',
    );
    assert.deepEqual(
      status?.links?.internal?.volumes?.map(({ name, formats }) => [name, formats?.[1]?.url]),
      [['root', 'https://virt-export-three.default.svc/volumes/three-root/disk.img.gz']],
    );
    await remove('three');
    await node.cluster.untilGone(resources.persistentVolumeClaims, 'three-root');
    await node.write('root', 'first');
  });

  test('what is not there is waited for, in words', async () => {
    await create('no-claim', ofClaim('missing'));
    const waiting = await says('no-claim', 'Initializing', /missing not found/);
    assert.equal(waiting.status?.phase, 'Pending');
    await create('no-vm', ofVm('missing'));
    assert.equal((await says('no-vm', 'VMNotFound')).status?.phase, 'Skipped');
    await create('no-snapshot', ofSnapshot('missing'));
    assert.equal((await says('no-snapshot', 'VMSnapshotNotFound')).status?.phase, 'Skipped');
    await node.createVm('bare', []);
    await create('no-volumes', ofVm('bare'));
    assert.equal((await says('no-volumes', 'VMNoVolumes')).status?.phase, 'Skipped');
    await node.createVm('half', ['coming']);
    await create('half', ofVm('half'));
    await says('half', 'VolumesNotPopulated', /claim coming does not exist yet/);
    await node.createClaim('coming', 'x');
    await serve('half');
    for (const name of ['no-claim', 'no-vm', 'no-snapshot', 'no-volumes', 'half']) await remove(name);
  });

  test('an export whose time is over is deleted, also one that nothing serves', async () => {
    await create('short', { ...ofClaim('missing'), ttlDuration: '2s' });
    await node.cluster.untilGone(type, 'short');
  });

  test('a pod that ends is made anew; one that fails stays for a while, and what it said is told', async () => {
    await create('dies', ofClaim('root'));
    const first = await podOf('dies');
    await setPod(first, { phase: 'Succeeded' });
    await eventually(async () => {
      const pod = await node.cluster.find<Pod>(resources.pods, 'virt-export-dies');
      if (pod?.metadata.uid === first.metadata.uid && pod?.metadata.deletionTimestamp)
        await node.cluster.client.delete(resources.pods, pod.metadata, { graceSeconds: 0 });
      assert.notEqual(pod?.metadata.uid ?? first.metadata.uid, first.metadata.uid);
    });
    const second = await podOf('dies');
    const terminated = { exitCode: 1, finishedAt: new Date().toISOString(), message: 'the disk is gone' };
    const container = { name: 'exporter', ready: false, restartCount: 0, image: 'i', imageID: 'i' };
    await setPod(second, { phase: 'Failed', containerStatuses: [{ ...container, state: { terminated } }] });
    await says('dies', 'Unknown', /is in phase Failed: the disk is gone/);
    await remove('dies');
  });

  test('what another has made is left alone', async () => {
    const pod = { containers: [{ name: 'c', image: 'i' }] };
    await node.cluster.client.create(resources.pods, {
      ...{ apiVersion: 'v1', kind: 'Pod', spec: pod },
      metadata: { name: 'virt-export-taken', namespace, labels: { 'kubevirt.io': 'x' } },
    } as KubeObject);
    await create('taken', ofClaim('root'));
    await says('taken', 'Initializing', /Pod virt-export-taken is another’s/);
    await node.cluster.client.delete(type, { namespace, name: 'taken' });
    assert.ok(await node.cluster.find(resources.pods, 'virt-export-taken'));
    await node.cluster.client.delete(resources.pods, { namespace, name: 'virt-export-taken' }, { graceSeconds: 0 });
  });

  test('what cannot be exported is refused', async () => {
    const wrong: readonly object[] = [
      { source: { kind: 'Secret', name: 'x' } },
      { source: { apiGroup: 'apps', kind: 'PersistentVolumeClaim', name: 'x' } },
      { source: { kind: 'VirtualMachine', name: 'x' } },
      { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachineSnapshot', name: 'x' } },
      { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachineBackup', name: 'x' } },
      { source: { kind: 'PersistentVolumeClaim', name: '' } },
      { ...ofClaim('x'), ttlDuration: '0s' },
      { ...ofClaim('x'), ttlDuration: 'tomorrow' },
      { ...ofClaim('x'), tokenSecretRef: '' },
    ];
    for (const spec of wrong) await assert.rejects(create('wrong', spec), { code: 'INVALID' });
    await create('fixed', ofClaim('root'));
    const change = { spec: ofClaim('other') };
    await assert.rejects(node.cluster.client.patch(type, { namespace, name: 'fixed' }, change, 'merge'), {
      code: 'INVALID',
    });
    await remove('fixed');
  });
});
