import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { cpuSetOf, parseCpuList } from '../../../src/host/cpu-set.ts';

test('CPUs of a process are read as the kernel shows them', () => {
  assert.ok(cpuSetOf(process.pid).length > 0);
});

test('ranges and single CPUs of a list are put one by one', () => {
  assert.deepEqual(parseCpuList('0-2,5,8-9'), [0, 1, 2, 5, 8, 9]);
});

test('a list of anything else is none, and a made-up range does not fill the memory', () => {
  for (const text of ['', 'all', '3-1', '1,,2', '0-99999', '-1', '1-2-3', '0-49999,50000-50001']) {
    assert.equal(parseCpuList(text), undefined, text);
  }
});

test('a process that is gone, and a status without the line, are an error with a code', (t) => {
  const procDir = mkdtempSync(join(tmpdir(), 'cpu-set-'));
  t.after(() => rmSync(procDir, { recursive: true }));
  mkdirSync(join(procDir, '7'));
  writeFileSync(join(procDir, '7', 'status'), 'Name:\tlauncher\n');
  for (const pid of [7, 8]) assert.throws(() => cpuSetOf(pid, procDir), { code: 'CPU_SET_UNREADABLE' });
});
