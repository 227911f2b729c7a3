import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, type TestContext, test } from 'node:test';
import { askedByPod, schedulable, startOf, timed } from '../kubelet/guests.ts';
import { InstalledCluster } from '../kubelet/installation.ts';
import type { NodeMachine } from '../kubelet/node-machine.ts';
import { mountsOf, OrdinaryVm, pluggedLine } from '../kubelet/ordinary-vm.ts';
import { installOurs, installUpstream, prepareForUpstream, replaceByOurs, restoreUpstream } from './upstream-agent.ts';

/** With upstream's rights. */
const overlay = 'daemonset/base';
const recordsOfOurs = 'host-work/';
const asPlugged = new RegExp(`^${pluggedLine}$`, 'm');

/** Of a condition. */
const statusOf = (status: { conditions?: readonly { type: string; status: string }[] } | undefined, type: string) =>
  status?.conditions?.find((condition) => condition.type === type)?.status;

/** A VM, and what of it no change of the agent may change. */
interface Guest {
  readonly vm: OrdinaryVm;
  readonly uid: string;
  readonly podUid: string;
  readonly address: string;
  readonly booted: string;
  readonly qemu: readonly number[];
  readonly interfaces: readonly object[];
}

/**
 * VMs under upstream's agent, then ours, then upstream's again, as an installation that is replaced and rolled back: the guests stay the same, what one
 * agent plugged the other takes out, and what one agent started the other cleans up. The tests are one story: each begins where the one before it ended.
 */
