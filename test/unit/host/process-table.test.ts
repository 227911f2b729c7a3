import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { childrenOf, namedIn } from '../../../src/host/process-table.ts';
import { findPitThread, findQemu } from '../../../src/host/qemu-processes.ts';

interface Entry {
  readonly name: string;
  readonly parent?: number;
  readonly children?: readonly number[];
  readonly args?: string;
  readonly flags?: number;
}

function proc(t: TestContext, entries: Readonly<Record<number, Entry>>): string {
  const procDir = mkdtempSync(path.join(tmpdir(), 'process-table-'));
  t.after(() => rmSync(procDir, { recursive: true, force: true }));
  for (const [pid, { name, parent = 0, children, args = name, flags = 0 }] of Object.entries(entries)) {
    const directory = path.join(procDir, pid);
    mkdirSync(path.join(directory, 'ns'), { recursive: true });
    writeFileSync(path.join(directory, 'comm'), `${name}\n`);
    writeFileSync(path.join(directory, 'cmdline'), `${args}\0`);
    writeFileSync(path.join(directory, 'status'), `NSpid:\t${pid}\t7\n`);
    const fields = ['S', parent, 1, 1, 0, -1, flags, ...Array(12).fill(0), 5, 0];
    writeFileSync(path.join(directory, 'stat'), `${pid} (${name}) ${fields.join(' ')}`);
    symlinkSync('pid:[1]', path.join(directory, 'ns/pid'));
    if (!children) continue;
    mkdirSync(path.join(directory, 'task', pid), { recursive: true });
    writeFileSync(path.join(directory, 'task', pid, 'children'), children.map((each) => `${each} `).join(''));
  }
  return procDir;
}

const qemu = (parent: number): Entry => ({ name: 'qemu-system-x86', args: 'guest=default_vm1,debug', parent });

test("a guest's QEMU is the one that an ancestor of its launcher has, before any other of that name", async (t) => {
  const family = {
    10: { name: 'monitor', children: [20, 40] },
    20: { name: 'virt-launcher', parent: 10, children: [21] },
    21: { name: 'virtqemud', parent: 20 },
    30: qemu(1),
    40: qemu(10),
  };
  const started = { launcherPid: 20, procDir: proc(t, family) };
  assert.equal(await findQemu('default_vm1', started), 40);
  assert.equal(await findQemu('default_vm2', started), undefined);
});

test('a launcher that became its QEMU is that QEMU', async (t) => {
  assert.equal(await findQemu('default_vm1', { launcherPid: 20, procDir: proc(t, { 20: qemu(1) }) }), 20);
});

test('where the kernel lists no children the whole table is read', async (t) => {
  const alone = { 20: { name: 'virt-launcher', parent: 1 }, 40: qemu(1) };
  assert.equal(await findQemu('default_vm1', { launcherPid: 20, procDir: proc(t, alone) }), 40);
});

test("the timer's thread is looked for among the kernel's own", async (t) => {
  const pit = { name: 'kvm-pit/7', flags: 0x0020_0040 };
  const procDir = proc(t, { 2: { name: 'kthreadd', children: [60] }, 40: qemu(1), 50: pit, 60: pit });
  assert.equal(await findPitThread(40, procDir), 60);
});

test('children of all threads of a process count; one that has ended has none', async (t) => {
  const procDir = proc(t, { 20: { name: 'virt-launcher', children: [21] } });
  mkdirSync(path.join(procDir, '20/task/23'));
  writeFileSync(path.join(procDir, '20/task/23/children'), '24 25 ');
  assert.deepEqual((await childrenOf(20, procDir)).sort(), [21, 24, 25]);
  assert.deepEqual(await childrenOf(99, procDir), []);
});

test('others run while a long table is read', async (t) => {
  const procDir = proc(t, { 1: { name: 'init' } });
  let turns = 0;
  let isOver = false;
  const turn = () => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  const ids = Array.from({ length: 128 }, () => 1);
  let first: number | undefined;
  for await (const { name } of namedIn(procDir, ids)) {
    assert.equal(name, 'init');
    if (first === undefined) turn();
    first ??= turns;
    const untilMs = performance.now() + 0.5;
    while (performance.now() < untilMs);
  }
  isOver = true;
  assert.ok(turns - (first ?? 0) >= 6, `${turns} turns of the event loop`);
});
