import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { kubeletPluginsProgram } from '../../scripts/kube-apiserver.mjs';
import { DeviceWorld } from '../fixtures/device-world.ts';
import { eventually } from '../fixtures/eventually.ts';
import { RealKubelet } from '../fixtures/real-kubelet.ts';

const program = kubeletPluginsProgram();
const kvm = 'devices.kubevirt.io/kvm';
const tun = 'devices.kubevirt.io/tun';
const gpu = 'nvidia.com/gpu';

describe("device plugins and the kubelet's own code", { skip: !program && 'no go on PATH to build it with' }, () => {
  let world: DeviceWorld<RealKubelet>;
  beforeEach(async () => {
    world = new DeviceWorld((directory) => new RealKubelet(program ?? '', directory));
    world.machine.addPci('0000:3b:00.0', { id: '10DE:1EB8', group: '44', numaNode: 1 });
    world.permit({ pciHostDevices: [{ pciVendorSelector: '10DE:1EB8', resourceName: gpu }] });
    await world.start();
    await world.listed(kvm, 'kvm0 Healthy', 'kvm1 Healthy');
    await world.listed(gpu, '44 Healthy');
  });
  afterEach(() => world.close());

  it('agree on devices, topology and health', async () => {
    assert.deepEqual(world.kubelet.topology(gpu), [{ nodes: [{ ID: 1 }] }]);
    assert.deepEqual(world.kubelet.topology(kvm), [undefined, undefined]);
    world.machine.removeFile('kvm');
    await world.listed(kvm, 'kvm0 Unhealthy', 'kvm1 Unhealthy');
    world.machine.addFile('kvm');
    await world.listed(kvm, 'kvm0 Healthy', 'kvm1 Healthy');
  });

  it('agree on what a container gets, and on refusals', async () => {
    const given = await world.kubelet.allocate(gpu, ['44'], ['44']);
    assert.deepEqual(
      given.map(({ envs }) => envs),
      [{ PCI_RESOURCE_NVIDIA_COM_GPU: '0000:3b:00.0' }, { PCI_RESOURCE_NVIDIA_COM_GPU: '0000:3b:00.0' }],
    );
    assert.deepEqual(given[0]?.devices[1], {
      container_path: '/dev/vfio/44',
      host_path: '/dev/vfio/44',
      permissions: 'mrw',
    });
    await assert.rejects(world.kubelet.allocate(kvm, ['kvm7']), /InvalidArgument.*"kvm7"/);
  });

  it('find each other again after restarts of the kubelet and of the agent', async () => {
    for (let turn = 0; turn < 3; turn++) {
      await world.kubelet.kill();
      await world.kubelet.start();
      await world.listed(gpu, '44 Healthy');
      await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
      await world.restartAgent();
      await world.listed(gpu, '44 Healthy');
      await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
    }
    assert.deepEqual(world.devices.problems(), []);
  });

  it('find each other again when somebody took a socket away: the kubelet mistakes the old stream for the new plugin', async () => {
    for (let turn = 0; turn < 5; turn++) {
      // It is taken away as soon as it is there again.
      await eventually(() => rmSync(path.join(world.machine.pluginsDir, 'kubevirt-tun.sock')));
      // Until the kubelet has noticed, it has the list and a connection that is no more.
      await eventually(async () => assert.equal((await world.kubelet.allocate(tun, ['tun1'])).length, 1));
      await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
    }
  });
});
