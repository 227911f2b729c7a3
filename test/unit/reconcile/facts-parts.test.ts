import assert from 'node:assert/strict';
import { test } from 'node:test';
import { factsParts } from '../../../src/reconcile/index.ts';

const observation = { key: 'default/lamp', uid: 'uid-1', now: new Date('2026-01-01T00:00:00Z'), isLit: true };
const words = { field: 'lamp', object: 'the lamp', onChange: 'when the lamp changes' };
const parts = factsParts(({ isLit }: typeof observation) => ({ lamp: isLit ? 'lit' : 'dark' }), words);

test('what was observed is kept in the words of its kind, which are log fields, too', () => {
  const decision = { rule: 'as-wished', steps: [{ step: 'look' }], healthy: true };
  const outcomes = [{ step: 'look', outcome: { kind: 'done' as const }, tookMs: 1 }];
  const record = parts.record({ observation, decision, outcomes });
  assert.deepEqual(
    [record.uid, record.rule, record.seen, record.steps],
    ['uid-1', 'as-wished', { lamp: 'lit' }, [{ step: 'look', outcome: 'done', tookMs: 1 }]],
  );
  assert.deepEqual(parts.words.logFields(record.seen), { lamp: 'lit' });
  assert.equal(parts.words.object, 'the lamp');
});

test('a reconcile that failed before it had observed anything has seen nothing', () => {
  assert.deepEqual(parts.seen(undefined), {});
  assert.deepEqual(parts.seen({ ...observation, isLit: false }), { lamp: 'dark' });
});

test('the same facts are the same, whichever object holds them', () => {
  assert.equal(parts.isSameSeen({ lamp: 'lit', room: 'hall' }, { room: 'hall', lamp: 'lit' }), true);
  assert.equal(parts.isSameSeen({ lamp: 'lit' }, { lamp: 'dark' }), false);
  assert.equal(parts.isSameSeen({ lamp: 'lit' }, { lamp: 'lit', room: 'hall' }), false);
});
