import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { resources, type VirtualMachine } from '../../../src/api/index.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';

/** What virt-api writes into the status of a VM in a cluster where volumes are not plugged by templates. */

let cluster: Cluster;
const vms = resources.virtualMachines;
const ref = { name: 'asks', namespace: 'default' };

before(async () => {
  cluster = new Cluster(await embeddedApi());
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
