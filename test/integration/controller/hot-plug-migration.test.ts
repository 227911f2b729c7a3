import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Pod, resources } from '../../../src/api/index.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';
import { MigrationPlay } from '../../fixtures/controller/migration-play.ts';
import { eventually } from '../../fixtures/eventually.ts';

/** Guests with volumes that were plugged in while they ran move with them; agents and kubelets are scripted. */

let cluster: Cluster;
let play: MigrationPlay;
before(async () => {
  cluster = new Cluster(await embeddedApi());
  for (const name of ['node1', 'node2']) {
    const cpu = ['host-model-cpu', 'cpu-model-migration'].map((kind) => [`${kind}.node.kubevirt.io/Penryn`, 'true']);
    const own = { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': name };
    await cluster.addNode(name, { ...own, ...Object.fromEntries(cpu) });
  }
  await cluster.startController();
  play = new MigrationPlay(cluster);
});
after(() => cluster.stop());

/** Of the guest's one launcher on `node`. */
async function attachmentsOn(node: string): Promise<Pod[]> {
  const { items } = await cluster.client.list<Pod>(resources.pods, { labelSelector: 'kubevirt.io=hotplug-disk' });
  return items.filter(({ spec, metadata }) => spec.nodeName === node && !metadata.deletionTimestamp);
}

async function attachmentOn(node: string): Promise<Pod> {
  let found: Pod | undefined;
  await eventually(async () => {
    [found] = await attachmentsOn(node);
    assert.ok(found);
  }, 30_000);
  return found ?? assert.fail();
}

async function run(pod: Pod): Promise<void> {
  const container = { name: 'hotplug-disk', ready: true, restartCount: 0, image: 'x', imageID: 'x' };
  await cluster.setPodStatus(pod, { phase: 'Running', containerStatuses: [container] });
}

/** A guest on node1 that has the volume `name` since it runs. */
async function withVolume(name: string): Promise<void> {
  await play.guest(name);
  const type = resources.persistentVolumeClaims;
  await cluster.client.create(type, {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace: 'default' },
    spec: { accessModes: ['ReadWriteMany'], volumeMode: 'Block', resources: { requests: { storage: '1Gi' } } },
  } as never);
  const bound = { status: { phase: 'Bound', capacity: { storage: '1Gi' } } };
  await cluster.client.patch(type, { name, namespace: 'default' }, bound, 'merge', { subresource: 'status' });
  const volume = { name, persistentVolumeClaim: { claimName: name, hotpluggable: true } };
  const disk = { name, disk: { bus: 'scsi' }, serial: name };
  await cluster.client.patch(
    resources.virtualMachineInstances,
    { namespace: 'default', name },
    { spec: { volumes: [volume], domain: { devices: { disks: [disk] } } } },
    'merge',
  );
  await run(await attachmentOn('node1'));
  const { status } = await cluster.untilVmi(name, 'attached', (vmi) => {
    return Boolean(vmi.status?.volumeStatus?.[0]?.hotplugVolume?.attachPodUID);
  });
  await play.report(name, {
    volumeStatus: status?.volumeStatus?.map((each) => ({ ...each, phase: 'Ready', target: 'sda' })),
  });
}

const attachedUid = async (name: string) =>
  (await cluster.untilVmi(name, 'there', () => true)).status?.volumeStatus?.[0]?.hotplugVolume?.attachPodUID;

test('the target gets a pod that brings the volumes, the agents are told of it, and the old one goes', async () => {
  await withVolume('moves');
  const [old] = await attachmentsOn('node1');
  const migration = await play.migrate('moves', 'moves-1');
  const pod = await play.target(migration, 'bound', ({ spec }) => spec.nodeName === 'node2');
  assert.deepEqual(
    pod.spec.volumes?.filter(({ persistentVolumeClaim }) => persistentVolumeClaim),
    [],
  );
  await cluster.runPod(pod);
  const attachment = await attachmentOn('node2');
  assert.equal(attachment.metadata.ownerReferences?.[0]?.uid, pod.metadata.uid);
  assert.equal(attachment.metadata.labels?.['kubevirt.io/migrationJobUID'], migration.metadata.uid);
  assert.deepEqual(
    attachment.spec.containers[0]?.volumeDevices?.map(({ name }) => name),
    ['moves'],
  );
  assert.deepEqual(await play.stateOf('moves'), {});
  await run(attachment);
  await play.untilPhase('moves-1', 'PreparingTarget');
  assert.equal((await play.stateOf('moves')).targetAttachmentPodUID, attachment.metadata.uid);
  await cluster.stopController();
  await cluster.startController();
  await play.finish('moves', 'moves-1', pod);
  await play.untilPhase('moves-1', 'Succeeded');
  await cluster.untilGone(resources.pods, old?.metadata.name ?? '');
  assert.deepEqual(
    (await attachmentsOn('node2')).map(({ metadata }) => metadata.uid),
    [attachment.metadata.uid],
  );
  await eventually(async () => assert.equal(await attachedUid('moves'), attachment.metadata.uid), 30_000);
});

test('a pod that ends before it has brought the volumes fails the migration, and nothing of the target is left', async () => {
  await withVolume('fails');
  await eventually(async () => assert.equal((await attachmentsOn('node1')).length, 1), 30_000);
  const before = await attachedUid('fails');
  const migration = await play.migrate('fails', 'fails-1');
  const pod = await play.target(migration, 'bound', ({ spec }) => spec.nodeName === 'node2');
  await cluster.runPod(pod);
  let attachment: Pod | undefined;
  await eventually(async () => {
    attachment = (await attachmentsOn('node2')).find(
      ({ metadata }) => metadata.ownerReferences?.[0]?.uid === pod.metadata.uid,
    );
    assert.ok(attachment);
  }, 30_000);
  await cluster.setPodStatus(attachment ?? assert.fail(), { phase: 'Failed', message: 'no disk' });
  const { reason, message } = await play.untilFailed('fails-1');
  assert.deepEqual(
    [reason, message],
    ['AttachmentPodEnded', 'Migration failed because target attachment pod shutdown during migration: no disk'],
  );
  await play.cancelRetryOf('fails-1');
  await cluster.untilGone(resources.pods, pod.metadata.name, { orEnding: true });
  await cluster.untilGone(resources.pods, attachment?.metadata.name ?? '');
  assert.equal(await attachedUid('fails'), before);
});
