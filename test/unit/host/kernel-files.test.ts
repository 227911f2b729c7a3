import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { hasEnded, parseProcessStat, readKernelFigures, readProcessStat } from '../../../src/host/index.ts';

/** Files of the kernel that several programs read. */

test('a command name with blanks, parentheses and lines does not shift the fields of a process', () => {
  const rest = Array.from({ length: 22 }, (_, at) => (at === 0 ? 'S' : at + 3)).join(' ');
  for (const name of ['a', 'a) b (c', ') Z 1 2 3', '(', '\n', '']) {
    const found = { state: 'S', parent: 4, flags: 9, startTicks: '22', cpuTicks: 14 + 15, residentPages: 24 };
    assert.deepEqual(parseProcessStat(`12 (${name}) ${rest}`), found, JSON.stringify(name));
  }
  for (const torn of ['', '12 (a', '12 (a) S 1 2', '1 '.repeat(40)]) assert.equal(parseProcessStat(torn), undefined);
});

test('a process is known until it has ended, though its parent has not asked', async () => {
  const own = await readProcessStat(process.pid);
  assert.deepEqual([own?.parent, own && hasEnded(own)], [process.ppid, false]);
  assert.equal(await readProcessStat(4_194_305), undefined);
  const states = ['R', 'S', 'D', 'T', 'Z', 'X', 'x'];
  const ended = states.filter((state) =>
    hasEnded({ state, parent: 1, flags: 0, startTicks: '1', cpuTicks: 0, residentPages: 0 }),
  );
  assert.deepEqual(ended, ['Z', 'X', 'x']);
});

test('figures of the kernel are those of its lines; what is none is none', async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), 'kernel-figures-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = path.join(dir, 'meminfo');
  writeFileSync(
    file,
    'MemTotal:       16 kB\nActive(anon): 0 kB\nMemFree: x kB\nCached:\nBuffers: -1 kB\npswpin 3\n\n',
  );
  const figures = await readKernelFigures(file);
  const names = ['MemTotal', 'Active(anon)', 'pswpin', 'MemFree', 'Cached', 'Buffers', '', 'SwapFree', 'toString'];
  assert.deepEqual(names.map(figures), [16, 0, 3, ...Array(6).fill(undefined)]);
  const own = await readKernelFigures('/proc/meminfo');
  assert.ok((own('MemTotal') ?? 0) > (own('MemFree') ?? Number.POSITIVE_INFINITY));
  writeFileSync(file, 'x'.repeat(2 ** 20 + 1));
  await assert.rejects(readKernelFigures(file), { code: 'TOO_LARGE' });
});
