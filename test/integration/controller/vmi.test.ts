import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { finalizers, findCondition, resources, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { Cluster, computeStatus } from './embedded.ts';

let cluster: Cluster;
before(async () => {
  cluster = await Cluster.start();
  await cluster.addNode();
  await cluster.startController();
});
after(() => cluster.stop());

async function createVmi(name: string, spec: object = {}): Promise<VirtualMachineInstance> {
  return cluster.client.create<VirtualMachineInstance>(resources.virtualMachineInstances, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, namespace: 'default' },
    spec: { domain: { memory: { guest: '64Mi' } }, ...spec },
  });
}

/** A VMI handed over to node1, as the agent meets it. */
async function handedOver(name: string): Promise<VirtualMachineInstance> {
  const { metadata } = await createVmi(name);
  const pod = await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName === 'node1');
  await cluster.runPod(pod);
  return cluster.untilPhase(name, 'Scheduled');
}

test('a VMI gets finalizer, pod and node, and is handed over when its pod runs', async () => {
  const vmi = await createVmi('handover', {
    volumes: [{ name: 'seed', cloudInitNoCloud: { userData: '#cloud-config' } }],
  });
  const uid = vmi.metadata.uid ?? '';
  const bound = await cluster.untilPod(uid, 'bound', ({ spec }) => spec.nodeName === 'node1');
  const scheduling = await cluster.untilPhase('handover', 'Scheduling');
  assert.ok(scheduling.metadata.finalizers?.includes(finalizers.vmi));
  assert.equal(scheduling.status?.runtimeUser, 0);
  await cluster.runPod(bound);
  const done = await cluster.untilPhase('handover', 'Scheduled');
  assert.equal(done.metadata.labels?.['kubevirt.io/nodeName'], 'node1');
  assert.equal(done.status?.nodeName, 'node1');
  assert.deepEqual(done.status?.activePods, { [bound.metadata.uid ?? '']: 'node1' });
  assert.equal(done.status?.migrationTransport, 'Unix');
  assert.deepEqual(done.status?.volumeStatus, [{ name: 'seed', target: '' }]);
  assert.deepEqual(
    done.status?.phaseTransitionTimestamps?.map(({ phase }) => phase),
    ['Pending', 'Scheduling', 'Scheduled'],
  );
  const pod = await cluster.untilPod(uid, 'labelled and not paused', (each) => {
    const gate = findCondition(each.status?.conditions, 'kubevirt.io/virtual-machine-unpaused');
    return each.metadata.labels?.['kubevirt.io/nodeName'] === 'node1' && gate?.status === 'True';
  });
  assert.equal((await cluster.pods(uid)).length, 1);
  assert.match(pod.metadata.name, /^virt-launcher-handover-/);
});

test('fields that nobody here knows stay in the VMI, from creation to hand-over', async () => {
  const { metadata } = await createVmi('unknown-fields', { somethingNew: { deep: [1, 2] } });
  const pod = await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName !== undefined);
  await cluster.runPod(pod);
  const vmi = await cluster.untilPhase('unknown-fields', 'Scheduled');
  assert.deepEqual(vmi.spec.somethingNew, { deep: [1, 2] });
});

test('an image that cannot be pulled becomes a condition with the words of the kubelet and an event', async () => {
  const { metadata } = await createVmi('no-image');
  const pod = await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName !== undefined);
  const message = 'image registry.example/none:v1 is not in the image directory';
  await cluster.setPodStatus(pod, {
    phase: 'Pending',
    containerStatuses: [computeStatus({ waiting: { reason: 'ErrImagePull', message } })],
  });
  const vmi = await cluster.untilVmi('no-image', 'Synchronized=False', ({ status }) =>
    Boolean(findCondition(status?.conditions, 'Synchronized')),
  );
  const condition = findCondition(vmi.status?.conditions, 'Synchronized');
  assert.deepEqual([condition?.status, condition?.reason, condition?.message], ['False', 'ErrImagePull', message]);
  assert.equal(vmi.status?.phase, 'Scheduling');
  await cluster.untilEvent('no-image', 'ErrImagePull');
  await cluster.untilEvent('no-image', 'SuccessfulCreate');
});

