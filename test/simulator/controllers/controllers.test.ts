import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ControllersWorld } from './world.ts';

/** `CONTROLLER_SEEDS=first-count` runs others. 18 and 22: pods that a controller made and ended before it could record them. */
const [first = 15, count = 10] = (process.env.CONTROLLER_SEEDS ?? '').split('-').filter(Boolean).map(Number);

test('a seed of a cluster replays exactly, and another seed is another cluster', async () => {
  const hashOf = async (seed: number) => (await new ControllersWorld(seed).run()).hash;
  assert.deepEqual([await hashOf(53), await hashOf(196)], [await hashOf(53), await hashOf(196)]);
  assert.notEqual(await hashOf(53), await hashOf(54));
});

test('in seeded clusters migrations and evacuations keep their limits, end with a cause, and leave nothing', async () => {
  const ends = { succeeded: 0, failed: 0 };
  for (let seed = first; seed < first + count; seed++) {
    const { problems, lines, succeeded, failed } = await new ControllersWorld(seed).run();
    const story = lines.filter((line) => !line.endsWith('world: world'));
    assert.deepEqual(problems, [], `seed ${seed}: ${problems.join('; ')}\n${story.slice(-40).join('\n')}`);
    ends.succeeded += succeeded;
    ends.failed += failed;
  }
  assert.ok(ends.succeeded > count / 2 && ends.failed > count / 2, JSON.stringify(ends));
});
