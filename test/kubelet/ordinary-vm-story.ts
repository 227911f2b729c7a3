import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { askedByPod, schedulable, startOf, timed } from './guests.ts';
import { InstalledCluster } from './installation.ts';
import { isAgent, type NodeMachine, nodeName } from './node-machine.ts';
import { mountsOf, OrdinaryVm, pluggedLine } from './ordinary-vm.ts';

/** Networks and mounts take what the least privilege does not give. */
const overlay = 'daemonset/overlays/tight-rights';

interface Story {
  readonly launcher: 'ours' | 'upstream';
  /** Capabilities that the launcher hands on to what it starts. */
  readonly ambient: bigint;
}

/**
 * What an ordinary VM needs of the agent, with real CNI plugins, images and claims: the network of its pod, a kernel and a disk from an image that is
 * mounted, a claim that is plugged while it runs. The tests are one story: each begins where the one before it ended.
 */
export function ordinaryVmStory({ launcher, ambient }: Story): void {
  let cluster: InstalledCluster;
  let machine: NodeMachine;
  let vm: OrdinaryVm;
  let address = '';
  let uid = '';
  let podUid = '';
  let started = '';
  let file = '';

  before(async () => {
    // What this containerd cannot do: images as volumes.
    cluster = await InstalledCluster.start({ overlay, launcher, disabledFeatureGates: ['ImageVolume'] });
    machine = cluster.machine;
    vm = new OrdinaryVm(machine, 'vm1');
  });
  after(() => cluster?.stop());

  test('a VM with masquerade runs, and its interface has the address of the pod', async (t) => {
    await schedulable(machine);
    vm.create();
    await timed(t, 'runs', () => {
      const { status } = vm.vmi;
      assert.deepEqual([status?.phase, status?.nodeName], ['Running', nodeName], JSON.stringify(status));
    });
    address = vm.pod.status.podIP;
    podUid = vm.pod.metadata.uid;
    assert.match(address, /^10\.85\.0\.\d+$/);
    await timed(t, 'its address is in the status', () => {
      const { status } = vm.vmi;
      assert.equal(status.interfaces?.[0]?.ipAddress, address, JSON.stringify(status.interfaces));
      assert.deepEqual(status.interfaces[0].ipAddresses, [address]);
    });
    uid = vm.vmi.metadata.uid;
    assert.ok(OrdinaryVm.leftOf(uid).some((name) => name.startsWith('network-info-cache/')));
  });

  test('another pod reaches the guest at the address of the pod; the guest has its own by DHCP', async (t) => {
    await timed(t, 'reached', async () => {
      const answer = await askedByPod(machine, address);
      assert.match(answer, /inet 10\.0\.2\.2\/24/);
      assert.match(answer, /default via 10\.0\.2\.1 dev eth0/);
      assert.match(answer, /nameserver 10\.96\.0\.10/);
      assert.match(answer, /^image content of image$/m);
      started = startOf(answer);
    });
    assert.match(started, /^[\da-f-]{36}$/);
  });

  test('the launcher serves DHCP without being root: it may bind low ports, and nothing else', () => {
    const [pid, ...others] = machine.processesOf((line) => line.includes(`${machine.launcher.program}\0`));
    assert.deepEqual(others, []);
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const fieldOf = (key: string) => new RegExp(`^${key}:\\s*(\\S+)`, 'm').exec(status)?.[1];
    const asShown = (capabilities: bigint) => capabilities.toString(16).padStart(16, '0');
    const netBindService = asShown(1n << 10n);
    const fields = ['Uid', 'NoNewPrivs', 'CapEff', 'CapPrm', 'CapBnd', 'CapAmb'].map(fieldOf);
    assert.deepEqual(fields, ['107', '1', netBindService, netBindService, netBindService, asShown(ambient)]);
  });

  test('an agent that is deleted is replaced: the guest is still reached, and it is the same', async (t) => {
    const { metadata } = await machine.agentPod();
    machine.api.kubectl('delete', 'pod', '-n', 'kubevirt', metadata.name);
    assert.equal(startOf(await askedByPod(machine, address)), started);
    await timed(t, 'the next is ready', async () => {
      assert.notEqual((await machine.agentPod()).metadata.uid, metadata.uid);
    });
    assert.equal(startOf(await askedByPod(machine, address)), started);
    const { status } = vm.vmi;
    assert.deepEqual([status.phase, status.interfaces[0].ipAddress], ['Running', address]);
  });

  test('an agent that is killed comes back: the guest is still reached, and it is the same', async (t) => {
    const uidBefore = (await machine.agentPod()).metadata.uid;
    const [pid = 0, ...others] = machine.processesOf(isAgent);
    assert.deepEqual(others, []);
    process.kill(pid, 'SIGKILL');
    assert.equal(startOf(await askedByPod(machine, address)), started);
    await timed(t, 'it runs again', () => {
      const [next, ...more] = machine.processesOf(isAgent);
      assert.ok(next !== undefined && next !== pid && more.length === 0);
    });
    assert.equal((await machine.agentPod()).metadata.uid, uidBefore);
    const { status } = vm.vmi;
    assert.deepEqual([status.phase, status.interfaces[0].ipAddress], ['Running', address]);
  });

  test('a claim is plugged into the guest that runs, which reads it', async (t) => {
    file = vm.makeClaim('extra');
    vm.plug('extra');
    await timed(t, 'ready', () => {
      const status = vm.statusOf('extra');
      assert.equal(status?.phase, 'Ready', JSON.stringify(status));
    });
    await timed(t, 'read by the guest', async () => {
      const answer = await askedByPod(machine, address);
      assert.equal(startOf(answer), started);
      assert.equal(mountsOf('hotplug-disks/extra').length, 1);
      assert.match(answer, new RegExp(`^${pluggedLine}$`, 'm'));
    });
    const [{ reason }] = machine.get('events', '--field-selector=reason=VolumeReady').items;
    assert.equal(reason, 'VolumeReady');
  });

  test('unplugged, it is gone from the guest, which goes on, and from the node', async (t) => {
    vm.plug();
    await timed(t, 'gone', () => {
      assert.equal(vm.statusOf('extra'), undefined);
      assert.deepEqual(machine.get('pods', '-l', 'kubevirt.io=hotplug-disk').items, []);
    });
    const answer = await askedByPod(machine, address);
    assert.equal(startOf(answer), started);
    assert.doesNotMatch(answer, /^plugged/m);
    assert.equal(readFileSync(file).subarray(512, 528).toString(), 'written by guest');
    assert.deepEqual(mountsOf('hotplug-disks/extra'), []);
  });

  test('nothing is left of a VM that is deleted', async (t) => {
    machine.api.kubectl('delete', 'vmi', 'vm1', '--wait=false');
    await timed(t, 'gone', () => {
      assert.deepEqual(machine.get('vmi').items, []);
      assert.deepEqual(machine.get('pods', '-l', 'kubevirt.io=virt-launcher').items, []);
    });
    await timed(t, 'its mounts', () => assert.deepEqual(mountsOf(podUid), []));
    await timed(t, 'its files', () => assert.deepEqual(OrdinaryVm.leftOf(uid), []));
  });
}
