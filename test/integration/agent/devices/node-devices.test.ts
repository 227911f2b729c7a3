import assert from 'node:assert/strict';
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { openTrusted, type SafePath, xattrReader, xattrWriter } from '../../../../src/host/index.ts';
import { type DeviceWorld, worldWithStandIn } from '../../../fixtures/device-world.ts';
import { eventually } from '../../../fixtures/eventually.ts';

let world: DeviceWorld;
beforeEach(() => {
  world = worldWithStandIn();
});
afterEach(() => world.close());

const kvm = 'devices.kubevirt.io/kvm';
const tun = 'devices.kubevirt.io/tun';
const vhostNet = 'devices.kubevirt.io/vhost-net';

const reasons = () => world.devices.problems().map(({ reason }) => reason);
const becomes = (...wanted: string[]) => eventually(() => assert.deepEqual(reasons(), wanted));
const resources = () =>
  world.devices
    .reports()
    .map(({ resourceName }) => resourceName)
    .sort();

describe('kvm, tun and vhost-net', () => {
  it('are registered as upstream names them, with ids up to --max-devices', async () => {
    await world.start();
    await world.listed(kvm, 'kvm0 Healthy', 'kvm1 Healthy');
    await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
    await world.listed(vhostNet, 'vhost-net0 Healthy', 'vhost-net1 Healthy');
    const sockets = world.kubelet.registrations.map(({ endpoint }) => endpoint).sort();
    const wanted = ['kubevirt-kvm.sock', 'kubevirt-sev.sock', 'kubevirt-tun.sock', 'kubevirt-vhost-net.sock'];
    assert.deepEqual(sockets, wanted);
    await becomes();
  });

  it('are given to each container as the device, with `m` where access(2) needs it', async () => {
    await world.start();
    await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
    const device = (permissions: string) => [
      { container_path: '/dev/net/tun', host_path: '/dev/net/tun', permissions },
    ];
    const given = await world.kubelet.allocate(tun, ['tun0'], ['tun1']);
    assert.deepEqual(
      given.map(({ devices }) => devices),
      [device('rwm'), device('rwm')],
    );
    rmSync(path.join(world.machine.sysDir, 'fs/cgroup/cgroup.controllers'));
    const [older] = await world.kubelet.allocate(tun, ['tun0']);
    assert.deepEqual(older?.devices, device('rw'));
    await assert.rejects(world.kubelet.allocate(tun, ['tun2']), { code: 3 });
  });

  it('are problems of the node until the kubelet knows them', async () => {
    assert.deepEqual(reasons(), []);
    rmSync(world.machine.pluginsDir, { recursive: true });
    mkdirSync(world.machine.pluginsDir);
    await world.devices.start();
    assert.deepEqual(reasons(), ['KvmPluginNotRegistered', 'TunPluginNotRegistered', 'VhostNetPluginNotRegistered']);
    await eventually(() => assert.match(world.devices.problems()[0]?.message ?? '', /kubelet\.sock is not there/));
    await world.kubelet.start();
    await becomes();
  });

  it('are unhealthy while the device node is gone, which is a problem of the node, and come back', async () => {
    await world.start();
    await world.listed(kvm, 'kvm0 Healthy', 'kvm1 Healthy');
    let changes = 0;
    world.devices.onChange(() => changes++);
    world.machine.removeFile('kvm');
    await world.listed(kvm, 'kvm0 Unhealthy', 'kvm1 Unhealthy');
    await becomes('KvmDeviceMissing');
    await assert.rejects(world.kubelet.allocate(kvm, ['kvm0']), { code: 9, details: '/dev/kvm is not there' });
    const [problem] = world.devices.problems();
    assert.match(problem?.message ?? '', /load its kernel module/);
    assert.ok(problem && problem.sinceMs <= performance.now());
    world.machine.addFile('kvm');
    await world.listed(kvm, 'kvm0 Healthy', 'kvm1 Healthy');
    await becomes();
    assert.ok(changes >= 2);
  });

  it('to which a kubelet does not listen are problems of the node after 15 s, until it does', async () => {
    world.kubelet.options.isDeaf = true;
    await world.start();
    const deaf = ['KvmPluginNotListened', 'TunPluginNotListened', 'VhostNetPluginNotListened'];
    await eventually(() => assert.deepEqual(reasons(), deaf), 40_000);
    assert.match(world.devices.problems()[0]?.message ?? '', /does not ask for its devices; restart the kubelet/);
    world.kubelet.options.isDeaf = false;
    world.kubelet.kill();
    await world.kubelet.start();
    await becomes();
  });

  it('stay healthy and come back at once when the kubelet restarts', async () => {
    await world.start();
    await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
    world.kubelet.kill();
    await world.kubelet.start();
    for (const name of ['kvm', 'tun', 'vhost-net']) {
      await world.listed(`devices.kubevirt.io/${name}`, `${name}0 Healthy`, `${name}1 Healthy`);
    }
    await becomes();
  });

  it('of which nothing can be known are a problem, and no list goes out that says there are none', async () => {
    // A link to itself: what is behind it cannot be read, which is not the same as nothing.
    const file = path.join(world.machine.devDir, 'net');
    renameSync(file, `${file}-away`);
    symlinkSync(file, file);
    await world.start();
    await world.listed(kvm, 'kvm0 Healthy', 'kvm1 Healthy');
    await becomes('TunDeviceUnknown');
    await eventually(() => assert.match(world.devices.problems()[0]?.message ?? '', /ELOOP/));
    assert.deepEqual(world.kubelet.lists(tun), []);
    rmSync(file);
    renameSync(`${file}-away`, file);
    await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
    await becomes();
  });

  it('are one shared device directory, which may go as a whole', async () => {
    await world.start();
    await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
    const net = path.join(world.machine.devDir, 'net');
    renameSync(net, `${net}-away`);
    await world.listed(tun, 'tun0 Unhealthy', 'tun1 Unhealthy');
    renameSync(`${net}-away`, net);
    await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
  });

  it('without kvm and vhost-net are enough for a node that emulates', async () => {
    world.machine.removeFile('kvm');
    world.machine.removeFile('vhost-net');
    world.configure({ developerConfiguration: { useEmulation: true } });
    await world.start();
    await world.listed(kvm, 'kvm0 Unhealthy', 'kvm1 Unhealthy');
    await world.listed(vhostNet, 'vhost-net0 Unhealthy', 'vhost-net1 Unhealthy');
    await becomes();
    world.configure({});
    await becomes('KvmDeviceMissing', 'VhostNetDeviceMissing');
  });
});

