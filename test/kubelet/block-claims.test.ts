import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { deviceCgroupOf } from '../../src/host/cgroups/index.ts';
import {
  agentKilled,
  askedByPod,
  bindClaim,
  guestKernel,
  launcherPod,
  schedulable,
  startOf,
  timed,
  userData,
} from './guests.ts';
import { InstalledCluster } from './installation.ts';
import { type NodeMachine, nodeName } from './node-machine.ts';

/**
 * Claims that are block devices, on local volumes of the node: a disk from the start, and one that is plugged into the guest that runs.
 * The tests are one story: each begins where the one before it ended.
 */

let cluster: InstalledCluster;
let machine: NodeMachine;

before(async () => {
  cluster = await InstalledCluster.start({
    overlay: 'daemonset/overlays/tight-rights',
    disabledFeatureGates: ['ImageVolume'],
  });
  machine = cluster.machine;
  for (const disk of [own, extra]) makeDisk(disk);
});
after(async () => {
  await cluster?.stop();
  for (const device of loopDevices()) execFileSync('losetup', ['--detach', device]);
});

/** The kubelet makes one of each device that it gives to a pod; they outlive this machine, and those below them. */
function loopDevices(): string[] {
  const listed = execFileSync('losetup', ['--list', '--noheadings', '--output', 'NAME,BACK-FILE'], {
    encoding: 'utf8',
  });
  const loops = listed.split('\n').map((line) => line.trim().split(/\s+/));
  const files = [own, extra].flatMap((disk) => [fileOf(disk), disk.device]);
  const isOurs = (file: string) => files.includes(file) || file.includes('/volumeDevices/');
  const found = loops.filter(([name, file = '']) => name && isOurs(file)).map(([name = '']) => name);
  const isBelow = (name: string) => name === own.device || name === extra.device;
  return [...found.filter((name) => !isBelow(name)), ...found.filter(isBelow)];
}

const diskBytes = 32 << 20;
const own = { name: 'own', bus: 'virtio', device: '' };
const extra = { name: 'extra', bus: 'scsi', device: '' };
const fileOf = ({ name }: { name: string }) => path.join(process.env.KUBELET_MACHINE ?? '', 'tmp', `${name}.img`);

/** A file as a device of the node, and what a claim of its user is bound to. */
function makeDisk(disk: { name: string; device: string }): void {
  const file = fileOf(disk);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, `content of ${disk.name}`);
  truncateSync(file, diskBytes);
  disk.device = execFileSync('losetup', ['--find', '--show', file], { encoding: 'utf8' }).trim();
  const expression = { key: 'kubernetes.io/hostname', operator: 'In', values: [nodeName] };
  const nodeAffinity = { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } };
  bindClaim(machine, disk.name, { local: { path: disk.device }, nodeAffinity }, { volumeMode: 'Block' });
}

/** What each disk begins with; then writes into its second sector. */
const whenAsked = `for disk in /dev/vd[b-z] /dev/sd?; do
  [ -b $disk ] || continue
  echo "disk $(cat /sys/class/block/\${disk#/dev/}/size) $(head -c 16 $disk | tr -d '\\0')"
  echo "written after $QUERY_STRING" | dd of=$disk bs=512 seek=1 conv=fsync,notrunc 2>/dev/null
done
`;
const lineOf = ({ name }: { name: string }) => new RegExp(`^disk ${diskBytes / 512} content of ${name}$`, 'm');
const writtenTo = (disk: { name: string }) => readFileSync(fileOf(disk)).subarray(512, 544).toString();

const seed = {
  disk: { name: 'seed', disk: { bus: 'virtio' } },
  volume: { name: 'seed', cloudInitNoCloud: { userData: userData({ whenAsked }) } },
};
const claimed = ({ name, bus }: typeof own, more: object = {}) => ({
  disk: { name, disk: { bus } },
  volume: { name, persistentVolumeClaim: { claimName: name, ...more } },
});
const fromStart = [seed, claimed(own)];
const withPlugged = [...fromStart, claimed(extra, { hotpluggable: true })];

function giveDisks(all: typeof fromStart): void {
  const [disks, volumes] = [all.map(({ disk }) => disk), all.map(({ volume }) => volume)];
  const patch = JSON.stringify({ spec: { domain: { devices: { disks } }, volumes } });
  machine.api.kubectl('patch', 'vmi', 'vm1', '--type=merge', '-p', patch);
}

let [address, started, podUid] = ['', '', ''];

