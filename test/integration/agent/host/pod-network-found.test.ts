import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { podNetwork } from '../../../../src/agent/vmi/host/index.ts';
import { uid } from '../../../fixtures/agent/builders.ts';
import { hookContext } from '../../../fixtures/agent/host-hooks.ts';
import { fakePod, withoutPods } from '../../../fixtures/pod-namespace.ts';
import {
  cachesOf,
  type Disk,
  disk,
  dummyKind,
  linksOf,
  masqueraded,
  podNet,
  rulesetOf,
  Steps,
  setUpBy,
  vmiWith,
  withoutDummy,
} from '../../../fixtures/pod-network.ts';

/** What the pod network meets: what another agent left, and what nobody should have put there. */

const vmi = vmiWith([masqueraded], [podNet]);
const bridged = vmiWith([{ name: 'default', bridge: {} }], [podNet]);

const directoryOf = ({ privateDir }: Disk) => path.join(privateDir, 'network-info-cache', uid);

function leave(own: Disk, state: number, more: object = {}): void {
  mkdirSync(directoryOf(own), { recursive: true });
  const record = { iface: masqueraded, podIP: '10.244.7.5', podIPs: ['10.244.7.5'], networkState: state, ...more };
  writeFileSync(path.join(directoryOf(own), 'default'), JSON.stringify(record, null, 2));
}

const codeOf = (code: string, words: RegExp) => (error: Error & { code?: string }) => {
  assert.match(error.message, words);
  return error.code === code;
};

suite('what upstream’s agent left', { skip: withoutPods }, () => {
  test('a network that it finished is taken over: nothing is done again', async (t) => {
    const [pod, own] = [await fakePod(t), disk(t)];
    await setUpBy(own, pod, vmi);
    rmSync(own.privateDir, { recursive: true });
    leave(own, 2);
    const { steps, result } = await setUpBy(own, pod, vmi);
    assert.deepEqual(steps.taken, []);
    assert.deepEqual(result, { kind: 'done', facts: { taps: ['default'] } });
  });

  test('a start that it did not finish is done again, and no rule is there twice', async (t) => {
    const [pod, own, fresh] = [await fakePod(t), disk(t), await fakePod(t)];
    await setUpBy(disk(t), fresh, vmi);
    await setUpBy(disk(t), pod, vmi);
    leave(own, 1);
    const { result } = await setUpBy(own, pod, vmi);
    assert.equal(result?.kind, 'done');
    assert.deepEqual(rulesetOf(pod), rulesetOf(fresh));
    assert.equal((cachesOf(own, uid).default as { networkState: number }).networkState, 2);
  });

  test('a bridge that it left half done: the address comes from what it told the launcher', {
    skip: withoutDummy,
  }, async (t) => {
    const [pod, own] = [await fakePod(t), disk(t)];
    const [before] = JSON.parse(pod.ip('-j', 'link', 'show', 'eth0'));
    const mac = Buffer.from(before.address.replaceAll(':', ''), 'hex').toString('base64');
    const told = { IP: { IP: '10.244.7.5', Mask: '////AA==' }, MAC: mac, Gateway: '10.244.7.1' };
    const file = `/proc/${pod.pid}/root/run/kubevirt-private/vif-cache-eth0.json`;
    writeFileSync(file, JSON.stringify(told));
    leave(own, 1);
    pod.ip('link', 'add', 'k6t-eth0', 'type', 'bridge');
    pod.ip('link', 'set', 'eth0', 'down');
    pod.ip('link', 'set', 'eth0', 'name', 'eth0-nic');
    pod.ip('address', 'flush', 'dev', 'eth0-nic');
    await setUpBy(own, pod, bridged);
    const { eth0, tap0, 'eth0-nic': nic } = linksOf(pod) as Record<string, Record<string, unknown>>;
    assert.deepEqual([eth0?.addresses, eth0?.address, eth0?.kind], [['10.244.7.5/24'], before.address, 'dummy']);
    assert.deepEqual([tap0?.master, nic?.master], ['k6t-eth0', 'k6t-eth0']);
    assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), told);
  });

  test('what it keeps of a VMI is removed whole, also for one that it started', async (t) => {
    const own = disk(t);
    leave(own, 2);
    writeFileSync(path.join(directoryOf(own), 'blue'), '{}');
    const { hook } = await setUpBy(own, { pid: process.pid }, vmiWith([], []));
    for (const time of ['first', 'second']) {
      await hook.release?.({ uid, stage: undefined, state: undefined, signal: new AbortController().signal });
      assert.equal(existsSync(directoryOf(own)), false, time);
    }
  });

  test('its addresses are in the status of a VM that it started, also when its file comes late', async (t) => {
    const own = disk(t);
    const { hook } = await setUpBy(own, { pid: process.pid }, vmiWith([], []));
    const view = { uid, vmi, launcherPid: process.pid, facts: undefined, signal: new AbortController().signal };
    assert.deepEqual(await hook.observe?.(view), {});
    leave(own, 2, { podIPs: ['10.244.7.5', 'fd00::5'] });
    assert.deepEqual(await hook.observe?.(view), { podIps: { default: ['10.244.7.5', 'fd00::5'] } });
    rmSync(own.privateDir, { recursive: true });
    assert.deepEqual(await hook.observe?.(view), { podIps: { default: ['10.244.7.5', 'fd00::5'] } });
  });
});

