import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, renameSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { eventually } from '../fixtures/eventually.ts';
import { timed } from './guests.ts';
import { InstalledCluster } from './installation.ts';
import { isAgent, type NodeMachine, nodeName } from './node-machine.ts';

/**
 * Our DaemonSet in a real cluster of one node: its image, probes, volumes, token and device plugins under a real kubelet. The
 * tests are one story: each begins where the one before it ended.
 */

/** The one with the fewest rights: what passes with it passes with the others, which add to it. */
const overlay = process.env.AGENT_OVERLAY ?? 'daemonset/overlays/least-privilege';
const devices = {
  'devices.kubevirt.io/kvm': 1000,
  'devices.kubevirt.io/tun': 1000,
  'devices.kubevirt.io/vhost-net': 1000,
};
const oneOfEach = Object.fromEntries(Object.keys(devices).map((name) => [name, 1]));
let cluster: InstalledCluster;
let machine: NodeMachine;
/** Process id of the VM that is there from beginning to end. */
let guest: number[] = [];

const mounts = () => execFileSync('findmnt', ['-rno', 'TARGET'], { encoding: 'utf8' }).split('\n');
/** What other programs of this machine had mounted is seen here, too. */
const mountsBefore = mounts();

before(async () => {
  cluster = await InstalledCluster.start({ overlay, featureGates: ['CPUManager'] });
  machine = cluster.machine;
});
after(() => cluster?.stop());

function hasDevices(): void {
  const offered = machine.allocatable();
  assert.deepEqual(Object.fromEntries(Object.keys(devices).map((name) => [name, offered[name]])), devices);
}

const isGuest = (line: string) => /qemu-system-\w+\0.*guest=/.test(line);

test('the agent runs from its image, its probes pass, and its node is labelled, schedulable and has devices', async () => {
  const pod = await machine.agentPod();
  assert.deepEqual(
    pod.status.containerStatuses.map(({ restartCount }: { restartCount: number }) => restartCount),
    [0],
  );
  await eventually(() => {
    const { labels, annotations } = machine.get('node', nodeName).metadata;
    assert.equal(labels['kubevirt.io/schedulable'], 'true', JSON.stringify(labels));
    assert.equal(labels.cpumanager, 'true');
    assert.ok(annotations['kubevirt.io/heartbeat']);
    const wanted = readFileSync('test/unit/agent/node/labels/hosts/real-nested-kvm/labels.txt', 'utf8').split('\n');
    const missing = wanted.filter(
      (line) => line !== '' && `${line.split('=')[0]}=${labels[line.split('=')[0] ?? '']}` !== line,
    );
    assert.deepEqual(missing, []);
    hasDevices();
  }, 60_000);
});

const isBound = overlay.endsWith('least-privilege');

test('the agent has four capabilities, its own seccomp profile, and no way to more', { skip: !isBound }, () => {
  const [pid, ...others] = machine.processesOf(isAgent);
  assert.deepEqual(others, []);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const fieldOf = (key: string) => new RegExp(`^${key}:\\s*(\\S+)$`, 'm').exec(status)?.[1];
  const chownDacOverrideFownerPtrace = (1n << 0n) | (1n << 1n) | (1n << 3n) | (1n << 19n);
  for (const key of ['CapEff', 'CapPrm', 'CapBnd'])
    assert.equal(BigInt(`0x${fieldOf(key)}`), chownDacOverrideFownerPtrace, `${key}: ${fieldOf(key)}`);
  assert.deepEqual([fieldOf('NoNewPrivs'), fieldOf('Seccomp')], ['1', '2']);
});

/** Of what an agent that was taken over would begin with: name → number on x86_64. Processes are tried by spawning one. */
const refusedCalls = {
  ...{ ptrace: 101, mount: 165, umount2: 166, setns: 308, unshare: 272, chroot: 161, pivot_root: 155, bpf: 321 },
  ...{ init_module: 175, finit_module: 313, kexec_load: 246, kexec_file_load: 320, reboot: 169, swapon: 167 },
  ...{
    perf_event_open: 298,
    process_vm_readv: 310,
    process_vm_writev: 311,
    open_by_handle_at: 304,
    io_uring_setup: 425,
  },
  ...{
    keyctl: 250,
    add_key: 248,
    userfaultfd: 323,
    mknod: 133,
    mknodat: 259,
    pidfd_getfd: 438,
    syslog: 103,
    iopl: 172,
  },
  ...{ capset: 126, setuid: 105, setgid: 106, settimeofday: 164, memfd_create: 319, fsopen: 430 },
};

