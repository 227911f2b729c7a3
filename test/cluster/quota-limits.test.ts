import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findCondition, type KubeObject, resources } from '../../src/api/index.ts';
import { loadKubeAccess } from '../../src/kube/index.ts';
import { Cluster } from '../fixtures/controller/cluster.ts';
import { startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** The admission of a real kube-apiserver counts limits of pods; the test plays the controller that fills a quota's status. */

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
  const hard = { 'limits.memory': '1Gi', 'limits.cpu': '4' };
  const metadata = { name: 'limits', namespace: 'default' };
  const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata, spec: { hard } };
  await cluster.client.create<KubeObject>(resources.resourceQuotas, quota);
  const status = { hard, used: { 'limits.memory': '0', 'limits.cpu': '0' } };
  await cluster.client.patch(resources.resourceQuotas, metadata, { status }, 'merge', { subresource: 'status' });
  await cluster.startController();
});
after(() => cluster?.stop());

async function vmi(name: string, guest: string): Promise<string> {
  const { metadata } = await cluster.client.create<KubeObject>(resources.virtualMachineInstances, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name, namespace: 'default' } },
    ...{ spec: { domain: { memory: { guest }, cpu: { cores: 2 } } } },
  });
  return metadata.uid ?? '';
}

test('a guest starts in a namespace whose quota takes no pod without limits', async () => {
  const bare = { containers: [{ name: 'bare', image: 'x' }] };
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'bare', namespace: 'default' }, spec: bare };
  await assert.rejects(cluster.client.create<KubeObject>(resources.pods, pod), /must specify limits/);
  const launcher = await cluster.untilPod(await vmi('small', '64Mi'), 'bound', ({ spec }) => spec.nodeName === 'node1');
  const limits = launcher.spec.containers.find(({ name }) => name === 'compute')?.resources?.limits;
  assert.equal(limits?.cpu, '2');
  assert.match(String(limits?.memory), /^\d+/);
});

test('a guest for which the quota has no room says so', async () => {
  await vmi('large', '2Gi');
  await cluster.untilVmi('large', 'told', ({ status }) =>
    /exceeded quota/.test(findCondition(status?.conditions, 'Synchronized')?.message ?? ''),
  );
});
