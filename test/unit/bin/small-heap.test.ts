import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { bundleAsProgram } from '../../../scripts/bundle.mjs';

/** Much garbage, some of which lives for a while: V8 left to itself makes its young generation 16 MB large by this. */
const churn = `
  let alive = [];
  for (let number = 0; number < 2_000_000; number++) {
    const made = { number };
    if (number % 10 === 0) alive.push(made);
    if (alive.length > 20_000) alive = [];
  }
  const { space_used_size, space_available_size } = require('node:v8')
    .getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  console.log(space_used_size + space_available_size);
`;

function youngMbAfter(...imports: string[]): number {
  const first = imports.flatMap((file) => ['--import', file]);
  return Number(execFileSync(process.execPath, [...first, '-e', churn], { encoding: 'utf8' })) / 2 ** 20;
}

test('the young generation of an agent’s heap is of 2 MB, and no burst makes it larger', async () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'heap-'));
  try {
    const file = path.join(dir, 'small-heap.mjs');
    await bundleAsProgram('src/bin/small-heap.ts', file);
    const withIt = youngMbAfter(file);
    // Of both halves some Node.js versions count one, some two.
    assert.ok(withIt > 1.8 && withIt <= 4, `${withIt} MB`);
    assert.ok(youngMbAfter() > withIt);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
