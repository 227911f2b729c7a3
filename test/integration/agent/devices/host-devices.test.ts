import assert from 'node:assert/strict';
import { chmodSync, existsSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type DeviceWorld, worldWithStandIn } from '../../../fixtures/device-world.ts';
import { eventually, stays } from '../../../fixtures/eventually.ts';

let world: DeviceWorld;
beforeEach(() => {
  world = worldWithStandIn();
});
afterEach(() => world.close());

const gpu = 'nvidia.com/gpu';
const permitGpu = { pciHostDevices: [{ pciVendorSelector: '10DE:1EB8', resourceName: gpu }] };
const files = (...names: string[]) =>
  names.map((name) => ({ container_path: `/dev/${name}`, host_path: `/dev/${name}`, permissions: 'mrw' }));

describe('PCI devices', () => {
  it('are offered by IOMMU group when vfio-pci has them, with their NUMA node', async () => {
    world.machine.addPci('0000:3b:00.0', { id: '10DE:1EB8', group: '44', numaNode: 1 });
    world.machine.addPci('0000:3c:00.0', { id: '10DE:1EB8', group: '45', driver: 'nouveau' });
    world.machine.addPci('0000:3d:00.0', { id: '10DE:FFFF', group: '46' });
    world.machine.addPci('0000:3e:00.0', { id: '10DE:1EB8' });
    world.permit(permitGpu);
    await world.start();
    await world.listed(gpu, '44 Healthy');
    assert.deepEqual(world.kubelet.devices(gpu)[0]?.topology, { nodes: [{ ID: 1 }] });
    assert.deepEqual(
      world.kubelet.registrations.find(({ resource_name }) => resource_name === gpu)?.endpoint,
      'kubevirt-nvidia.com-gpu.sock',
    );
    const [given] = await world.kubelet.allocate(gpu, ['44']);
    assert.deepEqual(given?.envs, { PCI_RESOURCE_NVIDIA_COM_GPU: '0000:3b:00.0' });
    assert.deepEqual(given?.devices, files('vfio/vfio', 'vfio/44'));
  });

  it('of one IOMMU group are one device with all addresses; each container gets its own', async () => {
    const function1 = { 'vfio-dev/vfio7/dev': '511:7\n' };
    world.machine.addPci('0000:3b:00.0', { id: '10DE:1EB8', group: '44' });
    world.machine.addPci('0000:3b:00.1', { id: '10DE:1EB8', group: '44', files: function1 });
    world.machine.addPci('0000:5e:00.0', { id: '10DE:1EB8', group: '50' });
    world.permit(permitGpu);
    await world.start();
    await world.listed(gpu, '44 Healthy', '50 Healthy');
    const given = await world.kubelet.allocate(gpu, ['44'], ['50']);
    assert.deepEqual(
      given.map(({ envs }) => envs.PCI_RESOURCE_NVIDIA_COM_GPU),
      ['0000:3b:00.0,0000:3b:00.1', '0000:5e:00.0'],
    );
    assert.deepEqual(given[0]?.devices, files('vfio/vfio', 'vfio/44', 'vfio/devices/vfio7'));
    assert.deepEqual(given[1]?.devices, files('vfio/vfio', 'vfio/50'));
  });

  it("of NVIDIA's own driver are offered when they are virtual functions with a vGPU type", async () => {
    const nvidia = (group: string, more: Record<string, string>) => ({
      id: '10DE:1EB8',
      driver: 'nvidia',
      group,
      files: more,
    });
    world.machine.addPci('0000:01:00.0', nvidia('1', { 'nvidia/current_vgpu_type': '907\n', sriov_totalvfs: '16\n' }));
    world.machine.addPci('0000:01:00.4', nvidia('2', { 'nvidia/current_vgpu_type': '907\n' }));
    world.machine.addPci('0000:01:00.5', nvidia('3', { 'nvidia/current_vgpu_type': '0\n' }));
    world.permit(permitGpu);
    await world.start();
    await world.listed(gpu, '2 Healthy');
  });

  it('are unhealthy while their group has no file, and come back', async () => {
    world.machine.addPci('0000:3b:00.0', { id: '10DE:1EB8', group: '44' });
    world.permit(permitGpu);
    await world.start();
    await world.listed(gpu, '44 Healthy');
    world.machine.removeFile('vfio/44');
    await world.listed(gpu, '44 Unhealthy');
    await assert.rejects(world.kubelet.allocate(gpu, ['44']), { code: 9, details: /\/dev\/vfio\/44 is not there/ });
    world.machine.addFile('vfio/44');
    await world.listed(gpu, '44 Healthy');
    // No VMI needs them to run: the node's health does not hang on them.
    assert.deepEqual(world.devices.problems(), []);
  });

  it('that are bound to vfio-pci later are offered without a restart, even where there was no vfio before', async () => {
    rmSync(path.join(world.machine.devDir, 'vfio'), { recursive: true });
    world.permit(permitGpu);
    await world.start();
    await world.listed(gpu);
    world.machine.addPci('0000:3b:00.0', { id: '10DE:1EB8', group: '44' });
    await world.listed(gpu, '44 Healthy');
    world.machine.removePci('0000:3b:00.0');
    world.machine.removeFile('vfio/44');
    await world.listed(gpu);
    assert.equal(world.kubelet.registrations.filter(({ resource_name }) => resource_name === gpu).length, 1);
  });

  it('follow a change of selectors without a new registration, and go with the resource', async () => {
    world.machine.addPci('0000:3b:00.0', { id: '10DE:1EB8', group: '44' });
    world.machine.addPci('0000:5e:00.0', { id: '8086:6F54', group: '50' });
    world.permit(permitGpu);
    await world.start();
    await world.listed(gpu, '44 Healthy');
    world.permit({ pciHostDevices: [{ pciVendorSelector: '8086:6f54', resourceName: gpu }] });
    await world.listed(gpu, '50 Healthy');
    await assert.rejects(world.kubelet.allocate(gpu, ['44']), { code: 3 });
    assert.equal(world.kubelet.registrations.filter(({ resource_name }) => resource_name === gpu).length, 1);
    world.permit({});
    await eventually(() => assert.equal(world.kubelet.isConnected(gpu), false));
    assert.deepEqual(world.kubelet.lists(gpu).at(-1), []);
    world.permit(permitGpu);
    await world.listed(gpu, '44 Healthy');
  });

  it('with selectors that make no sense keep nothing else back', async () => {
    world.machine.addPci('0000:3b:00.0', { id: '10DE:1EB8', group: '44' });
    const nonsense = [null, 7, { resourceName: 'x/y', pciVendorSelector: '10de' }, { pciVendorSelector: '10DE:1EB8' }];
    world.permit({ pciHostDevices: [...nonsense, ...permitGpu.pciHostDevices], mediatedDevices: 'all', usb: {} });
    await world.start();
    await world.listed(gpu, '44 Healthy');
    assert.equal(world.devices.refusals.length, 6);
  });
});

