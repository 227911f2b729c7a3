import { runSeed } from './run-seed.ts';

/** `node cli.mjs FIRST COUNT [verbose]`: one JSON line per failing seed, then one with the sums. */
const [first = 1, count = 1] = process.argv.slice(2, 4).map(Number);
const isVerbose = process.argv[4] === 'verbose';
const startedMs = performance.now();
const sums = { seeds: 0, failed: 0, steps: 0, virtualMs: 0, passes: 0, starts: 0 };
for (let seed = first; seed < first + count; seed++) {
  const result = await runSeed(seed, isVerbose ? { onLine: (line) => console.log(line) } : {});
  sums.seeds++;
  sums.steps += result.steps;
  sums.virtualMs += result.virtualMs;
  sums.passes += result.passes;
  sums.starts += result.starts;
  if (result.violation) {
    sums.failed++;
    console.log(JSON.stringify({ seed, ...result.violation, story: result.story }));
  } else if (isVerbose) console.log(`seed ${seed} ok, hash ${result.hash}`);
}
console.log(JSON.stringify({ ...sums, tookMs: Math.round(performance.now() - startedMs) }));
