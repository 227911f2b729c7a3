import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type KubeObject, resources } from '../../../../src/api/index.ts';
import { KubeClient, loadKubeAccess } from '../../../../src/kube/index.ts';
import { refuseUsed, usersOfObjects } from '../../../../src/standalone/cli/image-users.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../../fixtures/embedded-api.ts';

let api: EmbeddedApi;
let client: KubeClient;
before(async () => {
  api = await startEmbeddedApi();
  client = new KubeClient({ userAgent: 'test' }, { access: await loadKubeAccess({ kubeconfig: api.kubeconfig }) });
  const metadata = { name: 'kubevirt', namespace: 'kubevirt' };
  const kubevirt = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata, spec: {} };
  await client.create(resources.kubevirts, kubevirt as KubeObject);
  const deployed = { status: { phase: 'Deployed' } };
  await client.patch(resources.kubevirts, metadata, deployed, 'merge', { subresource: 'status' });
});
after(async () => {
  client?.close();
  await api?.stop();
});

const disk = (image: string) => ({ name: 'root', containerDisk: { image } });
const domain = { memory: { guest: '64Mi' }, devices: { disks: [{ name: 'root', disk: { bus: 'virtio' } }] } };

test('VMs and VMIs that name an image keep it from being replaced, each said once', async () => {
  const kernelBoot = { container: { image: 'kernels:1', kernelPath: '/vmlinuz' } };
  const spec = { domain: { ...domain, firmware: { kernelBoot } }, volumes: [disk('a:1')] };
  await client.create(resources.virtualMachines, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'vm', namespace: 'default' } },
    spec: { runStrategy: 'Halted', template: { spec } },
  } as KubeObject);
  for (const [name, image] of [
    ['vm', 'a:1'],
    ['free', 'a:1'],
  ] as const) {
    await client.create(resources.virtualMachineInstances, {
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name, namespace: 'default' } },
      spec: { domain, volumes: [disk(image)] },
    } as KubeObject);
  }
  const users = await usersOfObjects(client);
  assert.deepEqual([...users].sort(), [
    ['a:1', ['VM default/vm', 'VMI default/free']],
    ['kernels:1', ['VM default/vm']],
  ]);
  assert.throws(() => refuseUsed(users, 'a:1', 'replaced'), {
    code: 'IMAGE_IN_USE',
    message: /^a:1 is used by VM default\/vm, VMI default\/free: it is not replaced\. Use another name, or --force/,
  });
  refuseUsed(users, 'a:2', 'replaced');
});