describe('mediated devices', () => {
  const resource = 'nvidia.com/GRID_T4-1Q';
  const permit = { mediatedDevices: [{ mdevNameSelector: 'GRID T4-1Q', resourceName: resource }] };
  const [first, second] = ['53764d0e-85a0-42b4-af5c-2046b460b1dc', '9f2c3b6a-0000-4e54-9d7b-0f6f7a5f9c11'];

  it('are offered by type name, and by the id of a type without one; NUMA is their card’s', async () => {
    world.machine.addPci('0000:3b:00.0', { id: '10DE:1EB8', driver: 'nvidia', numaNode: 0 });
    world.machine.addMediated(first, '0000:3b:00.0', { id: 'nvidia-222', typeName: 'GRID T4-1Q', group: '90' });
    world.machine.addMediated(second, '0000:3b:00.0', { id: 'i915-GVTg_V5_4', group: '91' });
    const other = { mdevNameSelector: 'i915-GVTg_V5_4', resourceName: 'intel.com/gvt' };
    world.permit({ mediatedDevices: [...permit.mediatedDevices, other] });
    await world.start();
    await world.listed(resource, '90 Healthy');
    await world.listed('intel.com/gvt', '91 Healthy');
    assert.deepEqual(world.kubelet.devices(resource)[0]?.topology, { nodes: [{ ID: 0 }] });
    const [given] = await world.kubelet.allocate(resource, ['90']);
    assert.deepEqual(given?.envs, { 'MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-1Q': first });
    assert.deepEqual(given?.devices, files('vfio/vfio', 'vfio/90'));
  });

  it('that are created later are offered', async () => {
    world.machine.addPci('0000:3b:00.0', { id: '10DE:1EB8', driver: 'nvidia' });
    world.permit(permit);
    await world.start();
    await world.listed(resource);
    world.machine.addMediated(first, '0000:3b:00.0', { id: 'nvidia-222', typeName: 'GRID T4-1Q', group: '90' });
    await world.listed(resource, '90 Healthy');
  });

  it('whose type the kernel shows only after their file are offered', async () => {
    const card = '0000:3b:00.0';
    world.machine.addPci(card, { id: '10DE:1EB8', driver: 'nvidia' });
    world.machine.addMediated(first, card, { id: 'nvidia-222', typeName: 'GRID T4-1Q', group: '90' });
    world.machine.removeFile('vfio/90');
    const type = path.join(world.machine.sysDir, 'devices/pci0000:00', card, first, 'mdev_type');
    renameSync(type, `${type}-later`);
    world.permit(permit);
    await world.start();
    await world.listed(resource);
    world.machine.addFile('vfio/90');
    await stays(() => world.listed(resource), 100);
    renameSync(`${type}-later`, type);
    await world.listed(resource, '90 Healthy');
  });
});

