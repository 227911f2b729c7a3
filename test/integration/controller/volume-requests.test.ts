import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type KubeObject,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';
import { sameJson } from '../../../src/base/index.ts';
import { Cluster, embeddedApi, token } from '../../fixtures/controller/cluster.ts';

/** Volumes that virt-api was asked to plug into VMs, in a cluster where they are not plugged by templates (the gate HotplugVolumes): it writes the status of the VM. */

let cluster: Cluster;
const vms = resources.virtualMachines;
const ref = { name: 'asks', namespace: 'default' };

before(async () => {
  cluster = new Cluster(await embeddedApi());
  const kubevirt = { name: 'kubevirt', namespace: 'kubevirt' };
  const developerConfiguration = { featureGates: ['HotplugVolumes'] };
  await cluster.client.create(resources.kubevirts, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: kubevirt },
    spec: { configuration: { developerConfiguration } },
  } as KubeObject);
  const status = { status: { phase: 'Deployed' } };
  await cluster.client.patch(resources.kubevirts, kubevirt, status, 'merge', { subresource: 'status' });
  await cluster.addNode('node1', { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': 'node1' });
  await cluster.startController();
});
after(() => cluster.stop());

const ask = (status: object) => cluster.client.patch(vms, ref, { status }, 'merge', { subresource: 'status' });
const untilVm = (what: string, holds: (vm: VirtualMachine) => boolean) =>
  cluster.until<VirtualMachine>(vms, ref.name, what, holds);
const volumesOf = ({ spec }: VirtualMachine) => (spec.template.spec.volumes ?? []).map(({ name }) => name);

test('a volume that is asked for comes into the template, goes again, and the request with it', async () => {
  await cluster.client.create(vms, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: ref },
    spec: { runStrategy: 'Halted', template: { spec: { domain: { memory: { guest: '64Mi' } } } } },
  } as never);
  await untilVm('looked at', ({ status }) => status?.printableStatus === 'Stopped');
  const disk = { name: 'data', disk: { bus: 'scsi' } };
  const volumeSource = { persistentVolumeClaim: { claimName: 'data' } };
  await ask({ volumeRequests: [{ addVolumeOptions: { name: 'data', disk, volumeSource } }] });
  const isDone = ({ status }: VirtualMachine) => status?.volumeRequests === undefined;
  const vm = await untilVm('with the volume', (each) => isDone(each) && volumesOf(each).length > 0);
  assert.deepEqual(vm.spec.template.spec.volumes, [
    { name: 'data', persistentVolumeClaim: { claimName: 'data', hotpluggable: true } },
  ]);
  assert.deepEqual(
    vm.spec.template.spec.domain.devices?.disks?.map(({ name }) => name),
    ['data'],
  );
  await ask({ volumeRequests: [{ removeVolumeOptions: { name: 'data' } }] });
  await untilVm('without it', (each) => isDone(each) && volumesOf(each).length === 0);
});

test('a memory dump whose claim has the name of another volume fails in words, with an event; taken back it is forgotten', async () => {
  const disk = { name: 'dump', disk: { bus: 'scsi' } };
  const volumeSource = { persistentVolumeClaim: { claimName: 'other' } };
  await ask({ volumeRequests: [{ addVolumeOptions: { name: 'dump', disk, volumeSource } }] });
  await untilVm('with the volume', (vm) => volumesOf(vm).includes('dump'));
  await ask({ memoryDumpRequest: { claimName: 'dump', phase: 'Associating' } });
  await untilVm('refused', ({ status }) => status?.memoryDumpRequest?.phase === 'Failed');
  await cluster.untilEvent(ref.name, 'MemoryDumpError');
  await ask({ memoryDumpRequest: { claimName: 'dump', phase: 'Failed', remove: true } });
  await ask({ volumeRequests: [{ removeVolumeOptions: { name: 'dump' } }] });
  await untilVm('forgotten', ({ status }) => status?.memoryDumpRequest === undefined);
});

