import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { describe, it } from 'node:test';
import { bundleSimulator, runSeeds } from '../../scripts/simulator.mjs';
import { Chance } from './engine/chance.ts';
import {
  firstFrozenSeed,
  firstHostWorkSeed,
  firstMigrationLossSeed,
  firstMigrationSeed,
  firstOutageSeed,
  firstPostCopyLossSeed,
  jittered,
  planOf,
} from './plan.ts';
import { runSeed, type SeedResult } from './run-seed.ts';
import { regressionSeeds } from './seed-file.ts';

/** Fresh seeds of one run of the suite; `npm run simulate -- --seeds N` runs others. */
const freshSeeds = 10_000;
const ranges = [
  { what: 'worlds of one node', first: 100_000, count: 6_500 },
  { what: 'worlds whose agents have host work to do', first: firstHostWorkSeed, count: 1_000 },
  { what: 'worlds of one node whose API server is away when guests end', first: firstOutageSeed, count: 500 },
  { what: 'worlds of two nodes with live migrations', first: firstMigrationSeed, count: freshSeeds - 9_000 },
  { what: 'worlds in which a migration loses what it needs', first: firstMigrationLossSeed, count: 300 },
  { what: 'worlds in which a migration is lost half-way', first: firstPostCopyLossSeed, count: 500 },
  { what: 'worlds in which streams are frozen', first: firstFrozenSeed, count: 200 },
];
const progressSeeds = 1_000;
/** Seed 617: a VMI deleted while its start was answered was cleaned up by a snapshot from before, and its guest ran on. */
const calmWorlds = 650;
/** Of each regression seed. */
const jitters = 12;

describe('simulated worlds around the production agent', () => {
  it('seeds that once failed hold', async () => {
    const known = regressionSeeds();
    assert.ok(known.length > 0, 'the file of seeds was not read');
    for (const { seed } of known) {
      const { story } = await runSeed(seed);
      assert.equal(story, undefined);
    }
  });

  it('seeds that once failed hold when all that happens comes a little earlier or later', async () => {
    for (const { seed } of regressionSeeds()) {
      const chance = new Chance(seed);
      for (let turn = 0; turn < jitters; turn++) {
        const { story } = await runSeed(seed, { plan: jittered(planOf(seed), chance) });
        assert.equal(story, undefined);
      }
    }
  });

  it('where nothing is wrong every start, end and death is answered in time', async () => {
    for (let seed = 1; seed <= calmWorlds; seed++) {
      const { story } = await runSeed(seed, { plan: { ...planOf(seed), faults: [] } });
      assert.equal(story, undefined);
    }
  });

  it('a seed replays exactly, and another seed is another world', async () => {
    for (const seed of [7, 4242, 64, firstMigrationSeed + 1, firstHostWorkSeed + 2]) {
      const [first, second] = [await runSeed(seed), await runSeed(seed)];
      assert.deepEqual(second, first);
      assert.ok(first.steps > 50, `only ${first.steps} steps`);
    }
    assert.notEqual((await runSeed(7)).hash, (await runSeed(8)).hash);
  });

  it('a broken invariant is told with seed, plan and last steps', async () => {
    const broken = { atMs: 20, forMs: 1, kind: 'no such fault' as never, name: 'vm1', size: 0 };
    const { story } = await runSeed(1, { plan: { ...planOf(1), faults: [broken] } });
    assert.match(story ?? '', /^seed 1 breaks the-simulator-works: [\s\S]*plan:[\s\S]*no such fault[\s\S]*last steps:/);
  });

  it(`no invariant is broken in ${freshSeeds} worlds`, async () => {
    const outdir = mkdtempSync('.build/simulator-');
    const stories: string[] = [];
    const sums = { seeds: 0, starts: 0, steps: 0 };
    try {
      const bundle = await bundleSimulator(outdir);
      const workers = availableParallelism();
      for (const { what, first, count } of ranges) {
        await runSeeds({ bundle, first, count, workers }, (result: SeedResult) => {
          sums.seeds++;
          sums.starts += result.starts;
          sums.steps += result.steps;
          if (result.story) stories.push(result.story);
          if (sums.seeds % progressSeeds === 0) console.log(`# ${sums.seeds} of ${freshSeeds} (${what})`);
          return stories.length < 3;
        });
      }
    } finally {
      rmSync(outdir, { recursive: true, force: true });
    }
    assert.deepEqual(stories, [], stories.join('\n\n'));
    assert.equal(sums.seeds, freshSeeds);
    assert.ok(sums.starts > freshSeeds / 2, `only ${sums.starts} starts`);
  });
});
