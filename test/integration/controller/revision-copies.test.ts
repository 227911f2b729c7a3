import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type KubeObject,
  type OwnerReference,
  resources,
  type VirtualMachine,
  type VirtualMachineRestore,
  type VirtualMachineSnapshot,
} from '../../../src/api/index.ts';
import { memberAt } from '../../../src/base/index.ts';
import { controllerReference } from '../../../src/controller/owned/index.ts';
import { withRevisions } from '../../../src/controller/restore/revisions.ts';
import { withKeptRevisions } from '../../../src/controller/snapshot/content.ts';
import { KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { bearer } from '../../fixtures/controller/cluster.ts';
import { controllerToken, type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { eventually } from '../../fixtures/eventually.ts';

const type = resources.controllerRevisions;
const snapshots = resources.virtualMachineSnapshots;
const namespace = 'default';
const { signal } = new AbortController();

describe('copies of ControllerRevisions for snapshots and restored VMs', () => {
  let api: EmbeddedApi;
  let client: KubeClient;
  before(async () => {
    api = await startEmbeddedApi();
    const access = await loadKubeAccess({ kubeconfig: api.kubeconfig });
    client = new KubeClient({ userAgent: 'test' }, { access: { ...access, credentials: bearer(controllerToken) } });
  });
  after(async () => {
    client?.close();
    await api?.stop();
  });

  const makeRevision = (name: string, owner?: OwnerReference, guest = '1') =>
    client.create<KubeObject>(type, {
      ...{ apiVersion: 'apps/v1', kind: 'ControllerRevision', revision: 0 },
      metadata: { name, namespace, ...(owner && { ownerReferences: [owner] }) },
      data: { spec: { cpu: { guest } } },
    } as KubeObject);
  const find = (name: string) => client.get<KubeObject>(type, { name, namespace });
  const ownerOf = async (name: string) => (await find(name)).metadata.ownerReferences?.[0]?.uid;
  const makeVm = (name: string, revisionName: string) => {
    const template = { spec: { domain: { devices: {} } } };
    const spec = { runStrategy: 'Halted', template, instancetype: { name: 'small', revisionName } };
    const vm = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name, namespace }, spec };
    return client.create<VirtualMachine>(resources.virtualMachines, vm as VirtualMachine);
  };
  const makeSnapshot = (name: string, vm: string) => {
    const spec = { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: vm } };
    const head = { apiVersion: 'snapshot.kubevirt.io/v1beta1', kind: 'VirtualMachineSnapshot' };
    return client.create<VirtualMachineSnapshot>(snapshots, { ...head, metadata: { name, namespace }, spec });
  };
  const ofVm = (vm: VirtualMachine) => controllerReference(resources.virtualMachines, vm);
  const namedBy = (spec: VirtualMachine['spec']) => memberAt(spec, 'instancetype', 'revisionName');
  const keep = async (snapshot: VirtualMachineSnapshot, vm: VirtualMachine) =>
    namedBy(await withKeptRevisions(snapshot, vm, vm.spec, client, signal));
  const restore = async (uid: string, vm: VirtualMachine) => {
    const spec = { virtualMachineSnapshotName: 'snap' };
    const wanted = { metadata: { name: 'back', namespace, uid }, spec } as VirtualMachineRestore;
    return namedBy((await withRevisions(wanted, vm, client, signal)).spec);
  };

  test('a snapshot has a copy of its own, which it finds again', async () => {
    const vm = await makeVm('kept', 'kept-small-1');
    await makeRevision('kept-small-1', ofVm(vm));
    const snapshot = await makeSnapshot('first', 'kept');
    assert.equal(await keep(snapshot, vm), 'first-small-1');
    assert.equal(await ownerOf('first-small-1'), snapshot.metadata.uid);
    assert.equal(await keep(snapshot, vm), 'first-small-1');
  });

  test('the copy of a snapshot of that name which is gone goes with it, so it is not taken', async () => {
    const vm = await makeVm('again', 'again-small-1');
    await makeRevision('again-small-1', ofVm(vm));
    const name = 'nightly-small-1';
    assert.equal(await keep(await makeSnapshot('nightly', 'again'), vm), name);
    const slow = { metadata: { finalizers: ['example.com/slow'] } };
    await client.patch(type, { name, namespace }, slow, 'merge');
    await client.delete(snapshots, { name: 'nightly', namespace });
    await eventually(async () => assert.ok((await find(name)).metadata.deletionTimestamp));
    const newer = await makeSnapshot('nightly', 'again');
    const kept = `${name}-${newer.metadata.uid}`;
    assert.equal(await keep(newer, vm), kept);
    assert.equal(await ownerOf(kept), newer.metadata.uid);
  });

  test('what says something else is no copy', async () => {
    const vm = await makeVm('grown', 'grown-small-1');
    await makeRevision('grown-small-1', ofVm(vm));
    const snapshot = await makeSnapshot('weekly', 'grown');
    await makeRevision('weekly-small-1', undefined, '2');
    assert.equal(await keep(snapshot, vm), `weekly-small-1-${snapshot.metadata.uid}`);
  });

  test('a restored VM has a copy of its own, and not the revision of another VM that says the same', async () => {
    await makeRevision('snap-small-1');
    await makeRevision('mine-small-1', ofVm(await makeVm('somebody', 'mine-small-1')));
    const vm = await makeVm('mine', 'snap-small-1');
    assert.equal(await restore('r1', vm), 'mine-small-1-r1');
    assert.equal(await ownerOf('mine-small-1-r1'), vm.metadata.uid);
    assert.equal(await restore('r1', vm), 'mine-small-1-r1');
  });

  test('a restored VM takes its own revision, and one that nobody has, which it gets later', async () => {
    await makeRevision('snap-large-1');
    const [own, free] = [await makeVm('own', 'snap-large-1'), await makeVm('free', 'snap-large-1')];
    await makeRevision('own-large-1', ofVm(own));
    await makeRevision('free-large-1');
    assert.deepEqual([await restore('r2', own), await restore('r2', free)], ['own-large-1', 'free-large-1']);
  });

  test('where every name is taken it is said', async () => {
    await makeRevision('snap-tiny-1');
    const other = ofVm(await makeVm('other', 'full-tiny-1'));
    for (const name of ['full-tiny-1', 'full-tiny-1-r3']) await makeRevision(name, other);
    await assert.rejects(restore('r3', await makeVm('full', 'snap-tiny-1')), /full-tiny-1, full-tiny-1-r3/);
  });
});
