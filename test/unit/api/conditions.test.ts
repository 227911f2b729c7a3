import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Condition,
  findCondition,
  isSameCondition,
  transitionTime,
  withCondition,
  withoutCondition,
} from '../../../src/api/index.ts';

const before = '2026-01-01T00:00:00Z';
const now = '2026-01-02T00:00:00Z';
const ready: Condition = { type: 'Ready', status: 'True', reason: 'Up', lastTransitionTime: before };
const paused: Condition = { type: 'Paused', status: 'False', lastTransitionTime: before };

test('a condition that says the same is left as it is, with its times', () => {
  const made = withCondition([ready, paused], { type: 'Ready', status: 'True', reason: 'Up', message: '' }, now);
  assert.deepEqual(made, [ready, paused]);
  assert.equal(made[0], ready);
});

test('a condition that says something else stays in its place; its transition is that of the status', () => {
  const [first, second] = withCondition([ready, paused], { type: 'Ready', status: 'True', reason: 'Better' }, now);
  assert.deepEqual(first, {
    type: 'Ready',
    status: 'True',
    reason: 'Better',
    lastProbeTime: now,
    lastTransitionTime: before,
  });
  assert.equal(second, paused);
  const [changed] = withCondition([ready], { type: 'Ready', status: 'False' }, now);
  assert.deepEqual(changed, { type: 'Ready', status: 'False', lastProbeTime: now, lastTransitionTime: now });
});

test('a new condition comes last, and none of its type is left after it was taken out', () => {
  const both = withCondition([ready], { type: 'Paused', status: 'True' }, now);
  assert.deepEqual(
    both.map(({ type, lastTransitionTime }) => [type, lastTransitionTime]),
    [
      ['Ready', before],
      ['Paused', now],
    ],
  );
  assert.deepEqual(withoutCondition(both, 'Paused'), [ready]);
  assert.deepEqual(withoutCondition([ready], 'Paused'), [ready]);
});

test('absent and empty texts are one, times do not count', () => {
  assert.ok(isSameCondition(paused, { type: 'Paused', status: 'False', reason: '', message: '' }));
  assert.ok(!isSameCondition(paused, { type: 'Paused', status: 'Unknown' }));
  assert.ok(!isSameCondition(ready, { type: 'Ready', status: 'True' }));
  assert.ok(!isSameCondition(paused, { type: 'Paused', status: 'False', message: 'x' }));
});

test('a transition without a time, or of another status, is now', () => {
  assert.equal(transitionTime(ready, 'True', now), before);
  assert.equal(transitionTime(ready, 'False', now), now);
  assert.equal(transitionTime({ ...ready, lastTransitionTime: null }, 'True', now), now);
  assert.equal(transitionTime(undefined, 'True', now), now);
});

test('what is no condition is passed over: a CRD lets anything stand there', () => {
  const odd = [null, 'x', ready] as unknown as Condition[];
  assert.equal(findCondition(odd, 'Ready'), ready);
  assert.equal(findCondition({ type: 'Ready' } as unknown as Condition[], 'Ready'), undefined);
  assert.deepEqual(withoutCondition(odd, 'Ready'), [null, 'x']);
});
