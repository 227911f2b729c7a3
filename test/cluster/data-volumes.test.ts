import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  type DataVolume,
  findCondition,
  type KubeObject,
  type PersistentVolumeClaim,
  resources,
  type VirtualMachineInstance,
} from '../../src/api/index.ts';
import { loadKubeAccess } from '../../src/kube/index.ts';
import { definitionOf, definitions } from '../fixtures/controller/cdi.ts';
import { Cluster } from '../fixtures/controller/cluster.ts';
import { eventually, stays } from '../fixtures/eventually.ts';
import { startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** DataVolumes on a real kube-apiserver, which learns the kind while the controller runs; the importer is played. */

const { group, version, kind } = resources.dataVolumes;

let cluster: Cluster;
before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  const server = await startKubeApiserver(assets);
  cluster = new Cluster({
    access: await loadKubeAccess({ kubeconfig: server.adminKubeconfig }),
    stop: () => server.stop(),
  });
  await cluster.addNode();
  await cluster.startController();
});
after(() => cluster?.stop());

const ownerOf = ({ metadata: { name, uid = '' } }: KubeObject) => ({
  ...{ apiVersion: `${group}/${version}`, kind, name, uid, controller: true },
});

async function claimOf(name: string, owner: KubeObject): Promise<void> {
  await cluster.client.create<PersistentVolumeClaim>(resources.persistentVolumeClaims, {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace: 'default', ownerReferences: [ownerOf(owner)] },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  });
}

async function dataVolume(name: string): Promise<DataVolume> {
  return cluster.client.create<DataVolume>(resources.dataVolumes, {
    apiVersion: `${group}/${version}`,
    kind,
    metadata: { name, namespace: 'default' },
    spec: { source: { blank: {} } },
  });
}

async function becomes(name: string, status: DataVolume['status']): Promise<void> {
  const target = { namespace: 'default', name };
  await cluster.client.patch(resources.dataVolumes, target, { status }, 'merge', { subresource: 'status' });
}

async function vmiOn(name: string): Promise<string> {
  const { metadata } = await cluster.client.create<VirtualMachineInstance>(resources.virtualMachineInstances, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, namespace: 'default' },
    spec: { domain: { memory: { guest: '64Mi' } }, volumes: [{ name: 'root', dataVolume: { name } }] },
  } as never);
  return metadata.uid ?? '';
}

const untilReady = (name: string, status: string, message: RegExp) =>
  cluster.untilVmi(name, `DataVolumesReady=${status} ${message}`, (vmi) => {
    const found = findCondition(vmi.status?.conditions, 'DataVolumesReady');
    return found?.status === status && message.test(found.message ?? '');
  });
const withoutPod = (uid: string) => stays(async () => assert.deepEqual(await cluster.pods(uid), []), 1_000);

test('a claim with a filler of a kind that this cluster does not know yet keeps its guest back, until it does', async () => {
  const owner = { apiVersion: '', kind, metadata: { name: 'early', uid: '0b0a2f6f-4b3a-4b0e-9a57-2c1d3e4f5a6b' } };
  await claimOf('early', owner);
  const uid = await vmiOn('early');
  await cluster.untilPhase('early', 'Pending');
  await withoutPod(uid);
  await cluster.client.create(definitions, definitionOf(resources.dataVolumes));
  await cluster.untilVmi('early', 'told that its DataVolume is gone', ({ status }) => {
    const found = findCondition(status?.conditions, 'Synchronized');
    return found?.reason === 'FailedDataVolumeImport' && /is gone/.test(found.message ?? '');
  });
  await cluster.untilEvent('early', 'FailedDataVolumeImport');
  assert.deepEqual(await cluster.pods(uid), []);
});

test('a guest starts when its DataVolume is filled, and not before', async () => {
  await claimOf('import', await dataVolume('import'));
  const uid = await vmiOn('import');
  await untilReady('import', 'False', /no phase yet/);
  await becomes('import', { phase: 'ImportInProgress', progress: '41.0%' });
  await untilReady('import', 'False', /ImportInProgress, 41.0%/);
  await withoutPod(uid);
  await becomes('import', { phase: 'Succeeded' });
  await cluster.runPod(await cluster.untilPod(uid, 'bound', ({ spec }) => spec.nodeName === 'node1'));
  await cluster.untilPhase('import', 'Scheduled');
  await untilReady('import', 'True', /./);
});

test('a DataVolume that fails fails its VMI', async () => {
  await claimOf('broken', await dataVolume('broken'));
  const uid = await vmiOn('broken');
  const conditions = [{ type: 'Running', status: 'False' as const, reason: 'Error', message: '404 Not Found' }];
  await becomes('broken', { phase: 'Failed', conditions });
  await cluster.untilPhase('broken', 'Failed');
  await cluster.untilEvent('broken', 'FailedDataVolumeImport');
  assert.deepEqual(await cluster.pods(uid), []);
});

test('a DataVolume that waits for its first consumer gets one on the node of the guest, and the guest comes after', async () => {
  await claimOf('lazy', await dataVolume('lazy'));
  await becomes('lazy', { phase: 'WaitForFirstConsumer' });
  const uid = await vmiOn('lazy');
  const consumer = await cluster.untilPod(uid, 'bound', ({ spec }) => spec.nodeName === 'node1');
  assert.equal(consumer.metadata.annotations?.['kubevirt.io/ephemeral-provisioning'], 'true');
  await cluster.setPodStatus(consumer, { phase: 'Succeeded' });
  await becomes('lazy', { phase: 'ImportInProgress' });
  await untilReady('lazy', 'False', /ImportInProgress/);
  assert.equal((await cluster.untilPhase('lazy', 'Pending')).status?.nodeName, undefined);
  await becomes('lazy', { phase: 'Succeeded' });
  const launcher = await cluster.untilPod(uid, 'the launcher alone', ({ metadata }) => {
    return metadata.annotations?.['kubevirt.io/ephemeral-provisioning'] === undefined && !metadata.deletionTimestamp;
  });
  await eventually(async () => {
    assert.deepEqual(
      (await cluster.pods(uid)).map(({ metadata }) => metadata.uid),
      [launcher.metadata.uid],
    );
  });
  await cluster.runPod(launcher);
  await cluster.untilPhase('lazy', 'Scheduled');
});
