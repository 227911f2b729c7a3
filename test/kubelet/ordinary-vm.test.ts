import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { askedByPod, bindClaim, guestKernel, launcherPod, schedulable, startOf, timed, userData } from './guests.ts';
import { InstalledCluster } from './installation.ts';
import { isAgent, type NodeMachine, nodeName } from './node-machine.ts';

/**
 * What an ordinary VM needs of the agent, with real CNI plugins, images and claims: the network of its pod, a kernel and a disk from an image that is
 * mounted, a claim that is plugged while it runs. The tests are one story: each begins where the one before it ended.
 */

/** Networks and mounts take what the least privilege does not give. */
const overlay = 'daemonset/overlays/tight-rights';
const privateDir = '/var/run/kubevirt-private';
let cluster: InstalledCluster;
let machine: NodeMachine;

before(async () => {
  // What this containerd cannot do: images as volumes.
  cluster = await InstalledCluster.start({ overlay, disabledFeatureGates: ['ImageVolume'] });
  machine = cluster.machine;
});
after(() => cluster?.stop());

/** Where the guest is in the network, and what its disks begin with. */
const whenAsked = `ip -4 address show dev eth0
ip route
cat /etc/resolv.conf
echo "image $(head -c 16 /dev/vdb)"
for disk in /dev/sd?; do
  [ -b $disk ] || continue
  echo "plugged $(cat /sys/class/block/\${disk#/dev/}/size) $(head -c 16 $disk)"
  printf 'written by guest' | dd of=$disk bs=512 seek=1 conv=fsync,notrunc 2>/dev/null
done
`;

function guestWithNetwork(name: string): object {
  const devices = {
    interfaces: [{ name: 'default', masquerade: {} }],
    disks: [seed.disk, image.disk],
  };
  const domain = {
    resources: { requests: { memory: '192Mi' } },
    firmware: { kernelBoot: guestKernel },
    devices,
  };
  const spec = {
    domain,
    networks: [{ name: 'default', pod: {} }],
    volumes: [seed.volume, image.volume],
    terminationGracePeriodSeconds: 1,
  };
  return { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name }, spec };
}

const mounts = () => execFileSync('findmnt', ['-rno', 'TARGET'], { encoding: 'utf8' }).split('\n');
const asked = () => askedByPod(machine, address);

/** Of this VM, in the folders of the agent. */
function leftOf(uid: string): string[] {
  const entries = readdirSync(privateDir, { recursive: true, encoding: 'utf8' });
  return entries.filter((name) => name.includes(uid));
}

let address = '';
let uid = '';
let podUid = '';
let started = '';

test('a VM with masquerade runs, and its interface has the address of the pod', async (t) => {
  await schedulable(machine);
  machine.create(guestWithNetwork('vm1'));
  await timed(t, 'runs', () => {
    const { status } = machine.get('vmi', 'vm1');
    assert.deepEqual([status?.phase, status?.nodeName], ['Running', nodeName], JSON.stringify(status));
  });
  address = launcherPod(machine, 'vm1').status.podIP;
  podUid = launcherPod(machine, 'vm1').metadata.uid;
  assert.match(address, /^10\.85\.0\.\d+$/);
  await timed(t, 'its address is in the status', () => {
    const { status } = machine.get('vmi', 'vm1');
    assert.equal(status.interfaces?.[0]?.ipAddress, address, JSON.stringify(status.interfaces));
    assert.deepEqual(status.interfaces[0].ipAddresses, [address]);
  });
  uid = machine.get('vmi', 'vm1').metadata.uid;
  assert.ok(leftOf(uid).some((name) => name.startsWith('network-info-cache/')));
});

test('another pod reaches the guest at the address of the pod; the guest has its own by DHCP', async (t) => {
  await timed(t, 'reached', async () => {
    const answer = await asked();
    assert.match(answer, /inet 10\.0\.2\.2\/24/);
    assert.match(answer, /default via 10\.0\.2\.1 dev eth0/);
    assert.match(answer, /nameserver 10\.96\.0\.10/);
    assert.match(answer, /^image content of image$/m);
    started = startOf(answer);
  });
  assert.match(started, /^[\da-f-]{36}$/);
});

test('the launcher serves DHCP without being root: it may bind low ports, and nothing else', () => {
  const [pid, ...others] = machine.processesOf((line) => line.includes('/usr/lib/virt-launcher.mjs\0'));
  assert.deepEqual(others, []);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const fieldOf = (key: string) => new RegExp(`^${key}:\\s*(\\S+)`, 'm').exec(status)?.[1];
  const netBindService = (1n << 10n).toString(16).padStart(16, '0');
  const fields = ['Uid', 'NoNewPrivs', 'CapEff', 'CapPrm', 'CapBnd', 'CapAmb'].map(fieldOf);
  assert.deepEqual(fields, ['107', '1', netBindService, netBindService, netBindService, '0'.repeat(16)]);
});

