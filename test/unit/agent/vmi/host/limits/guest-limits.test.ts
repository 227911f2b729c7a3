import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { guestLimits } from '../../../../../../src/agent/vmi/host/index.ts';
import { vcpuMask } from '../../../../../../src/agent/vmi/host/limits/cpu-placement.ts';
import { lockedMemoryBytes, locksMemory } from '../../../../../../src/agent/vmi/host/limits/locked-memory.ts';
import type { DomainSpecInput, VirtualMachineInstance } from '../../../../../../src/api/index.ts';
import { SchedulingError } from '../../../../../../src/host/index.ts';
import { domainOf, vmiOf } from '../../../../../fixtures/agent/builders.ts';
import { hookContext } from '../../../../../fixtures/agent/host-hooks.ts';

const Mi = 2 ** 20;
const Gi = 2 ** 30;
const launcherPid = 50;
const kernelThread = 0x0020_0040;

interface FakeProcess {
  readonly pid: number;
  readonly name: string;
  readonly parent?: number;
  readonly namespace?: string;
  readonly flags?: number;
  readonly startTicks?: number;
  readonly args?: readonly string[];
  readonly innerPid?: number;
  readonly threads?: Readonly<Record<number, string>>;
}

/** What /proc shows of a launcher with its daemon and QEMU, and of others on the machine. */
const processes: readonly FakeProcess[] = [
  { pid: launcherPid, name: 'virt-launcher', parent: 49 },
  { pid: 51, name: 'virtqemud', parent: 40 },
  { pid: 52, name: 'virtqemud', parent: launcherPid },
  {
    pid: 60,
    name: 'qemu-system-x86',
    namespace: 'other',
    args: ['qemu', '-name', 'guest=default_vm1,debug-threads=on'],
  },
  { pid: 61, name: 'qemu-system-x86', args: ['qemu', '-name', 'guest=default_vm11,debug-threads=on'] },
  {
    pid: 70,
    name: 'qemu-system-x86',
    parent: 49,
    startTicks: 1000,
    innerPid: 9,
    args: ['qemu', '-name', 'guest=default_vm1,debug-threads=on'],
    threads: { 70: 'qemu-system-x86', 71: 'CPU 0/KVM', 72: 'CPU 1/KVM', 73: 'CPU 2/KVM', 74: 'vnc_worker' },
  },
  { pid: 80, name: 'kvm-pit/9', flags: kernelThread, startTicks: 900 },
  { pid: 81, name: 'kvm-pit/9', flags: 0, startTicks: 1001 },
  { pid: 82, name: 'kvm-pit/9', flags: kernelThread, startTicks: 3000 },
  { pid: 83, name: 'kvm-pit/9', flags: kernelThread, startTicks: 1002 },
];

function fakeProc(t: { after(fn: () => void): void }, list = processes): string {
  const procDir = mkdtempSync(path.join(tmpdir(), 'limits-'));
  t.after(() => rmSync(procDir, { recursive: true, force: true }));
  for (const each of list) writeProcess(path.join(procDir, String(each.pid)), each);
  return procDir;
}

function writeProcess(directory: string, each: FakeProcess): void {
  const { pid, name, parent = 2, flags = 0, startTicks = 1, namespace = 'launcher', args = [name], innerPid } = each;
  mkdirSync(path.join(directory, 'ns'), { recursive: true });
  writeFileSync(path.join(directory, 'comm'), `${name}\n`);
  writeFileSync(path.join(directory, 'cmdline'), `${args.join('\0')}\0`);
  writeFileSync(path.join(directory, 'status'), `Name:\t${name}\nNSpid:\t${pid}${innerPid ? `\t${innerPid}` : ''}\n`);
  const fields = ['S', parent, 1, 1, 0, -1, flags, ...Array(12).fill(0), startTicks, 0];
  writeFileSync(path.join(directory, 'stat'), `${pid} (a) b) ${fields.join(' ')}`);
  symlinkSync(namespace, path.join(directory, 'ns/pid'));
  for (const [tid, comm] of Object.entries(each.threads ?? {})) {
    mkdirSync(path.join(directory, 'task', tid), { recursive: true });
    writeFileSync(path.join(directory, 'task', tid, 'comm'), `${comm}\n`);
  }
}

/** Writes down what is asked of the kernel. */
function recorded() {
  const calls: string[] = [];
  const scheduling = async () => ({
    raiseLockedMemory: (pid: number, bytes: number) => calls.push(`lock ${pid} ${bytes}`) > 0,
    setRealtime: (tid: number, priority: number) => calls.push(`fifo ${tid} ${priority}`) > 0,
    copyAffinity: (from: number, to: number) => void calls.push(`affinity ${from} ${to}`),
  });
  return { calls, scheduling };
}

