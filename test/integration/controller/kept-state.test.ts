import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type PersistentVolumeClaim, type Pod, resources } from '../../../src/api/index.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';
import { MigrationPlay } from '../../fixtures/controller/migration-play.ts';
import { eventually } from '../../fixtures/eventually.ts';

/** Guests whose TPM outlives a start, and moves with them; agents and kubelets are scripted. */

const type = resources.persistentVolumeClaims;
const domain = { memory: { guest: '64Mi' }, devices: { tpm: { persistent: true } } };
let cluster: Cluster;
let play: MigrationPlay;
before(async () => {
  cluster = new Cluster(await embeddedApi());
  for (const name of ['node1', 'node2']) {
    const cpu = ['host-model-cpu', 'cpu-model-migration'].map((kind) => [`${kind}.node.kubevirt.io/Penryn`, 'true']);
    const own = { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': name };
    await cluster.addNode(name, { ...own, ...Object.fromEntries(cpu) });
  }
  await cluster.client.create(resources.storageClasses, {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name: 'lazy', annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
    provisioner: 'test',
    volumeBindingMode: 'WaitForFirstConsumer',
  } as never);
  await cluster.startController();
  play = new MigrationPlay(cluster);
});
after(() => cluster.stop());

async function claims(labelSelector: string): Promise<PersistentVolumeClaim[]> {
  return (await cluster.client.list<PersistentVolumeClaim>(type, { namespace: 'default', labelSelector })).items;
}
const namesOf = async (vm: string) => (await claims(`persistent-state-for=${vm}`)).map(({ metadata }) => metadata.name);
const claimIn = ({ spec }: Pod) =>
  spec.volumes?.find(({ name }) => name === 'vm-state')?.persistentVolumeClaim?.claimName;

test('the claim of a TPM is there before the pod, moves with its guest, and goes with its owner', async () => {
  const { metadata } = await play.guest('vault', { domain });
  const [first] = await namesOf('vault');
  assert.deepEqual((await cluster.pods(metadata.uid ?? '')).map(claimIn), [first]);
  const { pod } = await play.handedOver('vault', 'there');
  const [made] = await claims('kubevirt.io/migrationName=there');
  assert.equal(claimIn(pod), made?.metadata.name);
  assert.notEqual(claimIn(pod), first);
  assert.deepEqual(await namesOf('vault'), [first]);
  await play.finish('vault', 'there', pod);
  await play.untilPhase('there', 'Succeeded');
  assert.deepEqual(await namesOf('vault'), [made?.metadata.name]);
  assert.deepEqual(await claims('kubevirt.io/migrationName'), []);
  const shown = await cluster.untilVmi('vault', 'has its new claim', ({ status }) => {
    return status?.volumeStatus?.[0]?.persistentVolumeClaimInfo?.claimName === made?.metadata.name;
  });
  assert.equal(shown.status?.volumeStatus?.[0]?.name, 'persistent-state-for-this-vm');
  await cluster.client.delete(resources.virtualMachineInstances, shown.metadata);
  await play.endPod(pod);
  await eventually(async () => assert.deepEqual(await namesOf('vault'), []), 30_000);
});

test('a migration that is cancelled leaves the claim of its guest, and none of its own', async () => {
  await play.guest('stays', { domain });
  const before = await namesOf('stays');
  const migration = await play.migrate('stays', 'cancelled');
  await play.target(migration, 'bound', ({ spec }) => spec.nodeName !== undefined);
  assert.equal((await claims('kubevirt.io/migrationName=cancelled')).length, 1);
  await cluster.client.delete(resources.migrations, migration.metadata);
  await eventually(async () => assert.deepEqual(await claims('kubevirt.io/migrationName=cancelled'), []), 30_000);
  assert.deepEqual(await namesOf('stays'), before);
});
