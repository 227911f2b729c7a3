import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { mutations } from '../../simulator/mutations.ts';

/** The simulator applies these an hour into a run; that a line has got new words is said here within seconds. */
test('each mutation of the simulator changes a line that is there, once', () => {
  assert.ok(mutations.length > 20, `only ${mutations.length} mutations`);
  const astray = mutations.flatMap(({ name, file, find }) => {
    const times = readFileSync(file, 'utf8').split(find).length - 1;
    return times === 1 ? [] : [`${name}: ${file} has ${times} times: ${find}`];
  });
  assert.deepEqual(astray, []);
});
