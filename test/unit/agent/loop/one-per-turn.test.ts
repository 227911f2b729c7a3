import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { OnePerTurn } from '../../../../src/agent/loop/one-per-turn.ts';

/** Turns that are taken by hand. */
function stage(count: number) {
  const turns: (() => void)[] = [];
  const gate = new OnePerTurn((callback) => turns.push(callback));
  const inside: number[] = [];
  const enter = (number: number) => void gate.enter().then(() => inside.push(number));
  for (let number = 0; number < count; number++) enter(number);
  const turn = async () => {
    turns.shift()?.();
    await settled();
  };
  return { inside, enter, turn, turns };
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

suite('one per turn', () => {
  test('the first goes in at once, the others one per turn in the order in which they came', async () => {
    const { inside, turn } = stage(3);
    await settled();
    assert.deepEqual(inside, [0]);
    await turn();
    assert.deepEqual(inside, [0, 1]);
    await turn();
    assert.deepEqual(inside, [0, 1, 2]);
  });

  test('whoever comes late goes in last', async () => {
    const { inside, enter, turn } = stage(3);
    await turn();
    enter(3);
    await turn();
    await turn();
    assert.deepEqual(inside, [0, 1, 2, 3]);
  });

  test('when nobody waits no turn is asked for, and the next goes in at once', async () => {
    const { inside, enter, turn, turns } = stage(1);
    await turn();
    assert.deepEqual(turns, []);
    enter(1);
    await settled();
    assert.deepEqual(inside, [0, 1]);
  });
});
