import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { cpusetCgroupOf, keepHouse } from '../../../../src/host/index.ts';

interface Cleanup {
  after(fn: () => void | Promise<void>): void;
}

const cpusetRoot = readFileSync('/proc/self/mountinfo', 'utf8')
  .split('\n')
  .map((line) => line.split(' - '))
  .find(([, after = '']) => after.startsWith('cgroup ') && after.split(' ')[2]?.split(',').includes('cpuset'))?.[0]
  ?.split(' ')[4];
const isRoot = process.getuid?.() === 0;
const noV1 = !isRoot ? 'needs root' : cpusetRoot ? false : 'this machine has no cpusets of cgroup version 1';

/** A real container: a cgroup with a process of several threads in it. */
async function realContainer(t: Cleanup) {
  const directory = path.join(cpusetRoot ?? '', `housekeeping-test-${process.pid}`);
  mkdirSync(directory);
  for (const name of ['cpuset.mems', 'cpuset.cpus']) {
    writeFileSync(path.join(directory, name), readFileSync(path.join(cpusetRoot ?? '', name), 'utf8').trim());
  }
  const script = `require('node:fs').writeFileSync(process.argv[1], String(process.pid)); console.log('in'); setInterval(() => {}, 1e6)`;
  const child = spawn(process.execPath, ['-e', script, path.join(directory, 'cgroup.procs')]);
  t.after(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    const inner = path.join(directory, 'housekeeping');
    if (existsSync(inner)) rmdirSync(inner);
    rmdirSync(directory);
  });
  await once(child.stdout, 'data');
  const listed = (name: string) =>
    readFileSync(path.join(directory, name), 'utf8').split('\n').filter(Boolean).map(Number);
  return { directory, pid: child.pid ?? 0, listed };
}

const options = { procDir: '/proc', hostRoot: '/', hostPid: process.pid };

test('threads of a container go to CPUs of their own, but the vCPUs, in a real cpuset', { skip: noV1 }, async (t) => {
  const { directory, pid, listed } = await realContainer(t);
  const cgroup = cpusetCgroupOf(pid, options);
  assert.deepEqual(cgroup, { version: 1, directory });
  assert.ok(cgroup);
  const all = listed('tasks');
  assert.ok(all.length > 2);
  const apart = all.at(-1);
  const house = { cpus: '0', isApart: (tid: number) => tid === apart };
  assert.equal(keepHouse(cgroup, house), all.length - 1);
  assert.deepEqual(listed('tasks'), [apart]);
  assert.deepEqual(listed('housekeeping/tasks').sort(), all.filter((tid) => tid !== apart).sort());
  assert.equal(readFileSync(path.join(directory, 'housekeeping/cpuset.cpus'), 'utf8').trim(), '0');
  // The process is in the subgroup by now; the container's cgroup is still found, and nothing is moved twice.
  assert.deepEqual(cpusetCgroupOf(pid, options), cgroup);
  assert.equal(keepHouse(cgroup, house), 0);
  // A vCPU that was plugged in is a child of a thread in the subgroup.
  assert.equal(keepHouse(cgroup, { cpus: '0', isApart: (tid) => tid === apart || tid === pid }), 1);
  assert.deepEqual(listed('tasks').sort(), [pid, apart].sort());
});

test('CPUs that the container has not are refused in words, in a real cpuset', { skip: noV1 }, async (t) => {
  const { pid } = await realContainer(t);
  const cgroup = cpusetCgroupOf(pid, options);
  assert.ok(cgroup);
  assert.throws(() => keepHouse(cgroup, { cpus: '99999', isApart: () => false }), { code: 'CPUS_REFUSED' });
});

