import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type KubeObject, resources, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';

const finalizer = 'kubevirt.io/foregroundDeleteVirtualMachine';

function vmi(name: string): VirtualMachineInstance {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, namespace: 'default' },
    spec: { domain: { memory: { guest: '64Mi' } } },
  };
}

/** The other tests of the controller run on an API that admits nothing; this one does what upstream's webhook does. */
describe('a VMI that the API has admitted', () => {
  let cluster: Cluster;
  before(async () => {
    cluster = new Cluster(await embeddedApi());
    const ref = { name: 'kubevirt', namespace: 'kubevirt' };
    const kubevirt = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: ref, spec: { configuration: {} } };
    await cluster.client.create(resources.kubevirts, kubevirt as KubeObject);
    const status = { status: { phase: 'Deployed', defaultArchitecture: 'amd64' } };
    await cluster.client.patch(resources.kubevirts, ref, status, 'merge', { subresource: 'status' });
    await cluster.addNode();
  });
  after(() => cluster.stop());

  test('is Pending without a controller, and gets its pod from the controller, which adds nothing twice', async () => {
    const made = await cluster.client.create<VirtualMachineInstance>(resources.virtualMachineInstances, vmi('early'));
    assert.equal(made.status?.phase, 'Pending');
    await cluster.startController();
    const taken = await cluster.untilPhase('early', 'Scheduling');
    assert.deepEqual(taken.metadata.finalizers, [finalizer]);
    assert.deepEqual(taken.metadata.annotations, made.metadata.annotations);
    assert.deepEqual(taken.spec, made.spec);
    assert.equal(taken.status?.runtimeUser, 107, 'not the 0 that this controller would give');
    assert.deepEqual(
      taken.status?.phaseTransitionTimestamps?.map(({ phase }) => phase),
      ['Pending', 'Scheduling'],
    );
    assert.deepEqual(
      taken.status?.phaseTransitionTimestamps?.[0],
      made.status?.phaseTransitionTimestamps?.[0],
      'the time of its creation',
    );
    assert.equal((await cluster.pods(made.metadata.uid ?? '')).length, 1);
  });

  test('goes when it is deleted before it had a pod', async () => {
    await cluster.stopController();
    await cluster.client.create(resources.virtualMachineInstances, vmi('never'));
    await cluster.client.delete(resources.virtualMachineInstances, { name: 'never', namespace: 'default' });
    assert.equal(
      (await cluster.find<VirtualMachineInstance>(resources.virtualMachineInstances, 'never'))?.status?.phase,
      'Pending',
    );
    await cluster.startController();
    await cluster.untilGone(resources.virtualMachineInstances, 'never');
  });
});
