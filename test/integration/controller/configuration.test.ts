import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findCondition, resources, type VirtualMachine } from '../../../src/api/index.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';
import { MigrationPlay } from '../../fixtures/controller/migration-play.ts';

/** What a changed KubeVirt object says counts at once, for VMs that nothing else wakes, too. */

let cluster: Cluster;
const vms = resources.virtualMachines;
const kubevirt = { name: 'kubevirt', namespace: 'default' };

before(async () => {
  cluster = new Cluster(await embeddedApi());
  await cluster.addNode();
  await cluster.client.create(resources.kubevirts, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: kubevirt },
    spec: { configuration: { vmRolloutStrategy: 'Stage' } },
  } as never);
  const status = { status: { phase: 'Deployed' } };
  await cluster.client.patch(resources.kubevirts, kubevirt, status, 'merge', { subresource: 'status' });
  await cluster.startController();
});
after(() => cluster.stop());

test('a change that was staged is made when the cluster begins to make changes live', async () => {
  const name = 'staged';
  await cluster.client.create(vms, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name, namespace: 'default' } },
    spec: {
      runStrategy: 'Always',
      template: { spec: { architecture: 'amd64', nodeSelector: { zone: 'a' }, domain: { memory: { guest: '1Gi' } } } },
    },
  } as never);
  await cluster.client.patch(resources.nodes, { name: 'node1' }, { metadata: { labels: { zone: 'a' } } }, 'merge');
  const { metadata } = await cluster.untilVmi(name, 'there', () => true);
  await cluster.runPod(await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName !== undefined));
  await cluster.untilPhase(name, 'Scheduled');
  await new MigrationPlay(cluster).report(name, { phase: 'Running' });
  await cluster.untilPhase(name, 'Running');
  const template = { spec: { nodeSelector: { zone: 'b' } } };
  await cluster.client.patch<VirtualMachine>(vms, { name, namespace: 'default' }, { spec: { template } }, 'merge');
  const asksForRestart = ({ status }: VirtualMachine) =>
    findCondition(status?.conditions, 'RestartRequired')?.status === 'True';
  await cluster.until<VirtualMachine>(vms, name, 'in need of a restart', asksForRestart);
  assert.equal((await cluster.untilVmi(name, 'there', () => true)).spec.nodeSelector?.zone, 'a');
  const spec = { configuration: { vmRolloutStrategy: 'LiveUpdate' } };
  await cluster.client.patch(resources.kubevirts, kubevirt, { spec }, 'merge');
  await cluster.untilVmi(name, 'to go elsewhere', (vmi) => vmi.spec.nodeSelector?.zone === 'b');
  await cluster.until<VirtualMachine>(vms, name, 'as it shall be', (vm) => !asksForRestart(vm));
});