test('calls outside of its profile are refused: tracing, mounting, modules, programs', { skip: !isBound }, async () => {
  const script = `
    const koffi = require('/usr/lib/virt-handler/node_modules/koffi');
    const call = koffi.load(null).func('long syscall(long a, long b, long c, long d, long e, long f, long g)');
    const answers = {};
    for (const [name, number] of Object.entries(${JSON.stringify(refusedCalls)})) {
      koffi.errno(0);
      answers[name] = call(number, 0, 0, 0, 0, 0, 0) === -1 ? koffi.errno() : 'done';
    }
    for (const [name, family] of [['packet', 17], ['vsock', 40], ['alg', 38]]) {
      koffi.errno(0);
      answers[name] = call(41, family, 1, 0, 0, 0, 0) === -1 ? koffi.errno() : 'done';
    }
    answers.spawn = require('child_process').spawnSync('/usr/bin/node', ['--version']).error?.code;
    console.log(JSON.stringify(answers));`;
  const { metadata } = await machine.agentPod();
  const said = machine.api.kubectl(
    'exec',
    '-n',
    'kubevirt',
    metadata.name,
    '-c',
    'virt-handler',
    '--',
    'node',
    '-e',
    script,
  );
  const { spawn, ...answers } = JSON.parse(said);
  const eperm = 1;
  const names = [...Object.keys(refusedCalls), 'packet', 'vsock', 'alg'];
  assert.deepEqual(answers, Object.fromEntries(names.map((name) => [name, eperm])));
  assert.equal(spawn, 'EPERM');
});

test('a pod without rights that asks for devices can open them, and one that does not has none', async () => {
  const open =
    'for d in /dev/kvm /dev/net/tun; do : <>$d && echo $d opened; done; test -c /dev/vhost-net && echo vhost-net';
  const asked = await machine.runPod('asks', open, oneOfEach);
  assert.equal(asked, '/dev/kvm opened\n/dev/net/tun opened\nvhost-net\n');
  const others = await machine.runPod(
    'asks-not',
    'ls /dev/kvm /dev/net/tun /dev/vhost-net 2>/dev/null; echo nothing',
    {},
  );
  assert.equal(others, 'nothing\n');
  machine.startPod('keeper', 'sleep 100000', oneOfEach);
  await eventually(() => assert.equal(machine.get('pod', 'keeper').status.phase, 'Running'), 60_000);
});

test('VMs run in their launcher pods, with libvirt and QEMU of their own; one that is deleted ends, and its pod', async (t) => {
  for (const name of ['vm1', 'vm2']) startVmi(name);
  for (const name of ['vm1', 'vm2']) {
    await timed(t, `${name} runs`, () => {
      const { status } = machine.get('vmi', name);
      assert.deepEqual([status?.phase, status?.nodeName], ['Running', nodeName], JSON.stringify(status));
    });
  }
  assert.equal(machine.processesOf(isGuest).length, 2);
  await timed(t, 'vm2 is gone', () => {
    machine.api.kubectl('delete', 'vmi', 'vm2', '--ignore-not-found');
    assert.deepEqual(machine.get('pods', '-l', 'vm.kubevirt.io/name=vm2').items, []);
  });
  guest = machine.processesOf(isGuest);
  assert.equal(guest.length, 1);
});

/** No disk, no network: its firmware looks for something to boot from. */
function startVmi(name: string): void {
  const domain = { resources: { requests: { memory: '64Mi' } }, devices: { autoattachPodInterface: false } };
  const vmi = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name } };
  const spec = { domain, terminationGracePeriodSeconds: 1 };
  machine.api.kubectlStdin(JSON.stringify({ ...vmi, spec }), 'create', '-f', '-');
}

/** The pod with devices and the VM: still there, and the same. */
function guestsGoOn(): void {
  machine.untouched('keeper');
  assert.equal(machine.get('vmi', 'vm1').status.phase, 'Running');
  assert.deepEqual(machine.processesOf(isGuest), guest);
}

