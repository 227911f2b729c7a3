import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import type { DomainSpecInput, VirtualMachineInstance, VmiStatus } from '../../../src/api/index.ts';
import { cpuSetOf } from '../../../src/host/index.ts';
import { type CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { kernelArgs } from '../../fixtures/guest-kernel.ts';
import { GuestShell } from '../../fixtures/guest-shell.ts';
import { LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { launcherVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import type { NotifyAgent } from '../../fixtures/notify-agent.ts';

const guestDir = '.cache/guest';
const tooFewCpus = availableParallelism() >= 2 ? false : 'needs two CPUs';
const memory = { guest: '192Mi' };
const done = { success: true, message: '' };

function vmiOf(
  domain: Pick<DomainSpecInput, 'cpu' | 'memory'>,
  status: VmiStatus = { phase: 'Scheduled' },
): VirtualMachineInstance {
  const container = { image: 'virt-node/guest', kernelPath: '/vmlinuz', initrdPath: '/initramfs.gz' };
  const vmi = launcherVmi({
    spec: {
      domain: {
        features: { acpi: { enabled: true } },
        firmware: { kernelBoot: { container, kernelArgs } },
        devices: { autoattachPodInterface: false },
        memory,
        ...domain,
      },
    },
  });
  return { ...vmi, status };
}

describe('CPUs and memory of a guest', () => {
  let bench: LauncherBench;
  let pod: LauncherSandbox;
  let agent: NotifyAgent;
  let cmd: CmdCaller;

  const start = async (vmi: VirtualMachineInstance) => {
    pod = await bench.startPod({ kernelBootDir: guestDir });
    agent = await bench.startAgent(pod);
    cmd = await bench.callerOf(pod);
    return cmd.sync(vmi);
  };
  const loggedIn = async () => {
    const shell = new GuestShell(path.join(pod.privateDir, launcherVmiUid, 'virt-serial0'));
    await shell.login();
    return shell;
  };
  const setCpus = (vmi: VirtualMachineInstance) =>
    cmd.call(cmd.client.syncVirtualMachineCpUs, vmiRequest({ ...vmi, status: { phase: 'Running' } }));
  const setMemory = (vmi: VirtualMachineInstance) => cmd.call(cmd.client.syncVirtualMachineMemory, vmiRequest(vmi));
  /** Name of each thread of QEMU → the CPUs it may run on. */
  const threads = () => {
    const [qemu = 0] = pod.pids('guest=default_small');
    const tasks = readdirSync(`/proc/${qemu}/task`);
    return new Map(
      tasks.map((tid) => [
        readFileSync(`/proc/${qemu}/task/${tid}/comm`, 'utf8').trim(),
        cpuSetOf(Number(tid), `/proc/${qemu}/task`),
      ]),
    );
  };
  const domainSpec = async () => JSON.parse((await cmd.call(cmd.client.getDomain, {})).domain).Spec;

  before(async () => {
    assert.ok(existsSync(`${guestDir}/vmlinuz`), 'there is no guest: run node scripts/guest/build.mjs');
    bench = await LauncherBench.create();
  });
  afterEach(() => bench.closeAll());
  after(() => bench?.dispose());

  test('each vCPU with a CPU of its own runs there and nowhere else', { skip: tooFewCpus }, async () => {
    const [first = 0, second = 1] = cpuSetOf(process.pid);
    assert.deepEqual(await start(vmiOf({ cpu: { sockets: 2, dedicatedCpuPlacement: true } })), done, pod.log());
    assert.deepEqual(threads().get('CPU 0/TCG'), [first]);
    assert.deepEqual(threads().get('CPU 1/TCG'), [second]);
    assert.deepEqual((await domainSpec()).CPUTune.VCPUPin, [
      { VCPU: 0, CPUSet: String(first) },
      { VCPU: 1, CPUSet: String(second) },
    ]);
  });

  test('the emulator that shall be apart has the CPU after those of the vCPUs', { skip: tooFewCpus }, async () => {
    const [first = 0, second = 1] = cpuSetOf(process.pid);
    const cpu = { dedicatedCpuPlacement: true, isolateEmulatorThread: true, realtime: {} };
    assert.deepEqual(await start(vmiOf({ cpu })), done, pod.log());
    assert.deepEqual(threads().get('CPU 0/TCG'), [first]);
    assert.deepEqual(threads().get('qemu-system-x86'), [second]);
    assert.deepEqual((await domainSpec()).CPUTune.EmulatorPin, { CPUSet: String(second) });
  });

  test('more dedicated CPUs than the pod has are refused before anything is started', async () => {
    const cpu = { sockets: availableParallelism() + 1, dedicatedCpuPlacement: true };
    const { success, message } = await start(vmiOf({ cpu }));
    assert.equal(success, false);
    assert.match(message, /dedicated CPUs are needed, the launcher pod has/);
    assert.deepEqual(pod.pids('guest=default_small'), []);
  });

  test('vCPUs come while the guest runs', async () => {
    const cpu = { sockets: 1, maxSockets: 4 };
    assert.deepEqual(await start(vmiOf({ cpu })), done, pod.log());
    const shell = await loggedIn();
    const present = async () =>
      /cpus (\S+)/.exec(await shell.run('echo cpus $(cat /sys/devices/system/cpu/present)'))?.[1];
    assert.equal(await present(), '0');
    assert.deepEqual(await setCpus(vmiOf({ cpu: { ...cpu, sockets: 3 } })), done);
    await eventually(async () => assert.equal(await present(), '0-2'), 20_000);
    assert.match(
      await shell.run('echo 1 > /sys/devices/system/cpu/cpu2/online; grep -c ^processor /proc/cpuinfo'),
      /2/,
    );
    assert.ok(threads().has('CPU 2/TCG'));
    shell.close();
  });

  test('a vCPU that is plugged in gets a CPU of its own', { skip: tooFewCpus }, async () => {
    const [, second = 1] = cpuSetOf(process.pid);
    const cpu = { sockets: 1, maxSockets: 4, dedicatedCpuPlacement: true };
    assert.deepEqual(await start(vmiOf({ cpu })), done, pod.log());
    await (await loggedIn()).close();
    assert.deepEqual(await setCpus(vmiOf({ cpu: { ...cpu, sockets: 2 } })), done);
    assert.deepEqual(threads().get('CPU 1/TCG'), [second]);
    const many = await setCpus(vmiOf({ cpu: { ...cpu, sockets: 4 } }));
    assert.equal(many.success, availableParallelism() >= 4);
  });

  test('a guest takes memory that is plugged in, more of it later, and gives it back', async () => {
    const size = (guest: string, phase: 'Scheduled' | 'Running') =>
      vmiOf({ memory: { guest, maxGuest: '2Gi' } }, { phase, memory: { guestAtBoot: '1Gi' } });
    assert.deepEqual(await start(size('1Gi', 'Scheduled')), done, pod.log());
    const shell = await loggedIn();
    const totalMi = async () =>
      Number(/MemTotal: +(\d+)/.exec(await shell.run('grep MemTotal /proc/meminfo'))?.[1]) / 1024;
    await shell.run('echo online_movable > /sys/devices/system/memory/auto_online_blocks');
    const atStart = await totalMi();
    const grownBy = async (mebibytes: number) => {
      const by = (await totalMi()) - atStart;
      assert.ok(Math.abs(by - mebibytes) <= 8, `${by} MiB more, not ${mebibytes}`);
    };
    assert.deepEqual(await setMemory(size('1280Mi', 'Running')), done, pod.log());
    await eventually(() => grownBy(256), 30_000);
    assert.deepEqual(await setMemory(size('1536Mi', 'Running')), done, pod.log());
    await eventually(() => grownBy(512), 30_000);
    await agent.waitFor(({ domain }) => domain.Spec.CurrentMemory?.Value === 1536 * 1024, 10_000);
    assert.deepEqual(await setMemory(size('1Gi', 'Running')), done, pod.log());
    await eventually(() => grownBy(0), 30_000);
    shell.close();
  });
});
