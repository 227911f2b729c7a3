// npm run simulate -- [--seed N] [--seeds COUNT] [--workers K] [--verbose]
// Runs simulated worlds around the production agent (test/simulator); a failing seed prints its plan and its last steps.
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { bundleSimulator, runSeeds } from './simulator.mjs';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '1' },
    workers: { type: 'string', default: String(availableParallelism()) },
    verbose: { type: 'boolean', default: false },
  },
});
const [first, count, workers] = [values.seed, values.seeds, values.workers].map(Number);
if (![first, count, workers].every((value) => Number.isSafeInteger(value) && value >= 0)) {
  console.error('--seed, --seeds and --workers must be whole numbers');
  process.exit(2);
}
const bundle = await bundleSimulator(`.build/simulator/${process.pid}`);
if (values.verbose) {
  for (let seed = first; seed < first + count; seed++) {
    const verbose = path.join(bundle, 'verbose.mjs');
    const { status } = spawnSync(process.execPath, ['--enable-source-maps', verbose, String(seed)], {
      stdio: 'inherit',
    });
    if (status !== 0) process.exitCode = 1;
  }
} else await runAll();

async function runAll() {
  const startedMs = performance.now();
  const sums = { seeds: 0, failed: 0, starts: 0, steps: 0, passes: 0, virtualHours: 0 };
  await runSeeds({ bundle, first, count, workers }, (result) => {
    sums.seeds++;
    sums.starts += result.starts;
    sums.steps += result.steps;
    sums.passes += result.passes;
    sums.virtualHours += result.virtualMs / 3_600_000;
    if (!result.violation) return;
    sums.failed++;
    console.log(`${result.story}\nagain: npm run simulate -- --seed ${result.seed} --verbose\n`);
  });
  const seconds = (performance.now() - startedMs) / 1000;
  console.log(
    `${sums.seeds} seeds, ${sums.failed} failed; ${sums.starts} starts, ${sums.passes} passes, ${sums.steps} steps, ` +
      `${sums.virtualHours.toFixed(0)} virtual hours in ${seconds.toFixed(1)} s (${(sums.seeds / seconds).toFixed(0)} seeds/s)`,
  );
  if (sums.failed > 0 || sums.seeds !== count) process.exitCode = 1;
}
