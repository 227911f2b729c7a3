import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { guestLimits } from '../../../src/agent/vmi/host/index.ts';
import { findQemu, vcpuThreads } from '../../../src/host/index.ts';
import { domainOf, vmiOf } from '../../fixtures/agent/builders.ts';
import { hookContext } from '../../fixtures/agent/host-hooks.ts';

/** A real QEMU, named as libvirt names it, in a real cpuset of this test's own. */

const cpusets = readFileSync('/proc/self/mountinfo', 'utf8')
  .split('\n')
  .find((line) => line.split(' - ')[1]?.startsWith('cgroup ') && line.endsWith('cpuset'))
  ?.split(' ')[4];
const hasQemu = () => {
  try {
    execFileSync('qemu-system-x86_64', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};
const skip =
  process.getuid?.() !== 0
    ? 'needs root'
    : !cpusets
      ? 'this machine has no cpusets of cgroup version 1'
      : !hasQemu() && 'this machine has no qemu-system-x86_64';

interface Cleanup {
  after(fn: () => Promise<void>): void;
}

const guestName = `placed${process.pid}`;

/** With two vCPUs that never run; `launcherPid` is a process beside it. */
async function startedGuest(t: Cleanup) {
  const directory = path.join(cpusets ?? '', `placement-test-${process.pid}`);
  mkdirSync(directory);
  for (const name of ['cpuset.mems', 'cpuset.cpus']) {
    writeFileSync(path.join(directory, name), readFileSync(path.join(cpusets ?? '', name), 'utf8').trim());
  }
  const named = `guest=default_${guestName},debug-threads=on`;
  const qemu = `qemu-system-x86_64 -S -accel tcg,thread=multi -smp 2 -m 32 -nodefaults -display none -name ${named}`;
  const child = spawn('sh', ['-c', `echo $$ > ${directory}/cgroup.procs; exec ${qemu}`], { stdio: 'ignore' });
  t.after(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    const inner = path.join(directory, 'housekeeping');
    if (existsSync(inner)) rmdirSync(inner);
    rmdirSync(directory);
  });
  const pid = child.pid ?? 0;
  while (child.exitCode === null && (await vcpuThreads(pid, '/proc')).size < 2) await new Promise(setImmediate);
  assert.equal(child.exitCode, null);
  return { directory, pid };
}

const policyOf = (pid: number, tid: number) =>
  readFileSync(`/proc/${pid}/task/${tid}/stat`, 'utf8').split(') ')[1]?.split(' ').slice(37, 39).join(' ');

test('emulator threads leave the CPUs of their guest, and its vCPUs come before others', { skip }, async (t) => {
  const { directory, pid } = await startedGuest(t);
  assert.equal(await findQemu(`default_${guestName}`, { launcherPid: pid, procDir: '/proc' }), pid);
  const threads = await vcpuThreads(pid, '/proc');
  assert.deepEqual([...threads.keys()].sort(), [0, 1]);
  const cpu = { dedicatedCpuPlacement: true, isolateEmulatorThread: true, realtime: { mask: '^0,0-1' } };
  const vmi = vmiOf('Running', { metadata: { name: guestName, namespace: 'default' }, spec: { domain: { cpu } } });
  const bare = domainOf();
  const domain = { ...bare, Spec: { ...bare.Spec, CPUTune: { EmulatorPin: { CPUSet: '0' } } } };
  const hook = guestLimits({ hostRoot: '/', hostPid: process.pid });
  const context = { ...hookContext(vmi, pid), purpose: 'settling', domain } as const;
  const result = await hook.settle?.(context);
  assert.deepEqual(result?.kind === 'done' && result.facts, { isPlaced: true });
  const listed = (name: string) =>
    readFileSync(path.join(directory, name), 'utf8').split('\n').filter(Boolean).map(Number).sort();
  assert.deepEqual(listed('tasks'), [...threads.values()].sort());
  assert.ok(listed('housekeeping/tasks').includes(pid));
  assert.equal(policyOf(pid, threads.get(0) ?? 0), '0 0');
  assert.equal(policyOf(pid, threads.get(1) ?? 0), '1 1');
  const again = await hook.settle?.(context);
  assert.match(again?.kind === 'done' ? (again.summary ?? '') : '', /emulator on CPU 0, 0 threads moved/);
});