const vmiWith = (domain: DomainSpecInput, more: Partial<VirtualMachineInstance> = {}): VirtualMachineInstance => ({
  ...vmiOf('Running', { spec: { domain } }),
  ...more,
});
const device = { name: 'gpu', deviceName: 'vendor.example/gpu' };

test('the size is that of upstream: overhead, memory, and the memory again for each further device', () => {
  const fixed = (25 + 100 + 25 + 40 + 30 + 8 + 8 + 32) * Mi;
  const memory = { guest: '1Gi' };
  const sizeOf = (domain: DomainSpecInput, ratio = 1) => lockedMemoryBytes(vmiWith(domain), ratio);
  assert.equal(sizeOf({ memory }), fixed + Gi);
  assert.equal(sizeOf({ memory: { guest: '1Gi', maxGuest: '4Gi' } }), fixed + 4 * Gi);
  const requests = { memory: '2Gi' };
  assert.equal(sizeOf({ memory, resources: { requests } }), fixed + 2 * Gi + (2 * Gi) / 512);
  assert.equal(sizeOf({ memory, devices: { gpus: [device] } }), fixed + Gi + Gi);
  const three = { gpus: [device], hostDevices: [device], interfaces: [{ name: 'net', sriov: {} }] };
  assert.equal(sizeOf({ memory, devices: three }), fixed + Gi + 3 * Gi);
  assert.equal(
    sizeOf({ memory, cpu: { cores: 2, sockets: 2, dedicatedCpuPlacement: true } }),
    fixed + Gi + (24 + 100) * Mi,
  );
  const reserved = { guest: '1Gi', reservedOverhead: { addedOverhead: '64Mi', memLock: 'Required' } };
  assert.equal(sizeOf({ memory: reserved }), fixed + Gi + 64 * Mi);
  assert.equal(sizeOf({ memory }, 2), 2 * fixed + Gi);
});

test('the overhead that a migration brings with it counts before the formula', () => {
  const vmi = vmiWith({ memory: { guest: '1Gi' } }, { status: { migrationState: { targetMemoryOverhead: '300Mi' } } });
  assert.equal(lockedMemoryBytes(vmi, 3), 300 * Mi + Gi);
});

test('only a guest whose memory is locked needs a limit', () => {
  assert.equal(locksMemory(vmiWith({})), false);
  assert.equal(locksMemory(vmiWith({ memory: { reservedOverhead: { memLock: 'NotRequired' } } })), false);
  assert.equal(locksMemory(vmiWith({ memory: { reservedOverhead: { memLock: 'Required' } } })), true);
  assert.equal(locksMemory(vmiWith({ cpu: { realtime: {} } })), true);
  assert.equal(locksMemory(vmiWith({ launchSecurity: { sev: {} } })), true);
  assert.equal(locksMemory(vmiWith({ devices: { interfaces: [{ name: 'net', sriov: {} }] } })), true);
});

test("before a start the launcher's own daemon gets the limit, while it runs this guest's QEMU", async (t) => {
  const { calls, scheduling } = recorded();
  const hook = guestLimits({ hostRoot: '/', hostPid: 1, procDir: fakeProc(t) }, { scheduling });
  const vmi = vmiWith({ memory: { guest: '1Gi' }, devices: { gpus: [device] } });
  await hook.prepare(hookContext(vmi, launcherPid));
  await hook.adjust?.(hookContext(vmi, launcherPid));
  const bytes = lockedMemoryBytes(vmi, 1);
  assert.deepEqual(calls, [`lock 52 ${bytes}`, `lock 70 ${bytes}`]);
});

test('nothing is asked of the kernel for an ordinary guest, or where there is no process', async (t) => {
  const { calls, scheduling } = recorded();
  const hook = guestLimits({ hostRoot: '/', hostPid: 1, procDir: fakeProc(t, []) }, { scheduling });
  const locking = vmiWith({ memory: { guest: '1Gi' }, devices: { gpus: [device] } });
  for (const vmi of [vmiWith({}), locking]) {
    await hook.prepare(hookContext(vmi, launcherPid));
    await hook.adjust?.(hookContext(vmi, launcherPid));
  }
  assert.deepEqual(calls, []);
});

test('what the kernel refuses is an error of the host, before the guest starts', async (t) => {
  const refused = async () => ({
    ...(await recorded().scheduling()),
    raiseLockedMemory: () => {
      throw new SchedulingError('SCHEDULING_REFUSED', 'run the node agent privileged');
    },
  });
  const hook = guestLimits({ hostRoot: '/', hostPid: 1, procDir: fakeProc(t) }, { scheduling: refused });
  const vmi = vmiWith({ cpu: { realtime: {} } });
  await assert.rejects(hook.prepare(hookContext(vmi, launcherPid)), {
    code: 'LIMITS_REFUSED',
    message: 'run the node agent privileged',
  });
});

