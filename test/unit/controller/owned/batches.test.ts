import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inBatches, together } from '../../../../src/controller/owned/index.ts';

const numbers = Array.from({ length: 30 }, (_, index) => index);

/** Acts that end one after the other; `fails` with their number. */
function acts(fails: readonly number[] = []) {
  const done: number[] = [];
  const under = { way: 0, most: 0 };
  const act = async (number: number) => {
    under.most = Math.max(under.most, ++under.way);
    await new Promise((resolve) => setImmediate(resolve));
    under.way--;
    done.push(number);
    if (fails.includes(number)) throw new Error(`${number}`);
  };
  return { act, done, under };
}

test('all are done, no more than eight side by side, also after an error', async () => {
  const { act, done, under } = acts([3, 5]);
  assert.equal(String(await together(numbers, act)), 'Error: 3');
  assert.deepEqual([done.length, under.most], [30, 8]);
});

test('batches grow, and end with one that has an error', async () => {
  const { act, done, under } = acts([8]);
  assert.equal(String(await inBatches(numbers, act)), 'Error: 8');
  assert.deepEqual([done.length, under.most], [1 + 2 + 4 + 8, 8]);
  const all = acts();
  assert.equal(await inBatches(numbers, all.act), undefined);
  assert.deepEqual(all.done.length, 30);
});
