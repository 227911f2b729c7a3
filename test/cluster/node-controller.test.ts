import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type KubeObject, type Pod, resources } from '../../src/api/index.ts';
import { loadKubeAccess } from '../../src/kube/index.ts';
import { Cluster, computeStatus } from '../fixtures/controller/cluster.ts';
import { stays } from '../fixtures/eventually.ts';
import { startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** Nodes that go with their agents, on a real kube-apiserver; kubelet and agent are played. */

let cluster: Cluster;
before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  const server = await startKubeApiserver(assets);
  cluster = new Cluster({
    access: await loadKubeAccess({ kubeconfig: server.adminKubeconfig }),
    stop: () => server.stop(),
  });
  await cluster.startController();
});
after(() => cluster?.stop());

/** A VMI that runs on a node of its own. */
async function running(name: string): Promise<{ readonly pod: Pod; readonly node: string }> {
  const node = `node-of-${name}`;
  await cluster.addNode(node, { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': node });
  await cluster.client.create(resources.virtualMachineInstances, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, namespace: 'default' },
    spec: {
      nodeSelector: { 'kubernetes.io/hostname': node },
      domain: { memory: { guest: '64Mi' }, devices: { autoattachPodInterface: false } },
    },
  } as never);
  const { metadata } = await cluster.untilPhase(name, 'Scheduling');
  const pod = await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName === node);
  await cluster.runPod(pod);
  await cluster.untilPhase(name, 'Scheduled');
  const status = { status: { phase: 'Running' } };
  await cluster.client.patch(resources.virtualMachineInstances, { namespace: 'default', name }, status, 'merge');
  return { pod, node };
}

const phaseIs = async (name: string, phase: string) =>
  assert.equal(
    (await cluster.find<KubeObject & { status: { phase: string } }>(resources.virtualMachineInstances, name))?.status
      .phase,
    phase,
  );

test('a node is deleted while the pod of a guest may run there: nothing is done until the pod has ended, then its VMI has failed', async () => {
  const { pod, node } = await running('proven');
  await cluster.client.delete(resources.nodes, { name: node });
  await stays(() => phaseIs('proven', 'Running'), 1_500);
  const ended = computeStatus({ terminated: { exitCode: 137 } });
  await cluster.setPodStatus(pod, { phase: 'Failed', containerStatuses: [ended] });
  const { status } = await cluster.untilPhase('proven', 'Failed');
  assert.equal(status?.reason, 'NodeUnresponsive');
});

test('the agent of a node is not heard of from its first heartbeat on, which is old: its node is left alone until it had its time', async () => {
  const { node } = await running('young');
  const annotations = { 'kubevirt.io/heartbeat': '2020-01-01T00:00:00Z' };
  await cluster.client.patch(resources.nodes, { name: node }, { metadata: { annotations } }, 'merge');
  await stays(async () => {
    const found = await cluster.client.get<KubeObject>(resources.nodes, { name: node });
    assert.equal(found.metadata.labels?.['kubevirt.io/schedulable'], 'true');
  }, 1_500);
  await phaseIs('young', 'Running');
});
