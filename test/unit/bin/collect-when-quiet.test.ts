import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { bundleAsProgram } from '../../../scripts/bundle.mjs';

interface Seen {
  /** Of the old generation, when the work is over and some looks later. */
  readonly workedMb: number;
  readonly laterMb: number;
  /** How often the whole heap was collected because somebody asked for it. */
  readonly asked: number;
  readonly kept: number;
}

/** A cache whose objects have changed often, of which few are left. `isBusy`: the event loop is never at rest. */
const work = (begin: string, isBusy: boolean) => `
  ${begin}
  const { PerformanceObserver, constants } = require('node:perf_hooks');
  let asked = 0;
  new PerformanceObserver((list) => {
    const { NODE_PERFORMANCE_GC_MAJOR: major, NODE_PERFORMANCE_GC_FLAGS_FORCED: forced } = constants;
    asked += list.getEntries().filter(({ detail }) => detail.kind === major && detail.flags & forced).length;
  }).observe({ entryTypes: ['gc'] });
  const oldMb = () => require('node:v8').getHeapSpaceStatistics()
    .find(({ space_name }) => space_name === 'old_space').space_size / 2 ** 20;
  const text = JSON.stringify(Array.from({ length: 100 }, (_, each) => ({ name: 'a name of its own ' + each, each })));
  const cache = new Map();
  for (let round = 0; round < 6; round++) for (let key = 0; key < 1_000; key++) cache.set(key, JSON.parse(text));
  for (let key = 0; key < 1_000; key++) if (key % 10) cache.delete(key);
  const workedMb = oldMb();
  const busy = ${isBusy} && setInterval(() => { const end = Date.now() + 15; while (Date.now() < end); }, 20);
  setTimeout(() => {
    clearInterval(busy);
    console.log(JSON.stringify({ workedMb, laterMb: oldMb(), asked, kept: cache.size }));
    process.exit();
  }, 1_500);
`;

test('what work has left behind is given back when it is over, once, and not before', async () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'heap-'));
  try {
    const file = path.join(dir, 'collect-when-quiet.mjs');
    await bundleAsProgram('src/bin/collect-when-quiet.ts', file);
    const options = JSON.stringify({ lookEachMs: 100, quiet: 0.3, slack: 1.25, pauseMs: 200 });
    const begin = `import(${JSON.stringify(file)}).then(({ collectWhenQuiet }) => collectWhenQuiet(${options}));`;
    const after = (isBusy: boolean): Seen =>
      JSON.parse(execFileSync(process.execPath, ['-e', work(begin, isBusy)], { encoding: 'utf8' }));
    const { workedMb, laterMb, asked, kept } = after(false);
    assert.deepEqual([asked, kept], [2, 100]);
    assert.ok(laterMb < workedMb / 2, `${workedMb} → ${laterMb} MB`);
    assert.equal(after(true).asked, 0);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