test('vCPUs of a real-time guest come before ordinary threads, and its timer before them', async (t) => {
  const { calls, scheduling } = recorded();
  const hook = guestLimits({ hostRoot: '/', hostPid: 1, procDir: fakeProc(t) }, { scheduling });
  const vmi = vmiWith({ cpu: { dedicatedCpuPlacement: true, realtime: { mask: '0-2,^1' } } });
  const result = await hook.settle?.({ ...hookContext(vmi, launcherPid), purpose: 'settling', domain: domainOf() });
  assert.deepEqual(calls, ['fifo 71 1', 'fifo 73 1', 'fifo 83 2', 'affinity 71 83']);
  assert.deepEqual(result, {
    kind: 'done',
    facts: { isPlaced: true },
    summary: 'vCPUs 0, 2 in real time; timer beside vCPU 0',
  });
});

test('the timer thread of a guest with CPUs of its own only follows vCPU 0', async (t) => {
  const { calls, scheduling } = recorded();
  const hook = guestLimits({ hostRoot: '/', hostPid: 1, procDir: fakeProc(t) }, { scheduling });
  const vmi = vmiWith({ cpu: { dedicatedCpuPlacement: true } });
  await hook.settle?.({ ...hookContext(vmi, launcherPid), purpose: 'settling' });
  assert.deepEqual(calls, ['affinity 71 83']);
});

test('a guest whose QEMU is not there is placed later, and that is no failure', async (t) => {
  const { scheduling } = recorded();
  const procDir = fakeProc(
    t,
    processes.filter(({ pid }) => pid !== 70),
  );
  const hook = guestLimits({ hostRoot: '/', hostPid: 1, procDir }, { scheduling });
  const vmi = vmiWith({ cpu: { dedicatedCpuPlacement: true } });
  const result = await hook.settle?.({ ...hookContext(vmi, launcherPid), purpose: 'settling' });
  const why = 'no QEMU of this guest runs in its launcher';
  assert.deepEqual(result, { kind: 'done', facts: { isPlaced: false, unplaced: why }, summary: `not done: ${why}` });
});

test('threads that cannot be placed keep no others where they are', async (t) => {
  const { calls, scheduling } = recorded();
  const refused = async () => ({
    ...(await scheduling()),
    copyAffinity: () => {
      throw new SchedulingError('SCHEDULING_REFUSED', 'the CPU is gone');
    },
  });
  const hook = guestLimits({ hostRoot: '/', hostPid: 1, procDir: fakeProc(t) }, { scheduling: refused });
  const cpu = { dedicatedCpuPlacement: true, isolateEmulatorThread: true, realtime: { mask: '' } };
  const bare = domainOf();
  const domain = { ...bare, Spec: { ...bare.Spec, CPUTune: { EmulatorPin: { CPUSet: '9' } } } };
  const context = { ...hookContext(vmiWith({ cpu }), launcherPid), purpose: 'settling', domain } as const;
  const result = await hook.settle?.(context);
  assert.ok(result?.kind === 'done');
  assert.equal(result.facts.isPlaced, false);
  assert.match(result.facts.unplaced ?? '', /; the CPU is gone$/);
  assert.match(result.summary ?? '', /^vCPUs 0, 1, 2 in real time; not done: .*; not done: the CPU is gone$/);
  assert.deepEqual(calls, ['fifo 71 1', 'fifo 72 1', 'fifo 73 1', 'fifo 83 2']);
});

test('what is no error of the host is a fault of the step', async (t) => {
  const broken = async () => {
    throw new TypeError('a bug');
  };
  const hook = guestLimits({ hostRoot: '/', hostPid: 1, procDir: fakeProc(t) }, { scheduling: broken });
  const vmi = vmiWith({ cpu: { dedicatedCpuPlacement: true } });
  await assert.rejects(async () => hook.settle?.({ ...hookContext(vmi, launcherPid), purpose: 'settling' }), TypeError);
});

test('a mask names vCPUs, ranges of them and exceptions; each wrong one is refused before the start', async () => {
  const named = (mask: string) => [0, 1, 2, 3, 4].filter(vcpuMask(mask));
  assert.deepEqual(named(''), [0, 1, 2, 3, 4]);
  assert.deepEqual(named('1-3'), [1, 2, 3]);
  assert.deepEqual(named('^2, 0-3'), [0, 1, 3]);
  assert.deepEqual(named('4'), [4]);
  assert.deepEqual(named('^4'), []);
  const hook = guestLimits({ hostRoot: '/', hostPid: 1 }, recorded());
  for (const mask of ['3-1', 'a', '1,', '^1-2', '-1', '1;2']) {
    const vmi = vmiWith({ cpu: { realtime: { mask } } });
    await assert.rejects(hook.prepare(hookContext(vmi, launcherPid)), { code: 'BAD_CPU_MASK' });
  }
});