test('a pod that ends before the hand-over fails the VMI and says why', async () => {
  const { metadata } = await createVmi('early-end');
  const pod = await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName !== undefined);
  const terminated = { exitCode: 1, message: 'no libvirt daemon' };
  await cluster.setPodStatus(pod, { phase: 'Failed', containerStatuses: [computeStatus({ terminated })] });
  const vmi = await cluster.untilPhase('early-end', 'Failed');
  const condition = findCondition(vmi.status?.conditions, 'Synchronized');
  assert.equal(condition?.reason, 'PodFailed');
  assert.match(condition?.message ?? '', /exit code 1.*no libvirt daemon/);
});

test('a handed-over VMI whose pod is gone fails, and no second pod is made', async () => {
  const vmi = await handedOver('lost-pod');
  const [pod] = await cluster.pods(vmi.metadata.uid ?? '');
  await cluster.client.delete(resources.pods, pod?.metadata ?? { name: '' }, { graceSeconds: 0 });
  await cluster.untilPhase('lost-pod', 'Failed');
  assert.deepEqual(await cluster.pods(vmi.metadata.uid ?? ''), []);
});

test('deleting a VMI ends its pod with grace and lets go of the VMI when the pod is gone', async () => {
  const vmi = await handedOver('deleted');
  await cluster.client.delete(resources.virtualMachineInstances, vmi.metadata);
  const pod = await cluster.untilPod(vmi.metadata.uid ?? '', 'terminating', ({ metadata }) =>
    Boolean(metadata.deletionTimestamp),
  );
  assert.equal(pod.metadata.deletionGracePeriodSeconds, 60);
  const held = await cluster.find<VirtualMachineInstance>(resources.virtualMachineInstances, 'deleted');
  assert.equal(held?.status?.phase, 'Scheduled');
  await cluster.client.delete(resources.pods, pod.metadata, { graceSeconds: 0 });
  await cluster.untilGone(resources.virtualMachineInstances, 'deleted');
});

test('deleting a VMI that was never bound leaves nothing behind', async () => {
  const vmi = await createVmi('unbound', { nodeSelector: { nowhere: 'true' } });
  const uid = vmi.metadata.uid ?? '';
  const seen = await cluster.untilVmi('unbound', 'PodScheduled=False', ({ status }) =>
    Boolean(findCondition(status?.conditions, 'PodScheduled')),
  );
  const condition = findCondition(seen.status?.conditions, 'PodScheduled');
  assert.deepEqual([condition?.status, condition?.reason], ['False', 'Unschedulable']);
  assert.match(condition?.message ?? '', /0\/1 nodes are available: 1 node\(s\) didn't match .*nowhere=true/);
  await cluster.client.delete(resources.virtualMachineInstances, vmi.metadata);
  await cluster.untilGone(resources.virtualMachineInstances, 'unbound');
  assert.deepEqual(await cluster.pods(uid), []);
});

test('a pod that could not be placed is bound as soon as a node fits', async () => {
  const vmi = await createVmi('waits-for-node', { nodeSelector: { zone: 'late' } });
  await cluster.untilVmi('waits-for-node', 'PodScheduled=False', ({ status }) =>
    Boolean(findCondition(status?.conditions, 'PodScheduled')),
  );
  await cluster.addNode('late-node', { 'kubevirt.io/schedulable': 'true', zone: 'late' });
  await cluster.untilPod(vmi.metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName === 'late-node');
});

test('a pod of a foreign owner with the name of ours is left alone and the VMI says so', async () => {
  const { podNames } = await import('../../../src/controller/index.ts');
  await cluster.stopController();
  const vmi = await createVmi('name-taken');
  const { podName } = podNames('name-taken', vmi.metadata.uid ?? '');
  await cluster.client.create(resources.pods, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: podName, namespace: 'default' },
    spec: { containers: [{ name: 'other', image: 'other' }] },
  } as never);
  await cluster.startController();
  const seen = await cluster.untilVmi('name-taken', 'Synchronized=False', ({ status }) =>
    Boolean(findCondition(status?.conditions, 'Synchronized')),
  );
  assert.equal(findCondition(seen.status?.conditions, 'Synchronized')?.reason, 'FailedCreate');
  assert.equal(seen.status?.phase, 'Pending');
});

test('a launcher pod whose VMI is gone is deleted', async () => {
  await cluster.stopController();
  const { renderLauncherPod } = await import('../../../src/controller/index.ts');
  const { buildConfig, buildVmi } = await import('../../unit/controller/builders.ts');
  const orphan = renderLauncherPod(buildVmi({}, {}, { name: 'vanished', uid: 'uid-of-nobody' }), buildConfig());
  await cluster.client.create(resources.pods, orphan);
  await cluster.startController();
  await cluster.untilGone(resources.pods, orphan.metadata.name);
});