test('an agent that is deleted is replaced: the guest is still reached, and it is the same', async (t) => {
  const { metadata } = await machine.agentPod();
  machine.api.kubectl('delete', 'pod', '-n', 'kubevirt', metadata.name);
  assert.equal(startOf(await asked()), started);
  await timed(t, 'the next is ready', async () => {
    assert.notEqual((await machine.agentPod()).metadata.uid, metadata.uid);
  });
  assert.equal(startOf(await asked()), started);
  const { status } = machine.get('vmi', 'vm1');
  assert.deepEqual([status.phase, status.interfaces[0].ipAddress], ['Running', address]);
});

test('an agent that is killed comes back: the guest is still reached, and it is the same', async (t) => {
  const uidBefore = (await machine.agentPod()).metadata.uid;
  const [pid = 0, ...others] = machine.processesOf(isAgent);
  assert.deepEqual(others, []);
  process.kill(pid, 'SIGKILL');
  assert.equal(startOf(await asked()), started);
  await timed(t, 'it runs again', () => {
    const [next, ...more] = machine.processesOf(isAgent);
    assert.ok(next !== undefined && next !== pid && more.length === 0);
  });
  assert.equal((await machine.agentPod()).metadata.uid, uidBefore);
  const { status } = machine.get('vmi', 'vm1');
  assert.deepEqual([status.phase, status.interfaces[0].ipAddress], ['Running', address]);
});

/** On a folder of the node; what a claim of its user is bound to. */
function makeClaim(name: string): void {
  const folder = `/var/claims/${name}`;
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/disk.img`, 'content of claim');
  truncateSync(`${folder}/disk.img`, diskBytes);
  for (const file of [folder, `${folder}/disk.img`]) chownSync(file, 107, 107);
  bindClaim(machine, name, { hostPath: { path: folder } });
}

const diskBytes = 32 << 20;
const pluggedLine = `plugged ${diskBytes / 512} content of claim`;
const seed = {
  disk: { name: 'seed', disk: { bus: 'virtio' } },
  volume: { name: 'seed', cloudInitNoCloud: { userData: userData({ whenAsked }) } },
};
const image = {
  disk: { name: 'image', disk: { bus: 'virtio' } },
  volume: { name: 'image', containerDisk: { image: 'localhost/guest:1' } },
};
const plugged = {
  disk: { name: 'extra', disk: { bus: 'scsi' } },
  volume: { name: 'extra', persistentVolumeClaim: { claimName: 'extra', hotpluggable: true } },
};

function giveDisks(...all: readonly { readonly disk: object; readonly volume: object }[]): void {
  const [disks, volumes] = [all.map(({ disk }) => disk), all.map(({ volume }) => volume)];
  const patch = JSON.stringify({ spec: { domain: { devices: { disks } }, volumes } });
  machine.api.kubectl('patch', 'vmi', 'vm1', '--type=merge', '-p', patch);
}

const statusOfExtra = () =>
  machine.get('vmi', 'vm1').status.volumeStatus?.find(({ name }: { name: string }) => name === 'extra');

test('a claim is plugged into the guest that runs, which reads it', async (t) => {
  makeClaim('extra');
  giveDisks(seed, image, plugged);
  await timed(t, 'ready', () => assert.equal(statusOfExtra()?.phase, 'Ready', JSON.stringify(statusOfExtra())));
  await timed(t, 'read by the guest', async () => {
    const answer = await asked();
    assert.equal(startOf(answer), started);
    assert.equal(mounts().filter((target) => target.includes('hotplug-disks/extra')).length, 1);
    assert.match(answer, new RegExp(`^${pluggedLine}$`, 'm'));
  });
  const [{ reason }] = machine.get('events', '--field-selector=reason=VolumeReady').items;
  assert.equal(reason, 'VolumeReady');
});

test('unplugged, it is gone from the guest, which goes on, and from the node', async (t) => {
  giveDisks(seed, image);
  await timed(t, 'gone', () => {
    assert.equal(statusOfExtra(), undefined);
    assert.deepEqual(machine.get('pods', '-l', 'kubevirt.io=hotplug-disk').items, []);
  });
  const answer = await asked();
  assert.equal(startOf(answer), started);
  assert.doesNotMatch(answer, /^plugged/m);
  assert.equal(readFileSync('/var/claims/extra/disk.img').subarray(512, 528).toString(), 'written by guest');
  assert.deepEqual(
    mounts().filter((target) => target.includes('hotplug-disks/extra')),
    [],
  );
});

test('nothing is left of a VM that is deleted', async (t) => {
  machine.api.kubectl('delete', 'vmi', 'vm1', '--wait=false');
  await timed(t, 'gone', () => {
    assert.deepEqual(machine.get('vmi').items, []);
    assert.deepEqual(machine.get('pods', '-l', 'kubevirt.io=virt-launcher').items, []);
  });
  await timed(t, 'its mounts', () =>
    assert.deepEqual(
      mounts().filter((target) => target.includes(podUid)),
      [],
    ),
  );
  await timed(t, 'its files', () => assert.deepEqual(leftOf(uid), []));
});
