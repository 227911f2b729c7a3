import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  annotations,
  type DataVolume,
  findCondition,
  type KubeObject,
  keptState,
  resources,
  type VirtualMachine,
  type VirtualMachineRestore,
} from '../../../src/api/index.ts';
import { writeIfThere } from '../../../src/kube/index.ts';
import { SnapshotNode } from '../../fixtures/controller/snapshot-node.ts';
import { DiskServer } from '../../fixtures/disk-server.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { namespace } from '../../fixtures/storage-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'disks are given to QEMU’s user: this takes root';
const type = resources.virtualMachineRestores;
const vms = resources.virtualMachines;

describe('restores of VMs, on the storage of a standalone node', { skip: needsRoot }, () => {
  let node: SnapshotNode;
  before(async () => {
    node = await SnapshotNode.start();
    await node.createClaim('root', 'first');
    await node.createVm('box', ['root']);
    await node.createSnapshot('snap', 'box');
    await node.untilTaken('snap');
    await node.write('root', 'later');
  });
  after(() => node?.stop());

  const claimsOf = ({ spec }: VirtualMachine) =>
    (spec.template.spec.volumes ?? []).map(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? '');
  const untilComplete = (name: string) =>
    node.cluster.until<VirtualMachineRestore>(type, name, 'complete', ({ status }) => status?.complete === true);
  const untilSays = (name: string, words: RegExp) =>
    node.cluster.until<VirtualMachineRestore>(type, name, String(words), ({ status }) =>
      words.test(findCondition(status?.conditions, 'Progressing')?.reason ?? ''),
    );

  test('a VM gets the disk back that it had, under a new name, and the one that it has is kept', async () => {
    await node.createRestore('back', 'snap', 'box');
    const { status } = await untilComplete('back');
    assert.equal(findCondition(status?.conditions, 'Ready')?.status, 'True');
    const vm = await node.vm('box');
    const [claim = ''] = claimsOf(vm);
    assert.match(claim, /^restore-.*-disk0$/);
    assert.equal(status?.restores?.[0]?.persistentVolumeClaim, claim);
    assert.deepEqual([await node.read(claim), await node.read('root')], ['first', 'later']);
    assert.deepEqual([vm.status?.restoreInProgress, vm.spec.runStrategy], [undefined, 'Halted']);
    const [made] = (await node.claims()).filter(({ metadata }) => metadata.name === claim);
    assert.equal(made?.metadata.ownerReferences?.[0]?.name, 'box');
    await node.cluster.untilEvent('back', 'VirtualMachineRestoreComplete');
    const line = await node.storage.kubectl.run(['get', 'vmrestore', 'back', '--no-headers']);
    assert.match(line, /^back +VirtualMachine +box +true +\d+s *\n?$/);
  });

  test('InPlace replaces the claims themselves', async () => {
    await node.createVm('inside', ['root']);
    await node.createSnapshot('later', 'inside');
    await node.untilTaken('later');
    const before = (await node.claims()).find(({ metadata }) => metadata.name === 'root')?.metadata.uid;
    await node.write('root', 'spoiled');
    await node.createRestore('inplace', 'later', 'inside', { volumeRestorePolicy: 'InPlace' });
    await untilComplete('inplace');
    assert.deepEqual(claimsOf(await node.vm('inside')), ['root']);
    assert.equal(await node.read('root'), 'later');
    assert.notEqual((await node.claims()).find(({ metadata }) => metadata.name === 'root')?.metadata.uid, before);
  });

  test('a snapshot that is deleted while claims are replaced by it goes when they are', async () => {
    const claims = resources.persistentVolumeClaims;
    const kept = { finalizers: ['example.com/slow'] };
    const snapshots = resources.virtualMachineSnapshots;
    await node.createClaim('slow', 'good');
    await node.createVm('careful', ['slow']);
    await node.createSnapshot('doomed', 'careful');
    await node.untilTaken('doomed');
    await node.write('slow', 'spoiled');
    await node.cluster.client.patch(claims, { namespace, name: 'slow' }, { metadata: kept }, 'merge');
    await node.createRestore('late', 'doomed', 'careful', { volumeRestorePolicy: 'InPlace' });
    await node.cluster.until(claims, 'slow', 'ends', ({ metadata }) => metadata.deletionTimestamp !== undefined);
    await node.cluster.client.delete(snapshots, { namespace, name: 'doomed' });
    const content = async () =>
      (await node.contents()).find(({ spec }) => spec.virtualMachineSnapshotName === 'doomed')?.metadata;
    await eventually(async () => assert.notEqual((await content())?.deletionTimestamp, undefined));
    await node.cluster.client.patch(claims, { namespace, name: 'slow' }, { metadata: { finalizers: [] } }, 'merge');
    await untilComplete('late');
    assert.equal(await node.read('slow'), 'good');
    await node.cluster.untilGone(snapshots, 'doomed');
    await eventually(async () => assert.equal(await content(), undefined));
  });

  test('disks of templates, on a class that waits for a consumer: they are restored when a guest asks for them, and not from where they once came', async (t) => {
    const server = new DiskServer();
    t.after(() => server.stop());
    const url = `${await server.start()}/disk`;
    server.files.set('/disk', { bytes: Buffer.alloc(2 ** 20, 'x') });
    const { client } = node.cluster;
    await client.create(resources.storageClasses, {
      ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name: 'late' } },
      ...{ provisioner: 'local.virt-node', volumeBindingMode: 'WaitForFirstConsumer' },
    } as KubeObject);
    const atOnce = { 'cdi.kubevirt.io/storage.bind.immediate.requested': '' };
    const storage = { storageClassName: 'late', resources: { requests: { storage: '4Mi' } } };
    // The volume has the name of its DataVolume, and keeps it when that is replaced.
    const volumes = [{ name: 'templated', dataVolume: { name: 'templated' } }];
    const domain = { devices: { disks: [{ name: 'templated', disk: {} }] }, memory: { guest: '64Mi' } };
    await node.createVm('templated', [], {
      dataVolumeTemplates: [
        { metadata: { name: 'templated', annotations: atOnce }, spec: { source: { http: { url } }, storage } },
      ],
      template: { spec: { domain, volumes } },
    });
    const dataVolumes = async () => (await client.list<DataVolume>(resources.dataVolumes, { namespace })).items;
    const become = (phase: string) =>
      eventually(async () => {
        const phases = (await dataVolumes()).map(({ status }) => status?.phase);
        assert.deepEqual(phases, [phase]);
      });
    await become('Succeeded');
    await node.write('templated', 'first');
    await node.createSnapshot('of-templated', 'templated');
    await node.untilTaken('of-templated');
    server.files.clear();
    await node.createRestore('awaited', 'of-templated', 'templated');
    await untilComplete('awaited');
    await become('WaitForFirstConsumer');
    const [restored] = await dataVolumes();
    const { name = '' } = restored?.metadata ?? {};
    assert.deepEqual((await node.vm('templated')).spec.template.spec.volumes?.[0]?.dataVolume, { name });
    const leave = await node.storage.pod('consumer', name);
    await become('Succeeded');
    assert.equal(await node.read(name), 'first');
    await leave();
  });

  test('a new VM is made, halted, with the patches', async () => {
    const patches = [
      JSON.stringify({ op: 'replace', path: '/spec/template/spec/domain/memory/guest', value: '128Mi' }),
      JSON.stringify({ op: 'add', path: '/spec/template/metadata', value: { labels: { from: 'snap' } } }),
    ];
    await node.createRestore('fresh', 'snap', 'copy', { patches, volumeRestorePolicy: 'PrefixTargetName' });
    await untilComplete('fresh');
    const vm = await node.vm('copy');
    assert.deepEqual(claimsOf(vm), ['copy-disk0']);
    assert.equal(await node.read('copy-disk0'), 'first');
    const { runStrategy, template } = vm.spec;
    const memory = template.spec.domain?.memory?.guest;
    assert.deepEqual([runStrategy, memory, template.metadata?.labels], ['Halted', '128Mi', { from: 'snap' }]);
  });

  test('another VM is not overwritten, nor a claim of others', async () => {
    await node.createVm('other', ['root']);
    await node.createRestore('wrong', 'snap', 'other');
    await untilSays('wrong', /restore source and restore target are different but restore target already exists/);
    assert.deepEqual(claimsOf(await node.vm('other')), ['root']);
    await node.createClaim('mine', 'precious');
    const volumeRestoreOverrides = [{ volumeName: 'disk0', restoreName: 'mine' }];
    await node.createRestore('greedy', 'snap', 'third', { volumeRestoreOverrides });
    await untilSays('greedy', /PVC mine exists and is not of this restore/);
    assert.equal(await node.read('mine'), 'precious');
    for (const name of ['wrong', 'greedy']) await node.cluster.client.delete(type, { namespace, name });
    for (const name of ['wrong', 'greedy']) await node.cluster.untilGone(type, name);
  });

  test('a VM that runs: one restore fails at once, one waits until it has stopped; meanwhile it is not started', async () => {
    await node.cluster.client.patch(vms, { namespace, name: 'box' }, { spec: { runStrategy: 'Always' } }, 'merge');
    await node.cluster.untilVmi('box', 'there', () => true);
    await node.createRestore('now', 'snap', 'box', { targetReadinessPolicy: 'FailImmediate' });
    const failed = await untilSays('now', /must be powered off/);
    assert.equal(findCondition(failed.status?.conditions, 'Failure')?.status, 'True');
    await node.createRestore('patient', 'snap', 'box', { targetReadinessPolicy: 'WaitEventually' });
    await untilSays('patient', /Waiting for target VM to be powered off/);
    await node.cluster.client.patch(vms, { namespace, name: 'box' }, { spec: { runStrategy: 'Halted' } }, 'merge');
    await eventually(async () => {
      await node.endPods();
      assert.equal(await node.cluster.find(resources.virtualMachineInstances, 'box'), undefined);
    });
    await untilComplete('patient');
    const [claim = ''] = claimsOf(await node.vm('box'));
    assert.equal(await node.read(claim), 'first');
  });

  describe('what the TPM of a VM kept, and its EFI variables', () => {
    const labelOf = ({ metadata }: KubeObject) => metadata.labels?.['persistent-state-for'];
    const stateOf = async (vm: string) => (await node.claims()).filter((claim) => labelOf(claim) === vm);
    const keep = (name: string, vm: string, uid = '') => {
      const ownerReferences = [
        { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', name: vm, uid, controller: true },
      ];
      const metadata = { labels: { 'persistent-state-for': vm }, ownerReferences };
      return node.cluster.client.patch(resources.persistentVolumeClaims, { namespace, name }, { metadata }, 'merge');
    };
    const machine = (disk: string) => {
      const volumes = [{ name: 'disk0', persistentVolumeClaim: { claimName: disk } }];
      const devices = { disks: [{ name: 'disk0', disk: {} }], tpm: { persistent: true } };
      return { template: { spec: { domain: { devices, memory: { guest: '64Mi' } }, volumes } } };
    };
    before(async () => {
      await node.createClaim('safe', 'disk then');
      await node.createClaim('tpm', 'key then');
      const { metadata } = await node.createVm('vault', [], machine('safe'));
      await keep('tpm', 'vault', metadata.uid);
      await node.createSnapshot('locked', 'vault');
    });

    test('are in its snapshot', async () => {
      const { status } = await node.untilTaken('locked');
      const name = 'persistent-state-for-vault';
      assert.deepEqual(status?.snapshotVolumes, { includedVolumes: ['disk0', name] });
      await eventually(async () => {
        const { volumeSnapshotStatuses } = (await node.vm('vault')).status ?? {};
        assert.deepEqual(volumeSnapshotStatuses, [
          { name: 'disk0', enabled: true },
          { name, enabled: true },
        ]);
      });
    });

    test('come back with its disks, on another claim, and the one that it had goes', async () => {
      await node.write('tpm', 'key later');
      await node.createRestore('unlocked', 'locked', 'vault');
      const { status } = await untilComplete('unlocked');
      const restored = status?.restores?.[1]?.persistentVolumeClaim ?? '';
      assert.match(restored, /^restore-.*-persistent-state-for-vault$/);
      const states = await stateOf('vault');
      assert.deepEqual(
        states.map(({ metadata }) => metadata.name),
        [restored],
      );
      assert.equal(states[0]?.metadata.ownerReferences?.[0]?.name, 'vault');
      assert.deepEqual(
        [await node.read(restored), (await node.vm('vault')).status?.restoreInProgress],
        ['key then', undefined],
      );
      await node.cluster.untilGone(resources.persistentVolumeClaims, 'tpm');
    });

    test('come back in their place', async () => {
      const [{ metadata: { name: before = '' } = {} } = {}] = await stateOf('vault');
      await node.createSnapshot('again', 'vault');
      await node.untilTaken('again');
      await node.write(before, 'key later');
      await node.createRestore('same', 'again', 'vault', { volumeRestorePolicy: 'InPlace' });
      await untilComplete('same');
      const states = await stateOf('vault');
      assert.deepEqual(
        states.map(({ metadata }) => metadata.name),
        [before],
      );
      assert.equal(await node.read(before), 'key then');
    });

    test('stay with the disks of their time: a restore that is deleted when the state was switched, and the VM was not, switches it back', async () => {
      const [state] = await stateOf('vault');
      const name = state?.metadata.name ?? '';
      const { metadata } = await node.createRestore('torn', 'nothing', 'vault');
      await untilSays('torn', /does not exist/);
      await node.createClaim('other-state', 'key of another time');
      const patch = (claim: string, labels: object, noted = {}) => {
        const body = { metadata: { labels, annotations: noted } };
        return node.cluster.client.patch(resources.persistentVolumeClaims, { namespace, name: claim }, body, 'merge');
      };
      await patch('other-state', { [keptState.label]: 'vault' }, { [annotations.lastRestore]: `torn-${metadata.uid}` });
      const aside = { [keptState.label]: null, [keptState.obsoleteLabel]: 'persistent-state-for-vault' };
      await patch(name, aside);
      const of = { volumeName: 'persistent-state-for-vault', volumeSnapshotName: 'v' };
      const status = { restores: [{ ...of, persistentVolumeClaim: 'other-state' }] };
      await node.cluster.client.patch(type, metadata, { status }, 'merge', { subresource: 'status' });
      await node.cluster.client.delete(type, metadata);
      await node.cluster.untilGone(type, 'torn');
      const [kept, ...others] = await stateOf('vault');
      assert.deepEqual([kept?.metadata.name, others], [name, []]);
      assert.equal(kept?.metadata.labels?.[keptState.obsoleteLabel], undefined);
      assert.equal(await node.read(name), 'key then');
    });

    test('come back with a VM that was deleted, and are no other VM’s', async () => {
      await node.createRestore('stolen', 'locked', 'thief');
      await untilSays('stolen', /keeps the state of a TPM or of EFI variables, which thief cannot have/);
      await node.cluster.client.delete(vms, { namespace, name: 'vault' });
      await node.cluster.untilGone(vms, 'vault');
      // Who collects what a deleted VM owned may be there first.
      for (const { metadata } of await stateOf('vault'))
        await writeIfThere(node.cluster.client.delete(resources.persistentVolumeClaims, metadata));
      await eventually(async () => assert.deepEqual(await stateOf('vault'), []));
      await node.createRestore('found', 'locked', 'vault');
      await untilComplete('found');
      const [state] = await stateOf('vault');
      assert.equal(await node.read(state?.metadata.name ?? ''), 'key then');
      assert.equal(state?.metadata.ownerReferences?.[0]?.uid, (await node.vm('vault')).metadata.uid);
    });

    test('are waited for: a VM that has none yet gets them with its first start', async () => {
      await node.createVm('young', [], machine('root'));
      await node.createSnapshot('early', 'young', { failureDeadline: '3s' });
      const early = await node.untilSnapshot('early', 'failed', ({ status }) => status?.phase === 'Failed');
      assert.match(
        early.status?.error?.message ?? findCondition(early.status?.conditions, 'Failure')?.reason ?? '',
        /deadline/,
      );
      await node.cluster.client.delete(vms, { namespace, name: 'young' });
    });
  });

  test('a restore that is taken away by force keeps no content that nobody wants', async () => {
    const contents = resources.virtualMachineSnapshotContents;
    await node.createSnapshot('left', 'box');
    await node.untilTaken('left');
    const { metadata } = await node.createRestore('forced', 'nothing', 'box');
    const contentOf = async () =>
      (await node.contents()).find(({ spec }) => spec.virtualMachineSnapshotName === 'left')?.metadata;
    const { name = '', finalizers = [] } = (await contentOf()) ?? {};
    const holds = ['nobody', metadata.uid].map((uid) => `snapshot.kubevirt.io/restore-${uid}`);
    const body = { metadata: { finalizers: [...finalizers, ...holds] } };
    await node.cluster.client.patch(contents, { namespace, name }, body, 'merge');
    await node.cluster.client.delete(resources.virtualMachineSnapshots, { namespace, name: 'left' });
    await eventually(async () => assert.deepEqual((await contentOf())?.finalizers, holds.slice(1)));
    await node.cluster.client.patch(type, metadata, { metadata: { finalizers: [] } }, 'merge');
    await node.cluster.client.delete(type, metadata);
    await node.cluster.untilGone(contents, name);
  });

  test('a restore whose finalizer was taken off leaves no VM locked', async () => {
    const status = { restoreInProgress: 'nobody' };
    await node.cluster.client.patch(vms, { namespace, name: 'box' }, { status }, 'merge', { subresource: 'status' });
    await eventually(async () => assert.equal((await node.vm('box')).status?.restoreInProgress, undefined));
  });
});