/** The files of version 2 as the kernel shows them; a plain directory keeps what was written last. */
function drawnContainer(t: Cleanup): string {
  const root = mkdtempSync(path.join(tmpdir(), 'housekeeping-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const directory = path.join(root, 'pod/container');
  mkdirSync(path.join(directory, 'housekeeping'), { recursive: true });
  writeFileSync(path.join(directory, 'cgroup.subtree_control'), '\n');
  writeFileSync(path.join(directory, 'cgroup.threads'), '');
  for (const [name, text] of Object.entries({ 'cgroup.type': 'domain\n', 'cpuset.cpus': '\n', 'cgroup.threads': '' })) {
    writeFileSync(path.join(directory, 'housekeeping', name), text);
  }
  return directory;
}

test('a subgroup of version 2 is threaded and has CPUs, also when an earlier try ended in between', (t) => {
  const directory = drawnContainer(t);
  assert.equal(keepHouse({ version: 2, directory }, { cpus: '2,4-6', isApart: () => false }), 0);
  const read = (name: string) => readFileSync(path.join(directory, name), 'utf8');
  assert.equal(read('cgroup.subtree_control'), '+cpuset');
  assert.equal(read('housekeeping/cgroup.type'), 'threaded');
  assert.equal(read('housekeeping/cpuset.cpus'), '2,4-6');
});

test('what is no list of CPUs is written nowhere', (t) => {
  const directory = drawnContainer(t);
  for (const cpus of ['', '1\n', '1;2', '1-', 'all', '1'.repeat(9)]) {
    assert.throws(() => keepHouse({ version: 2, directory }, { cpus, isApart: () => false }), { code: 'CPUS_REFUSED' });
  }
});

test('a cgroup that is gone is told from one that refuses', () => {
  const directory = path.join(tmpdir(), `no-cgroup-${process.pid}`, 'container');
  const gone = { version: 2, directory } as const;
  assert.throws(() => keepHouse(gone, { cpus: '1', isApart: () => false }), { code: 'CGROUP_GONE' });
});

const v2Line = '30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n';
const v1Line = '31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n';

/** What /proc shows: `own` is the cgroup of the agent, `given` that of the launcher. */
function drawnProc(t: Cleanup, texts: { mounts: string; own: string; given: string }): string {
  const procDir = mkdtempSync(path.join(tmpdir(), 'housekeeping-proc-'));
  t.after(() => rmSync(procDir, { recursive: true, force: true }));
  for (const name of ['1', '7', 'self']) mkdirSync(path.join(procDir, name));
  writeFileSync(path.join(procDir, '1/mountinfo'), texts.mounts);
  writeFileSync(path.join(procDir, 'self/cgroup'), texts.own);
  writeFileSync(path.join(procDir, '7/cgroup'), texts.given);
  return procDir;
}

test("the container's cgroup is found below the machine's root, with either version", (t) => {
  const found = (mounts: string, given: string, own = '0::/agent\n') => {
    const procDir = drawnProc(t, { mounts, own, given });
    return cpusetCgroupOf(7, { procDir, hostRoot: '/host', hostPid: 1 });
  };
  const directory = '/host/sys/fs/cgroup/pod/c';
  assert.deepEqual(found(v2Line, '0::/pod/c\n'), { version: 2, directory });
  assert.deepEqual(found(v2Line, '0::/pod/c/housekeeping\n'), { version: 2, directory });
  const both = '3:cpuset:/pod/c\n0::/elsewhere\n';
  assert.deepEqual(found(v2Line + v1Line, both, '3:cpuset:/\n0::/\n'), {
    version: 1,
    directory: '/host/sys/fs/cgroup/cpuset/pod/c',
  });
});

test('threads of the machine, or of the agent, are never taken for those of a container', (t) => {
  const found = (given: string, own: string) => {
    const procDir = drawnProc(t, { mounts: v2Line, own, given });
    return cpusetCgroupOf(7, { procDir, hostRoot: '/', hostPid: 1 });
  };
  assert.equal(found('0::/\n', '0::/agent\n'), undefined);
  assert.equal(found('0::/node\n', '0::/node\n'), undefined);
  assert.equal(found('0::/node\n', '0::/node/agent\n'), undefined);
  assert.throws(() => found('0::/../pod\n', '0::/\n'), { code: 'CGROUP_UNREACHABLE' });
});

test('a launcher that has ended, and a machine whose cgroups are not mounted, are errors that say so', (t) => {
  const procDir = drawnProc(t, { mounts: 'nothing\n', own: '0::/\n', given: '0::/pod\n' });
  assert.throws(() => cpusetCgroupOf(7, { procDir, hostRoot: '/', hostPid: 1 }), { code: 'CGROUP_UNREACHABLE' });
  writeFileSync(path.join(procDir, '1/mountinfo'), v2Line);
  assert.throws(() => cpusetCgroupOf(8, { procDir, hostRoot: '/', hostPid: 1 }), { code: 'CGROUP_GONE' });
});