suite('pods and launchers that are not as usual', { skip: withoutPods }, () => {
  test('a second pod of the same VMI is set up, too', async (t) => {
    const [first, second, own] = [await fakePod(t), await fakePod(t), disk(t)];
    await setUpBy(own, first, vmi);
    await setUpBy(own, second, vmi);
    assert.deepEqual(rulesetOf(second), rulesetOf(first));
    assert.deepEqual(Object.keys(linksOf(second)).sort(), ['eth0', 'k6t-eth0', 'lo', 'tap0']);
    assert.deepEqual((await setUpBy(own, second, vmi)).steps.taken, []);
  });

  test('the machine’s own network is never touched', async (t) => {
    const own = disk(t);
    const steps = new Steps();
    const refused = codeOf('CRITICAL_NETWORK', /machine's own network namespace.*VIRT_LAUNCHER_NETWORK=user/);
    await assert.rejects(setUpBy(own, { pid: process.pid }, vmi, { steps }), refused);
    const child = spawn('sleep', ['60'], { env: { VIRT_LAUNCHER_NETWORK: 'user' } });
    t.after(() => child.kill('SIGKILL'));
    await once(child, 'spawn');
    const { result } = await setUpBy(own, { pid: Number(child.pid) }, vmi, { steps });
    const summary = 'nothing: the guest has user networking';
    assert.deepEqual(result, { kind: 'done', facts: { taps: [] }, summary });
    assert.deepEqual([steps.taken, existsSync(directoryOf(own))], [[], false]);
  });

  test('a VMI without a network needs no look at its pod', async (t) => {
    const { result } = await setUpBy(disk(t), { pid: 2 ** 22 + 1 }, vmiWith([], []));
    assert.deepEqual(result, { kind: 'done', facts: { taps: [] } });
  });

  test('a launcher that has ended is an error that is tried again', async (t) => {
    const refused = codeOf('POD_NETWORK', /cannot be reached/);
    await assert.rejects(setUpBy(disk(t), { pid: 2 ** 22 + 1 }, vmi), refused);
  });

  test('a pod that ends meanwhile does no harm', async (t) => {
    const [pod, own] = [await fakePod(t), disk(t)];
    const steps = new Steps();
    Object.assign(steps, { open: wrapped(steps.open, () => process.kill(pod.pid, 'SIGKILL')) });
    const end = await setUpBy(own, pod, vmi, { steps }).then(
      () => 'done',
      (error: Error & { code?: string }) => error.code,
    );
    assert.ok(end === 'done' || end === 'POD_NETWORK', end);
    assert.equal(existsSync(`/sys/class/net/k6t-eth0`), false);
  });

  test('a pod without its link is an error that is tried again; with it all goes well', async (t) => {
    const [pod, own] = [await fakePod(t, { withoutLink: true }), disk(t)];
    await assert.rejects(setUpBy(own, pod, vmi), codeOf('POD_NETWORK', /pod link \(eth0\) is missing/));
    assert.deepEqual(Object.keys(linksOf(pod)), ['lo']);
    pod.ip('link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other');
    pod.ip('address', 'add', '10.244.7.5/24', 'dev', 'eth0');
    assert.equal((await setUpBy(own, pod, vmi)).result?.kind, 'done');
  });

  test('a link of another kind in the place of ours ends the VMI in words', async (t) => {
    const pod = await fakePod(t);
    pod.ip('link', 'add', 'tap0', 'type', 'veth', 'peer', 'name', 'x');
    const refused = codeOf('CRITICAL_NETWORK', /type collision on link tap0: actual veth, requested tap/);
    await assert.rejects(setUpBy(disk(t), pod, vmi), refused);
  });

  const lacksDummy = withoutPods || (dummyKind === 'dummy' ? 'this kernel has dummy links' : false);
  test('a kernel without dummy links ends the start of a VMI with a bridge, and says what it lacks', {
    skip: lacksDummy,
  }, async (t) => {
    const [pod, own] = [await fakePod(t), disk(t)];
    const hook = podNetwork({ privateDir: own.privateDir, podIp: '10.0.0.1' });
    const words = /Unknown device type.*\(ip link add name eth0 .* type dummy\); this node may lack it: modprobe dummy/;
    await assert.rejects(hook.prepare(hookContext(bridged, pod.pid)), codeOf('CRITICAL_NETWORK', words));
  });

  test('a failed plug into a running guest is an event, and no failure', async (t) => {
    const [pod, own] = [await fakePod(t), disk(t)];
    const interfaces = [{ name: 'blue', infoSource: 'multus-status' }];
    const blue = { name: 'blue', multus: { networkName: 'blue' } };
    const plugged = vmiWith([{ name: 'blue', bridge: {} }], [blue], { status: { interfaces } });
    const { result } = await setUpBy(own, pod, plugged, { purpose: 'running' });
    const message = 'pod link (pod16477688c0e) is missing: the CNI plug-in has not made it in this pod';
    const events = [{ type: 'Warning', reason: 'NicHotplug', message }];
    assert.deepEqual(result, { kind: 'done', facts: { taps: ['blue'] }, events });
  });
});

function wrapped(open: Steps['open'], before: () => void): Steps['open'] {
  return async (owner) => {
    const namespace = await open(owner);
    before();
    return namespace;
  };
}

/** What stands where the agent wants to write. */
const obstacles: Readonly<Record<string, (file: string) => void>> = {
  'a link to a file': (file) => symlinkSync('/etc/passwd', file),
  'a link to nowhere': (file) => symlinkSync('/nowhere/at/all', file),
  'a pipe': (file) => void execFileSync('mkfifo', [file]),
  'half of a file': (file) => writeFileSync(file, '{"networkState": 2, "podI'),
  'a large file': (file) => writeFileSync(file, 'x'.repeat(300_000)),
  'deep nesting': (file) => writeFileSync(file, '['.repeat(5_000)),
};

suite('caches of a hostile or broken disk', { skip: withoutPods }, () => {
  const passwd = () => readFileSync('/etc/passwd', 'utf8');

  for (const [what, put] of Object.entries(obstacles)) {
    test(`${what} in the place of a pod interface file goes`, async (t) => {
      const [pod, own, before] = [await fakePod(t), disk(t), passwd()];
      mkdirSync(directoryOf(own), { recursive: true });
      put(path.join(directoryOf(own), 'default'));
      await setUpBy(own, pod, vmi);
      assert.equal((cachesOf(own, uid).default as { podIP: string }).podIP, '10.244.7.5');
      assert.deepEqual(readdirSync(directoryOf(own)), ['default']);
      assert.equal(passwd(), before);
    });

    test(`${what} in the place of the launcher’s file goes`, { skip: withoutDummy }, async (t) => {
      const [pod, before] = [await fakePod(t), passwd()];
      const directory = `/proc/${pod.pid}/root/run/kubevirt-private`;
      put(path.join(directory, 'vif-cache-eth0.json'));
      put(path.join(directory, '.vif-cache-eth0.json.new'));
      await setUpBy(disk(t), pod, bridged);
      assert.equal(JSON.parse(readFileSync(path.join(directory, 'vif-cache-eth0.json'), 'utf8')).IP.IP, '10.244.7.5');
      assert.deepEqual(readdirSync(directory), ['vif-cache-eth0.json']);
      assert.equal(passwd(), before);
    });
  }

  test('a link in the place of the launcher’s directory is refused, and nothing is done', {
    skip: withoutDummy,
  }, async (t) => {
    const pod = await fakePod(t);
    const directory = `/proc/${pod.pid}/root/run/kubevirt-private`;
    rmSync(directory, { recursive: true });
    symlinkSync('/etc', directory);
    const refused = codeOf('POD_NETWORK', /vif-cache-eth0\.json of the launcher cannot be written: .*symbolic link/);
    await assert.rejects(setUpBy(disk(t), pod, bridged), refused);
    assert.deepEqual(Object.keys(linksOf(pod)).sort(), ['eth0', 'lo']);
  });

  test('a link in the place of the VMI’s directory is not followed', async (t) => {
    const [pod, own] = [await fakePod(t), disk(t)];
    mkdirSync(path.dirname(directoryOf(own)), { recursive: true });
    mkdirSync(path.join(own.privateDir, 'elsewhere'));
    symlinkSync('../elsewhere', directoryOf(own));
    await assert.rejects(setUpBy(own, pod, vmi), codeOf('POD_NETWORK', /symbolic link/));
    const { hook } = await setUpBy(own, pod, vmiWith([], []));
    await hook.release?.({ uid, stage: undefined, state: undefined, signal: new AbortController().signal });
    assert.deepEqual(readdirSync(path.join(own.privateDir, 'network-info-cache')), []);
    assert.equal(existsSync(path.join(own.privateDir, 'elsewhere')), true);
  });

  test('a full disk refuses before anything is changed in the pod', async (t) => {
    const pod = await fakePod(t);
    const own: Disk = { privateDir: smallDisk(t), state: undefined };
    mkdirSync(directoryOf(own), { recursive: true });
    fill(own.privateDir);
    await assert.rejects(setUpBy(own, pod, vmi), codeOf('POD_NETWORK', /cannot be kept \(ENOSPC/));
    assert.deepEqual(Object.keys(linksOf(pod)).sort(), ['eth0', 'lo']);
    assert.deepEqual(readdirSync(directoryOf(own)), []);
    rmSync(path.join(own.privateDir, 'full'));
    assert.equal((await setUpBy(own, pod, vmi)).result?.kind, 'done');
  });
});

function smallDisk(t: TestContext): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'small-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'none', directory]);
  t.after(() => {
    execFileSync('umount', [directory]);
    rmSync(directory, { recursive: true });
  });
  return directory;
}

function fill(directory: string): void {
  try {
    writeFileSync(path.join(directory, 'full'), Buffer.alloc(1 << 20));
  } catch {
    // It is full now.
  }
}