describe('what the configuration switches', () => {
  it('sev is there until its gate is disabled, vhost-vsock with its gate', async () => {
    await world.start();
    await world.listed('devices.kubevirt.io/sev', 'sev0 Unhealthy', 'sev1 Unhealthy');
    world.machine.addFile('vhost-vsock');
    world.configure({
      developerConfiguration: { featureGates: ['VSOCK'], disabledFeatureGates: ['WorkloadEncryptionSEV'] },
    });
    await world.listed('devices.kubevirt.io/vhost-vsock', 'vhost-vsock0 Healthy', 'vhost-vsock1 Healthy');
    await eventually(() => assert.equal(world.kubelet.isConnected('devices.kubevirt.io/sev'), false));
    assert.deepEqual(world.kubelet.lists('devices.kubevirt.io/sev').at(-1), []);
    await eventually(() => assert.equal(existsSync(path.join(world.machine.pluginsDir, 'kubevirt-sev.sock')), false));
  });

  it('mshv takes the place of kvm on a Hyper-V host', async () => {
    world.configure({
      developerConfiguration: { featureGates: ['ConfigurableHypervisor'] },
      hypervisors: [{ name: 'hyperv-direct' }],
    });
    await world.start();
    await world.listed('devices.kubevirt.io/mshv', 'mshv0 Unhealthy', 'mshv1 Unhealthy');
    assert.equal(resources().includes(kvm), false);
    await becomes('MshvDeviceMissing');
  });

  it('what this agent does not do is said in words', async () => {
    world.configure({
      developerConfiguration: { featureGates: ['IOMMUFD'] },
      permittedHostDevices: { pciHostDevices: [{ resourceName: 'nonsense' }] },
    });
    await world.start();
    const words = world.devices.refusals.map((each) => each.split(':')[0]);
    assert.deepEqual(words, ['permittedHostDevices.pciHostDevices[0]', 'gate IOMMUFD']);
  });
});