test('a kubelet that crashes and comes back has the devices again, and pods that have some go on', async (t) => {
  const restarts = (await machine.agentPod()).status.containerStatuses[0].restartCount;
  await machine.kubelet.kill();
  const startMs = performance.now();
  await machine.startKubelet();
  t.diagnostic(`the kubelet listens for plugins: ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
  await timed(t, 'a new pod has got devices', async () => {
    assert.equal(await machine.runPod('after-restart', 'test -c /dev/kvm && echo kvm', oneOfEach), 'kvm\n');
  });
  await eventually(hasDevices, 60_000);
  guestsGoOn();
  assert.equal((await machine.agentPod()).status.containerStatuses[0].restartCount, restarts);
});

test('an agent that is deleted leaves in seconds, its successor offers the devices again, and pods that have some go on', async (t) => {
  const { metadata } = await machine.agentPod();
  await timed(t, 'gone', () => {
    machine.api.kubectl('delete', 'pod', '-n', 'kubevirt', metadata.name);
  });
  await timed(t, 'the next is ready', async () => {
    assert.notEqual((await machine.agentPod()).metadata.uid, metadata.uid);
  });
  await timed(t, 'devices', hasDevices);
  guestsGoOn();
});

test('a kubelet that starts while the agent is dead starts it, and has the devices again', async (t) => {
  const { metadata } = await machine.agentPod();
  await machine.kubelet.kill();
  const agents = machine.processesOf(isAgent);
  assert.equal(agents.length, 1);
  for (const pid of agents) process.kill(pid, 'SIGKILL');
  await machine.startKubelet();
  await timed(t, 'the agent runs again', () => assert.equal(machine.processesOf(isAgent).length, 1));
  await timed(t, 'a new pod has got devices', async () => {
    assert.equal(await machine.runPod('after-both', 'test -c /dev/kvm && echo kvm', oneOfEach), 'kvm\n');
  });
  await eventually(hasDevices, 60_000);
  assert.equal((await machine.agentPod()).metadata.uid, metadata.uid);
  guestsGoOn();
});

test('a device that vanishes from the node is not offered, the node takes no VMs, and both come back with it', async (t) => {
  renameSync('/dev/net/tun', '/dev/net/away');
  await timed(t, 'not offered', () => assert.equal(machine.allocatable()['devices.kubevirt.io/tun'], 0));
  const schedulable = () => machine.get('node', nodeName).metadata.labels['kubevirt.io/schedulable'];
  await timed(t, 'not schedulable', () => assert.equal(schedulable(), 'false'));
  renameSync('/dev/net/away', '/dev/net/tun');
  await timed(t, 'offered and schedulable', () => {
    hasDevices();
    assert.equal(schedulable(), 'true');
  });
});

test('removing it as the guide says leaves a node without agent, mounts, plugins and labels, which takes no VMs; those there run on', async (t) => {
  const { kubectl } = machine.api;
  guestsGoOn();
  // Foreground: the rights go when the agents are gone, for their last act is to mark their nodes.
  await timed(t, 'no pod', () => {
    kubectl('-n', 'kubevirt', 'delete', 'daemonset', 'virt-handler', '--cascade=foreground');
    assert.deepEqual(machine.get('pods', '-n', 'kubevirt').items, []);
  });
  assert.deepEqual(machine.processesOf(isAgent), []);
  assert.deepEqual(machine.processesOf(isGuest), guest);
  assert.equal(machine.get('node', nodeName).metadata.labels['kubevirt.io/schedulable'], 'false');
  kubectl('delete', '-k', overlay, '--ignore-not-found');
  await eventually(
    () =>
      assert.deepEqual(
        mounts().filter((target) => target.includes('kubevirt') && !mountsBefore.includes(target)),
        [],
      ),
    60_000,
  );
  assert.deepEqual(
    readdirSync('/var/lib/kubelet/device-plugins').filter((name) => name.startsWith('kubevirt')),
    [],
  );
  const marks = Object.keys(machine.get('node', nodeName).metadata.labels).filter(isMark);
  assert.ok(marks.length > 100);
  kubectl('label', 'node', nodeName, ...marks.map((name) => `${name}-`));
  assert.deepEqual(Object.keys(machine.get('node', nodeName).metadata.labels).filter(isMark), []);
});

const isMark = (label: string) => /(^|\.)kubevirt\.io\//.test(label) || label === 'cpumanager';
