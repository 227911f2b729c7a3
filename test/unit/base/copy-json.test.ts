import assert from 'node:assert/strict';
import { test } from 'node:test';
import { copyJson } from '../../../src/base/index.ts';

test('a copy of JSON shares nothing with the original and is equal to it', () => {
  const original = { a: [1, 'two', null, { b: true }], c: {}, d: [], e: undefined };
  const copy = copyJson(original);
  assert.deepEqual(copy, original);
  assert.deepEqual(Object.keys(copy), Object.keys(original));
  assert.notEqual(copy.a, original.a);
  assert.notEqual(copy.a[3], original.a[3]);
  assert.notEqual(copy.c, original.c);
});

test('a member named __proto__ is a member of the copy and not its prototype', () => {
  const copy = copyJson(
    JSON.parse('{"labels":{"__proto__":{"polluted":true}}}') as { labels: Record<string, unknown> },
  );
  assert.equal(Object.getPrototypeOf(copy.labels), Object.prototype);
  assert.equal(copy.labels.polluted, undefined);
  assert.equal(JSON.stringify(copy), '{"labels":{"__proto__":{"polluted":true}}}');
});

test('scalars and arrays of arrays are copied as they are', () => {
  assert.equal(copyJson('text'), 'text');
  assert.equal(copyJson(undefined), undefined);
  assert.deepEqual(copyJson([[], [0]]), [[], [0]]);
});