describe('USB devices', () => {
  const resource = 'kubevirt.io/storage';
  const stick = { vendor: '46f4', product: '1' };
  const permit = { usb: [{ resourceName: resource, selectors: [{ vendor: '46F4', product: '0001' }] }] };

  it('are given by bus and device number, and to the launcher’s user', async () => {
    world.machine.plugUsb('1-1.2', { ...stick, bus: 1, device: 9 });
    world.machine.plugUsb('2-1', { vendor: '46d', product: 'c52b', bus: 2, device: 3 });
    world.permit(permit);
    await world.start();
    await world.listed(resource, '1-1.2 Healthy');
    const node = path.join(world.machine.devDir, 'bus/usb/001/009');
    chmodSync(node, 0o600);
    const [given] = await world.kubelet.allocate(resource, ['1-1.2']);
    assert.deepEqual(given?.envs, { USB_RESOURCE_KUBEVIRT_IO_STORAGE: '1:9' });
    assert.deepEqual(given?.devices, files('bus/usb/001/009'));
    assert.equal(statSync(node).uid, process.getuid?.());
    assert.equal(existsSync(path.join(world.machine.pluginsDir, 'kubevirt-usb-kubevirt.io-storage.sock')), true);
  });

  it('have the same id after a restart of the agent', async () => {
    for (const device of [5, 6]) world.machine.plugUsb(`1-${device}`, { ...stick, bus: 1, device });
    world.permit(permit);
    await world.start();
    await world.listed(resource, '1-5 Healthy', '1-6 Healthy');
    await world.restartAgent();
    await world.listed(resource, '1-5 Healthy', '1-6 Healthy');
  });

  it('are unhealthy while they are pulled out, and the same when put back, under another number', async () => {
    world.machine.plugUsb('1-5', { ...stick, bus: 1, device: 5 });
    world.permit(permit);
    await world.start();
    await world.listed(resource, '1-5 Healthy');
    world.machine.pullUsb('1-5', { bus: 1, device: 5 });
    await world.listed(resource, '1-5 Unhealthy');
    await assert.rejects(world.kubelet.allocate(resource, ['1-5']), { code: 9, details: /not plugged in/ });
    world.machine.plugUsb('1-5', { ...stick, bus: 1, device: 12 });
    await world.listed(resource, '1-5 Healthy');
    const [given] = await world.kubelet.allocate(resource, ['1-5']);
    assert.deepEqual(given?.envs, { USB_RESOURCE_KUBEVIRT_IO_STORAGE: '1:12' });
  });

  it('that are plugged in later are offered', async () => {
    world.permit(permit);
    await world.start();
    await world.listed(resource);
    world.machine.plugUsb('3-1', { ...stick, bus: 3, device: 2 });
    await world.listed(resource, '3-1 Healthy');
    world.machine.plugUsb('3-2', { ...stick, bus: 3, device: 3 });
    await world.listed(resource, '3-1 Healthy', '3-2 Healthy');
  });
});
