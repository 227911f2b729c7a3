import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { describe, it } from 'node:test';
import { bundleSimulator, runSeeds } from '../../scripts/simulator.mjs';
import { mutations } from './mutations.ts';
import type { SeedResult } from './run-seed.ts';

const seedsToFindIt = 2_000;

describe('a simulator that finds what is broken', () => {
  for (const mutation of mutations) {
    it(`notices when ${mutation.name}`, async (context) => {
      const outdir = mkdtempSync('.build/mutation-');
      let tried = 0;
      let found: SeedResult | undefined;
      try {
        const bundle = await bundleSimulator(outdir, mutation);
        const options = { bundle, first: mutation.first ?? 1, count: seedsToFindIt, workers: availableParallelism() };
        await runSeeds(options, (result: SeedResult) => {
          tried++;
          if (result.violation) found ??= result;
          return found === undefined;
        });
      } finally {
        rmSync(outdir, { recursive: true, force: true });
      }
      assert.ok(found?.violation, `not noticed in ${tried} worlds`);
      context.diagnostic(`after ${tried} worlds: ${found.violation.invariant}: ${found.violation.text.slice(0, 120)}`);
    });
  }
});