describe('as virtctl asks for it', () => {
  const put = async (action: string, body: object) => {
    const path = `/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/runs/${action}`;
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(`${cluster.server}${path}`, { method: 'PUT', headers, body: JSON.stringify(body) });
    const text = await answer.text();
    return `${answer.status} ${text === '' ? '' : JSON.parse(text).message}`;
  };
  const add = {
    name: 'late',
    disk: { disk: { bus: 'scsi' }, serial: 'late' },
    volumeSource: { dataVolume: { name: 'late' } },
  };
  const plugged = { name: 'late', dataVolume: { name: 'late', hotpluggable: true } };
  const conflict = '409 Operation cannot be fulfilled on virtualmachine.kubevirt.io "runs": ';
  const untilVolumes = (what: string, wanted: VirtualMachineInstance['spec']['volumes']) =>
    cluster.untilVmi('runs', what, ({ spec }) => sameJson(spec.volumes ?? [], wanted));

  before(async () => {
    await cluster.client.create(vms, {
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'runs', namespace: 'default' } },
      spec: { runStrategy: 'Always', template: { spec: { domain: { memory: { guest: '64Mi' } } } } },
    } as never);
    const { metadata } = await cluster.untilVmi('runs', 'there', () => true);
    const pod = await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName === 'node1');
    await cluster.runPod(pod);
    await cluster.untilPhase('runs', 'Scheduled');
    const running = { status: { phase: 'Running' } };
    await cluster.client.patch(resources.virtualMachineInstances, { ...ref, name: 'runs' }, running, 'merge');
  });

  test('a volume comes into the guest that runs and into the template, and goes from both', async () => {
    assert.equal(await put('addvolume', { ...add, dryRun: ['All'] }), '202 ');
    assert.equal(await put('addvolume', add), '202 ');
    await untilVolumes('with the volume', [plugged]);
    const vm = await cluster.until<VirtualMachine>(vms, 'runs', 'done', (each) => !each.status?.volumeRequests);
    assert.deepEqual(vm.spec.template.spec.volumes, [plugged]);
    assert.equal(
      await put('addvolume', add),
      `${conflict}Unable to add volume [late] because volume with that name already exists`,
    );
    assert.equal(await put('removevolume', { name: 'late' }), '202 ');
    await untilVolumes('without it', []);
    const bare = await cluster.until<VirtualMachine>(vms, 'runs', 'gone', (each) => !each.status?.volumeRequests);
    assert.deepEqual(bare.spec.template.spec.volumes ?? [], []);
  });

  test('what no guest takes is refused at once, and holds nothing up', async () => {
    const onSata = { ...add, disk: { disk: { bus: 'sata' }, serial: 'late' } };
    assert.match(await put('addvolume', onSata), /^422 .*requires bus to be 'scsi' or 'virtio'\. \[sata\] is not/);
    assert.match(await put('addvolume', { ...add, volumeSource: {} }), /^422 /);
    assert.equal(await put('addvolume', add), '202 ');
    await untilVolumes('with the volume', [plugged]);
    await cluster.until<VirtualMachine>(vms, 'runs', 'done', (each) => !each.status?.volumeRequests);
    assert.equal(await put('removevolume', { name: 'late' }), '202 ');
    await untilVolumes('without it', []);
    await cluster.until<VirtualMachine>(vms, 'runs', 'gone', (each) => !each.status?.volumeRequests);
  });

  test('what is under way already is refused in words', async () => {
    await cluster.stopController();
    assert.equal(await put('addvolume', add), '202 ');
    assert.equal(await put('addvolume', add), `${conflict}volume [late] is being added already`);
    assert.equal(
      await put('addvolume', { ...add, name: 'other' }),
      `${conflict}Unable to add volume source [late] because it already exists`,
    );
    assert.equal(await put('removevolume', { name: 'late' }), '202 ', 'taken back');
    const { status } = await cluster.client.get<VirtualMachine>(vms, { ...ref, name: 'runs' });
    assert.deepEqual(status?.volumeRequests ?? [], []);
    assert.equal(await put('addvolume', add), '202 ');
    await cluster.startController();
    await untilVolumes('with the volume', [plugged]);
    await cluster.until<VirtualMachine>(vms, 'runs', 'done', (each) => !each.status?.volumeRequests);
    await cluster.stopController();
    assert.equal(await put('removevolume', { name: 'late' }), '202 ');
    assert.match(await put('removevolume', { name: 'late' }), /^409 .*volume \[late\] is being removed/);
    assert.match(await put('addvolume', { ...add, name: 'late' }), /^409 .*already exists$/);
    await cluster.startController();
    await untilVolumes('without it', []);
  });
});