test('a VM has a claim that is a block device as its disk', async (t) => {
  await schedulable(machine);
  machine.create({
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name: 'vm1' },
    spec: {
      domain: {
        resources: { requests: { memory: '192Mi' } },
        firmware: { kernelBoot: guestKernel },
        devices: {
          interfaces: [{ name: 'default', masquerade: {} }],
          disks: fromStart.map(({ disk }) => disk),
        },
      },
      networks: [{ name: 'default', pod: {} }],
      volumes: fromStart.map(({ volume }) => volume),
      terminationGracePeriodSeconds: 1,
    },
  });
  await timed(t, 'runs', () => {
    const { status } = machine.get('vmi', 'vm1');
    assert.equal(status?.phase, 'Running', JSON.stringify(status));
  });
  const pod = launcherPod(machine, 'vm1');
  [address, podUid] = [pod.status.podIP, pod.metadata.uid];
  const answer = await askedByPod(machine, address, 'start');
  assert.match(answer, lineOf(own));
  started = startOf(answer);
  assert.match(writtenTo(own), /^written after start\n/);
});

/** Whether a process in the cgroup of the launcher's container may open the device: the kernel's own answer. */
function mayOpen({ device }: { device: string }): boolean {
  const [pid = 0] = machine.processesOf((line) => /qemu-system-\w+\0.*guest=/.test(line));
  const { v1 = [], v2 } = deviceCgroupOf(pid, { procDir: '/proc', hostRoot: '/', hostPid: process.pid });
  const joins = [v1, v2].flat().map((directory) => `echo $$ >${directory}/cgroup.procs`);
  const script = [...joins, `exec dd if=${device} of=/dev/null count=1`].join('\n');
  return spawnSync('sh', ['-ec', script], { stdio: 'ignore' }).status === 0;
}

/** Nodes of plugged disks in the launcher. */
function pluggedNodes(): string[] {
  const dir = `/var/lib/kubelet/pods/${podUid}/volumes/kubernetes.io~empty-dir/hotplug-disks`;
  return readdirSync(dir).filter((name) => statSync(path.join(dir, name)).isBlockDevice());
}

const statusOfExtra = () =>
  machine.get('vmi', 'vm1').status.volumeStatus?.find(({ name }: { name: string }) => name === 'extra');

test('another one is plugged into the guest that runs, which reads and writes it', async (t) => {
  assert.deepEqual([mayOpen(own), mayOpen(extra)], [true, false]);
  giveDisks(withPlugged);
  await timed(t, 'ready', () => assert.equal(statusOfExtra()?.phase, 'Ready', JSON.stringify(statusOfExtra())));
  await timed(t, 'read by the guest', async () => {
    const answer = await askedByPod(machine, address, 'plug');
    assert.equal(startOf(answer), started);
    assert.match(answer, lineOf(extra));
  });
  assert.match(writtenTo(extra), /^written after plug\n/);
  assert.equal(mayOpen(extra), true);
  assert.deepEqual(pluggedNodes(), ['extra']);
});

test('an agent that is killed comes back: the guest goes on writing both, and it is the same', async (t) => {
  await timed(t, 'the next runs', () => agentKilled(machine));
  const answer = await askedByPod(machine, address, 'kill');
  assert.equal(startOf(answer), started);
  for (const disk of [own, extra]) assert.match(writtenTo(disk), /^written after kill\n/);
  assert.deepEqual([mayOpen(own), mayOpen(extra)], [true, true]);
});

test('unplugged, its node and its rule are gone, and the guest goes on with its own disk', async (t) => {
  giveDisks(fromStart);
  await timed(t, 'gone', () => {
    assert.equal(statusOfExtra(), undefined);
    assert.deepEqual(machine.get('pods', '-l', 'kubevirt.io=hotplug-disk').items, []);
  });
  assert.deepEqual(pluggedNodes(), []);
  assert.deepEqual([mayOpen(own), mayOpen(extra)], [true, false]);
  const answer = await askedByPod(machine, address, 'unplug');
  assert.equal(startOf(answer), started);
  assert.doesNotMatch(answer, lineOf(extra));
  assert.match(writtenTo(own), /^written after unplug\n/);
  assert.match(writtenTo(extra), /^written after kill\n/);
});

test('plugged as the agent is killed, it is there as soon as the next one runs; the VM is deleted with it', async (t) => {
  giveDisks(withPlugged);
  await timed(t, 'the next runs', () => agentKilled(machine));
  await timed(t, 'ready', () => assert.equal(statusOfExtra()?.phase, 'Ready', JSON.stringify(statusOfExtra())));
  machine.api.kubectl('delete', 'vmi', 'vm1', '--wait=false');
  await timed(t, 'gone', () => {
    assert.deepEqual(machine.get('vmi').items, []);
    assert.deepEqual(machine.get('pods', '-l', 'kubevirt.io in (virt-launcher,hotplug-disk)').items, []);
  });
});
