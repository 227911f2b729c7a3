import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type KubeObject, resources, type VirtualMachineInstance } from '../../src/api/index.ts';
import { Cluster } from '../fixtures/controller/cluster.ts';
import { startStockCluster } from '../fixtures/controller/stock-cluster.ts';
import { stays } from '../fixtures/eventually.ts';

const type = resources.podDisruptionBudgets;

let cluster: Cluster;
before(async () => {
  cluster = new Cluster(await startStockCluster());
});
after(() => cluster?.stop());

function budget(name: string, owner?: VirtualMachineInstance): Promise<KubeObject> {
  const reference = owner && {
    ...{ apiVersion: owner.apiVersion, kind: owner.kind, name: owner.metadata.name, uid: owner.metadata.uid ?? '' },
    ...{ controller: true, blockOwnerDeletion: true },
  };
  const metadata = { name, namespace: 'default', ...(reference && { ownerReferences: [reference] }) };
  const spec = { minAvailable: 1, selector: { matchLabels: { app: name } } };
  const object: KubeObject & { spec: object } = { apiVersion: 'policy/v1', kind: type.kind, metadata, spec };
  return cluster.client.create<KubeObject>(type, object);
}

test('a budget that an older release left for a VMI is deleted with the stock rights, and a user’s own stays', async () => {
  const vmi = await cluster.client.create<VirtualMachineInstance>(resources.virtualMachineInstances, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name: 'guarded', namespace: 'default' },
    spec: { domain: { memory: { guest: '64Mi' } }, evictionStrategy: 'LiveMigrate' },
  });
  await budget('kubevirt-disruption-budget-x2k5q', vmi);
  await budget('users-own');
  await cluster.startController();
  await cluster.untilGone(type, 'kubevirt-disruption-budget-x2k5q');
  await cluster.untilEvent('guarded', 'SuccessfulDelete');
  await stays(async () => assert.ok(await cluster.find(type, 'users-own')), 500);
});
