import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { loadScheduling } from '../../../src/host/index.ts';

const isRoot = process.getuid?.() === 0;
const mebibyte = 2 ** 20;

/** A process of this test's own; `with`: the command that starts it with other settings. */
async function started(t: { after(fn: () => void): void }, ...before: string[]): Promise<number> {
  const [command = '', ...args] = [...before, 'sleep', '600'];
  const child: ChildProcess = spawn(command, args, { stdio: 'ignore' });
  t.after(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  const pid = child.pid ?? 0;
  while (!readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('sleep')) await new Promise(setImmediate);
  return pid;
}

function lockedMemory(pid: number): string[] {
  const line = readFileSync(`/proc/${pid}/limits`, 'utf8')
    .split('\n')
    .find((each) => each.startsWith('Max locked memory'));
  return line?.split(/\s+/).slice(3, 5) ?? [];
}

const statusOf = (pid: number, field: string) =>
  readFileSync(`/proc/${pid}/status`, 'utf8')
    .split('\n')
    .find((line) => line.startsWith(`${field}:`))
    ?.split(/\s+/)[1];

/** Fields 40 and 41 of proc_pid_stat(5): priority and policy. */
const policyOf = (pid: number) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ').slice(37, 39);

/** Bit 24 of the effective capabilities. */
const mayRaise = (BigInt(`0x${statusOf(process.pid, 'CapEff')}`) & (1n << 24n)) !== 0n;

test('a process may lock as much memory as is said, and a limit is never lowered', { skip: !isRoot }, async (t) => {
  const scheduling = await loadScheduling();
  const pid = await started(t, 'prlimit', `--memlock=${mebibyte}:${4 * mebibyte}`);
  assert.equal(scheduling.raiseLockedMemory(pid, 2 * mebibyte - 0.5), true);
  assert.deepEqual(lockedMemory(pid), [`${2 * mebibyte}`, `${4 * mebibyte}`]);
  assert.equal(scheduling.raiseLockedMemory(pid, mebibyte), false);
  assert.deepEqual(lockedMemory(pid), [`${2 * mebibyte}`, `${4 * mebibyte}`]);
});

test('a hard limit is raised, and one without end is left as it is', {
  skip: !mayRaise && 'needs CAP_SYS_RESOURCE',
}, async (t) => {
  const scheduling = await loadScheduling();
  const pid = await started(t, 'prlimit', `--memlock=${mebibyte}:${mebibyte}`);
  assert.equal(scheduling.raiseLockedMemory(pid, 6_000_000_000), true);
  assert.deepEqual(lockedMemory(pid), ['6000000000', '6000000000']);
  const free = await started(t, 'prlimit', '--memlock=unlimited');
  assert.equal(scheduling.raiseLockedMemory(free, 2 ** 50), false);
  assert.deepEqual(lockedMemory(free), ['unlimited', 'unlimited']);
});

test('without the right to raise a hard limit the error says what to do', {
  skip: mayRaise && 'this process has CAP_SYS_RESOURCE',
}, async (t) => {
  const scheduling = await loadScheduling();
  const pid = await started(t, 'prlimit', `--memlock=${mebibyte}:${mebibyte}`);
  assert.throws(() => scheduling.raiseLockedMemory(pid, 6_000_000_000), /EPERM: run the node agent privileged/);
});

test('a thread is scheduled before ordinary ones', { skip: !isRoot }, async (t) => {
  const scheduling = await loadScheduling();
  const pid = await started(t);
  assert.deepEqual(policyOf(pid), policyOf(process.pid));
  assert.equal(scheduling.setRealtime(pid, 2), true);
  assert.deepEqual(policyOf(pid), ['2', '1']);
  assert.equal(scheduling.setRealtime(pid, 2), false);
  assert.equal(scheduling.setRealtime(pid, 1), true);
});

test('a thread runs where another one does', async (t) => {
  const scheduling = await loadScheduling();
  const pinned = await started(t, 'taskset', '-c', '0');
  const other = await started(t);
  scheduling.copyAffinity(pinned, other);
  assert.equal(statusOf(pinned, 'Cpus_allowed_list'), '0');
  assert.equal(statusOf(other, 'Cpus_allowed_list'), '0');
});

test('a process that has ended is told from one that may not be changed', async () => {
  const scheduling = await loadScheduling();
  const gone = 2 ** 22 + 1;
  const isGone = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'PROCESS_GONE';
  assert.throws(() => scheduling.raiseLockedMemory(gone, 1), isGone);
  assert.throws(() => scheduling.setRealtime(gone, 1), isGone);
  assert.throws(() => scheduling.copyAffinity(gone, process.pid), isGone);
});