describe('sockets of daemons', () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  function serve(directory: string, name: string): Promise<void> {
    mkdirSync(directory, { recursive: true });
    const server = createServer();
    servers.push(server);
    return new Promise((resolve) => server.listen(path.join(directory, name), resolve));
  }

  it('pr-helper is unhealthy until its socket is there; a container gets its directory', async () => {
    world.configure({ persistentReservationConfiguration: { enabled: true } });
    await world.start();
    const resource = 'devices.kubevirt.io/pr-helper';
    await world.listed(resource, 'pr-helper0 Unhealthy', 'pr-helper1 Unhealthy');
    const directory = path.join(world.machine.shareDir, 'daemons/pr');
    await serve(directory, 'pr-helper.sock');
    await world.listed(resource, 'pr-helper0 Healthy', 'pr-helper1 Healthy');
    const [given] = await world.kubelet.allocate(resource, ['pr-helper0']);
    assert.deepEqual(given?.mounts, [{ container_path: directory, host_path: directory, read_only: false }]);
    assert.deepEqual(given?.devices, []);
    rmSync(path.join(directory, 'pr-helper.sock'));
    writeFileSync(path.join(directory, 'pr-helper.sock'), 'no socket');
    await world.listed(resource, 'pr-helper0 Unhealthy', 'pr-helper1 Unhealthy');
    await assert.rejects(world.kubelet.allocate(resource, ['pr-helper0']), { code: 9, details: /is not a socket/ });
  });

  it('pr-helper on a host with SELinux gets the label of containers, its directory as well', async (t) => {
    const directory = path.join(world.machine.shareDir, 'daemons/pr');
    const selinux = path.join(world.machine.sysDir, 'fs/selinux');
    mkdirSync(selinux, { recursive: true });
    writeFileSync(path.join(selinux, 'enforce'), '1');
    await serve(directory, 'pr-helper.sock');
    const [read, write] = [await xattrReader(), await xattrWriter()];
    try {
      using(directory, (place) => write(place, 'security.selinux', 'system_u:object_r:var_run_t:s0'));
    } catch {
      return t.skip('this user or this file system has no such labels');
    }
    world.configure({ persistentReservationConfiguration: { enabled: true } });
    await world.start();
    await world.listed('devices.kubevirt.io/pr-helper', 'pr-helper0 Healthy', 'pr-helper1 Healthy');
    for (const place of [directory, path.join(directory, 'pr-helper.sock')]) {
      const label = using(place, (opened) => read(opened, 'security.selinux'));
      assert.equal(label, 'system_u:object_r:container_file_t:s0');
    }
  });

  it('tdx has as many devices as the machine has keys, and is not offered where it has none', async () => {
    const gates = { developerConfiguration: { featureGates: ['WorkloadEncryptionTDX'] } };
    world.configure(gates);
    await world.start();
    await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
    assert.equal(resources().includes('devices.kubevirt.io/tdx'), false);
    writeFileSync(path.join(world.machine.sysDir, 'fs/cgroup/misc.capacity'), 'sev 10\ntdx 3\n');
    const tdx = (enforced: boolean) => ({ attestation: { enforced, qgsSocketPath: '/run/quotes/qgs.socket' } });
    world.configure({ ...gates, confidentialCompute: { tdx: tdx(false) } });
    await world.listed('devices.kubevirt.io/tdx', 'tdx0 Healthy', 'tdx1 Healthy', 'tdx2 Healthy');
    world.configure({ ...gates, confidentialCompute: { tdx: tdx(true) } });
    await world.listed('devices.kubevirt.io/tdx', 'tdx0 Unhealthy', 'tdx1 Unhealthy', 'tdx2 Unhealthy');
  });
});

describe('a machine without kubelet', () => {
  it('has no device plugins and no problem, until there is one', async () => {
    const { pluginsDir } = world.machine;
    rmSync(path.dirname(pluginsDir), { recursive: true });
    await world.devices.start();
    assert.deepEqual([world.devices.problems(), world.devices.reports()], [[], []]);
    assert.equal(existsSync(pluginsDir), false);
    mkdirSync(pluginsDir, { recursive: true });
    await world.kubelet.start();
    await world.listed(tun, 'tun0 Healthy', 'tun1 Healthy');
  });
});

function using<T>(file: string, use: (place: SafePath) => T): T {
  const place = openTrusted(file);
  try {
    return use(place);
  } finally {
    place.close();
  }
}