export function agentsStory(launcher: 'ours' | 'upstream'): void {
  let cluster: InstalledCluster;
  let machine: NodeMachine;
  let [first, second]: Guest[] = [];
  const ended: string[] = [];
  const files = new Map<string, string>();

  before(async () => {
    cluster = await InstalledCluster.start({ overlay, launcher, disabledFeatureGates: ['ImageVolume'] });
    machine = cluster.machine;
    await machine.agentPod();
    prepareForUpstream(machine);
  });
  after(() => cluster?.stop());

  const qemuOf = ({ name }: OrdinaryVm) => machine.processesOf((line) => line.includes(`\0guest=default_${name},`));

  async function started(t: TestContext, name: string): Promise<Guest> {
    await schedulable(machine);
    const vm = new OrdinaryVm(machine, name, { hasAgent: true });
    vm.create();
    await timed(t, 'runs', () => {
      const { status } = vm.vmi;
      assert.equal(status?.phase, 'Running', JSON.stringify(status));
      assert.equal(status.interfaces?.[0]?.ipAddress, vm.pod.status.podIP, JSON.stringify(status.interfaces));
    });
    const { metadata, status } = vm.pod;
    let booted = '';
    await timed(t, 'reached', async () => {
      const answer = await askedByPod(machine, status.podIP);
      assert.match(answer, /inet 10\.0\.2\.2\/24/);
      assert.match(answer, /^image content of image$/m);
      booted = startOf(answer);
    });
    assert.match(booted, /^[\da-f-]{36}$/);
    const qemu = qemuOf(vm);
    assert.equal(qemu.length, 1);
    const { uid } = vm.vmi.metadata;
    // The guest agent tells of them anew, for a moment without their addresses.
    // biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every shape
    let interfaces: any[] = [];
    await timed(t, 'its agent tells of its network', () => {
      ({ interfaces } = vm.vmi.status);
      assert.match(interfaces[0]?.infoSource, /guest-agent/);
      assert.equal(interfaces[0].ipAddress, status.podIP);
    });
    return { vm, uid, podUid: metadata.uid, address: status.podIP, booted, qemu, interfaces };
  }

  /** What it answers. */
  async function isTheSame(guest: Guest | undefined): Promise<string> {
    assert.ok(guest);
    const answer = await askedByPod(machine, guest.address);
    assert.equal(startOf(answer), guest.booted);
    assert.deepEqual(qemuOf(guest.vm), guest.qemu);
    const { phase, interfaces } = guest.vm.vmi.status;
    assert.deepEqual({ phase, interfaces }, { phase: 'Running', interfaces: guest.interfaces });
    return answer;
  }

  async function isPlugged(t: TestContext, guest: Guest | undefined, name: string): Promise<void> {
    assert.ok(guest);
    files.set(name, guest.vm.makeClaim(name));
    guest.vm.plug(name);
    await timed(t, 'ready', () => {
      const status = guest.vm.statusOf(name);
      assert.equal(status?.phase, 'Ready', JSON.stringify(status));
    });
    await timed(t, 'read by the guest', async () => assert.match(await isTheSame(guest), asPlugged));
    assert.equal(mountsOf(`hotplug-disks/${name}`).length, 1);
  }

  async function isUnplugged(t: TestContext, guest: Guest | undefined, name: string): Promise<void> {
    assert.ok(guest);
    guest.vm.plug();
    await timed(t, 'gone', () => {
      assert.equal(guest.vm.statusOf(name), undefined);
      assert.deepEqual(machine.get('pods', '-l', 'kubevirt.io=hotplug-disk').items, []);
    });
    assert.doesNotMatch(await isTheSame(guest), /^plugged/m);
    const written = readFileSync(files.get(name) ?? '').subarray(512, 528);
    assert.equal(written.toString(), 'written by guest');
    assert.deepEqual(mountsOf(`hotplug-disks/${name}`), []);
  }

  /** As virt-api asks the agent of the node. */
  async function ask(guest: Guest | undefined, method: 'GET' | 'PUT', route: string, body?: object): Promise<string> {
    assert.ok(guest);
    const text = body && JSON.stringify(body);
    const answer = await cluster.consoles().call(method, guest.vm.name, route, text);
    const expected = method === 'GET' ? 200 : 202;
    assert.equal(answer.status, expected, `${route}: ${answer.status} ${answer.body}`);
    return answer.body.toString();
  }

  async function logsIn(guest: Guest | undefined): Promise<void> {
    assert.ok(guest);
    const stream = await cluster.consoles().stream(guest.vm.name, 'console');
    stream.type('\r');
    await stream.until(/login:/);
    stream.type('root\r');
    await stream.until(/# /);
    await stream.close();
  }

  /** By its guest agent. */
  async function tellsOfItself(t: TestContext, guest: Guest | undefined): Promise<void> {
    assert.ok(guest);
    await timed(t, 'agent connected', () => {
      const { status } = guest.vm.vmi;
      assert.equal(statusOf(status, 'AgentConnected'), 'True', JSON.stringify(status));
      assert.equal(status.guestOSInfo?.id, 'demo', JSON.stringify(status));
    });
    await timed(t, 'answers', async () => {
      const info = JSON.parse(await ask(guest, 'GET', 'guestosinfo'));
      assert.deepEqual([info.hostname, info.os?.id, info.os?.versionId], [guest.vm.name, 'demo', '1']);
      assert.match(info.guestAgentVersion, /^\d+\.\d+/);
      const { items: users } = JSON.parse(await ask(guest, 'GET', 'userlist'));
      assert.deepEqual(
        users?.map(({ userName }: { userName: string }) => userName),
        ['root'],
        JSON.stringify(users),
      );
      const { items: disks } = JSON.parse(await ask(guest, 'GET', 'filesystemlist'));
      const data = disks?.find(({ mountPoint }: { mountPoint: string }) => mountPoint === '/data');
      assert.ok(data?.totalBytes > 2 ** 24 && data.usedBytes > 0, JSON.stringify(disks));
    });
  }

  async function isPausedAndUnpaused(t: TestContext, guest: Guest | undefined): Promise<void> {
    assert.ok(guest);
    await ask(guest, 'PUT', 'pause');
    await timed(t, 'paused', () => {
      assert.equal(statusOf(guest.vm.vmi.status, 'Paused'), 'True', JSON.stringify(guest.vm.vmi.status));
    });
    await assert.rejects(askedByPod(machine, guest.address), 'a guest that is paused has answered');
    await ask(guest, 'PUT', 'unpause');
    await timed(t, 'unpaused', () => assert.equal(statusOf(guest.vm.vmi.status, 'Paused'), undefined));
    await isTheSame(guest);
  }

  async function isFrozenAndThawed(t: TestContext, guest: Guest | undefined): Promise<void> {
    assert.ok(guest);
    const isState = (what: string, state: string | undefined) =>
      timed(t, what, () => assert.equal(guest.vm.vmi.status.fsFreezeStatus, state));
    assert.match(await isTheSame(guest), /^data is written$/m);
    await ask(guest, 'PUT', 'freeze', { unfreezeTimeout: '5m0s' });
    await isState('frozen', 'frozen');
    assert.match(await isTheSame(guest), /^data is frozen$/m);
    await ask(guest, 'PUT', 'unfreeze');
    await isState('thawed', undefined);
    assert.match(await isTheSame(guest), /^data is written$/m);
  }

  async function answersOnConsole(guest: Guest | undefined): Promise<void> {
    assert.ok(guest);
    const stream = await cluster.consoles().stream(guest.vm.name, 'console');
    stream.type('\r');
    await stream.until(/login:|# /);
    await stream.close();
  }

  /** `isForeign`: of the other agent's files, which the one that runs does not know. */
  async function leavesNothing(
    t: TestContext,
    guests: readonly (Guest | undefined)[],
    isForeign = (_file: string) => false,
  ): Promise<void> {
    machine.api.kubectl('delete', 'vmi', '--all', '--wait=false');
    await timed(t, 'gone', () => {
      assert.deepEqual(machine.get('vmi').items, []);
      assert.deepEqual(machine.get('pods', '-l', 'kubevirt.io=virt-launcher').items, []);
    });
    for (const guest of guests) {
      assert.ok(guest);
      assert.deepEqual(qemuOf(guest.vm), []);
      await timed(t, 'its mounts', () => assert.deepEqual(mountsOf(guest.podUid), []));
      ended.push(guest.uid);
    }
    const left = () => ended.flatMap(OrdinaryVm.leftOf).filter((file) => !isForeign(file));
    await timed(t, 'files', () => assert.deepEqual(left(), []));
  }

  test('under upstream’s agent the VM runs, has its network and its image, and a console', async (t) => {
    await installUpstream(machine);
    first = await started(t, 'vm1');
    await answersOnConsole(first);
  });

  test('upstream’s agent tells of the guest: system, users, file systems', async (t) => {
    await logsIn(first);
    await tellsOfItself(t, first);
  });

  test('upstream’s agent freezes file systems of the guest, and thaws them', (t) => isFrozenAndThawed(t, first));

  test('upstream’s agent pauses the VM, and lets it go on', (t) => isPausedAndUnpaused(t, first));

  test('upstream’s agent plugs a claim', (t) => isPlugged(t, first, 'first'));

  test('our agent takes the VM over in the place that upstream’s has: it is the same, is reached, and has a console', async () => {
    await replaceByOurs(machine);
    assert.match(await isTheSame(first), asPlugged);
    await answersOnConsole(first);
  });

  test('our agent tells of the guest, freezes and thaws it, pauses it and lets it go on', async (t) => {
    await tellsOfItself(t, first);
    await isFrozenAndThawed(t, first);
    await isPausedAndUnpaused(t, first);
  });

  test('our agent unplugs what upstream’s plugged', (t) => isUnplugged(t, first, 'first'));

  test('our agent plugs a claim, and starts another VM', async (t) => {
    await isPlugged(t, first, 'second');
    second = await started(t, 'vm2');
  });

  test('upstream’s agent takes both VMs over: they are the same, are reached, and have consoles', async () => {
    await restoreUpstream(machine);
    assert.match(await isTheSame(first), asPlugged);
    await isTheSame(second);
    await answersOnConsole(first);
    await answersOnConsole(second);
  });

  test('upstream’s agent unplugs what ours plugged', (t) => isUnplugged(t, first, 'second'));

  test('upstream’s agent leaves nothing of either VM but the records that ours keeps for itself', (t) =>
    leavesNothing(t, [first, second], (file) => file.startsWith(recordsOfOurs)));

  test('our agent leaves nothing of a VM that upstream’s started, nor of those before', async (t) => {
    const third = await started(t, 'vm3');
    await installOurs(machine, overlay);
    await isTheSame(third);
    await leavesNothing(t, [third]);
  });
}
