import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  type KubeObject,
  type ResourceType,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';
import { type ExecuteContext, executors } from '../../../src/controller/vm/execute.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';

/** Steps about a VM whose objects others change between the look at them and the write. No controller runs: the moment is the test's. */

let cluster: Cluster;
const { virtualMachines: vms, virtualMachineInstances: vmis } = resources;

before(async () => {
  cluster = new Cluster(await embeddedApi());
});
after(() => cluster.stop());

const domain = { memory: { guest: '64Mi' } };

async function made(name: string) {
  const metadata = { name, namespace: 'default' };
  const template = { spec: { domain } };
  const vm = await cluster.client.create<VirtualMachine>(vms, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata },
    spec: { runStrategy: 'Always', template },
  } as never);
  const vmi = await cluster.client.create<VirtualMachineInstance>(vmis, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata, spec: { domain } },
  } as never);
  const seen: KubeObject[] = [];
  const saw = (_: unknown, __: unknown, newer: KubeObject) => seen.push(newer);
  const { client } = cluster;
  const context = {
    client,
    vms: { saw },
    vmis: { saw },
    key: `default/${name}`,
    vm,
    signal: AbortSignal.timeout(10_000),
  };
  return { vm, vmi, seen, context: context as unknown as ExecuteContext };
}

const write = <T extends KubeObject>(type: ResourceType, object: T, body: object) =>
  cluster.client.patch<T>(type, object.metadata, body, 'merge');
const waits = { kind: 'wait', afterMs: 200, reason: 'others have changed the object meanwhile' };
const labelled = { op: 'add', path: '/metadata/labels', value: { 'vendor.io/a': '1' } } as const;

test('labels that come to a VMI without any are not lost to those that its template gives it', async () => {
  const { vmi, seen, context } = await made('labels');
  assert.equal(vmi.metadata.labels, undefined);
  const newest = await write(vmis, vmi, { metadata: { labels: { 'kubevirt.io/nodeName': 'node1' } } });
  const step = { step: 'changeVmi', vmi, operations: [labelled] } as const;
  assert.deepEqual(await executors.changeVmi(step, context), waits);
  assert.deepEqual(seen, [newest]);
  assert.deepEqual((await cluster.find(vmis, 'labels'))?.metadata.labels, { 'kubevirt.io/nodeName': 'node1' });
  const operations = [{ ...labelled, value: { ...newest.metadata.labels, ...labelled.value } }];
  const again = { step: 'changeVmi', vmi: newest, operations } as const;
  assert.deepEqual(await executors.changeVmi(again, context), { kind: 'done' });
});

test('volumes that come to VM and VMI without any are not lost to those that were asked for', async () => {
  const { vm, vmi, context } = await made('volumes');
  const of = (name: string) => [{ name, persistentVolumeClaim: { claimName: name } }];
  await write(vms, vm, { spec: { template: { spec: { volumes: of('theirs') } } } });
  await write(vmis, vmi, { spec: { volumes: of('theirs') } });
  const plugged = { volumes: of('ours'), disks: [] };
  assert.deepEqual(await executors.changeVolumes({ step: 'changeVolumes', template: plugged }, context), waits);
  assert.deepEqual(await executors.plugVolumes({ step: 'plugVolumes', vmi, plugged }, context), waits);
  assert.deepEqual((await cluster.find<VirtualMachine>(vms, 'volumes'))?.spec.template.spec.volumes, of('theirs'));
  assert.deepEqual((await cluster.find<VirtualMachineInstance>(vmis, 'volumes'))?.spec.volumes, of('theirs'));
});

test('a finalizer that comes to a new VM is not lost to ours', async () => {
  const { vm, seen, context } = await made('finalizer');
  const newest = await write(vms, vm, { metadata: { finalizers: ['vendor.io/hold'] } });
  assert.deepEqual(await executors.addFinalizer({ step: 'addFinalizer' }, context), waits);
  assert.deepEqual(seen, [newest]);
  const { vm: _, ...rest } = context;
  assert.deepEqual(await executors.addFinalizer({ step: 'addFinalizer' }, { ...rest, vm: newest }), { kind: 'done' });
  assert.equal((await cluster.find(vms, 'finalizer'))?.metadata.finalizers?.length, 2);
});

test('what the API server does not take at all stays an error, and an object that is gone is none', async () => {
  const { vmi, context } = await made('refused');
  const operations = [{ op: 'remove', path: '/spec/no-such-member' }] as const;
  const step = { step: 'changeVmi', vmi, operations } as const;
  const refused = await executors.changeVmi(step, context);
  assert.equal(refused.kind === 'failed' && refused.error.code, 'HOTPLUG_FAILED');
  await cluster.client.delete(vmis, vmi.metadata);
  assert.deepEqual(await executors.changeVmi(step, context), { kind: 'done' });
});
