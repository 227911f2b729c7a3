import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { copyJson, shareParts } from '../../../src/base/index.ts';

test('parts that are equal become those of the other value, and the others stay', () => {
  const like = {
    kind: 'Pod',
    labels: { app: 'a' },
    spec: { image: 'i', env: [{ name: 'A', value: '1' }, { name: 'B' }] },
  };
  const value = {
    kind: 'Pod',
    labels: { app: 'b' },
    spec: { image: 'i', env: [{ name: 'A', value: '1' }, { name: 'C' }] },
  };
  const wanted = copyJson(value);
  const shared = shareParts(value, like);
  assert.equal(shared, value);
  assert.deepEqual(shared, wanted);
  assert.equal(shared.spec.env[0], like.spec.env[0]);
  assert.notEqual(shared.spec.env[1], like.spec.env[1]);
  assert.notEqual(shared.labels, like.labels);
});

test('of a value that is equal as a whole nothing is kept', () => {
  const like = { a: [1, { b: null }], c: 'text' };
  assert.equal(shareParts(copyJson(like), like), like);
  assert.notEqual(shareParts(copyJson(like), { ...like, d: 1 }), like);
});

test('a list is no object with the same members, and a missing member no null', () => {
  const value = { list: ['a'], empty: [], gone: null };
  assert.deepEqual(shareParts(copyJson(value), { list: { 0: 'a' }, empty: {} }), value);
});

test('names that every object has are members like others', () => {
  const text = '{"__proto__":{"polluted":true},"constructor":"x","hasOwnProperty":{"a":1}}';
  const shared = shareParts(JSON.parse(text), JSON.parse(text));
  assert.equal(JSON.stringify(shared), text);
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  assert.equal(JSON.stringify(shareParts(JSON.parse('{"toString":null}'), {})), '{"toString":null}');
});

test('what is nested without end is kept as it is', () => {
  const deep = (): unknown => JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`);
  const value = deep();
  assert.equal(shareParts(value, deep()), value);
});

test('whatever it is compared with, a value says what it said, and so does the other one', () => {
  const json = fc.jsonValue({ maxDepth: 4 });
  fc.assert(
    fc.property(json, json, fc.boolean(), (one, two, isNear) => {
      const like = isNear ? { a: one, b: [two], c: two } : two;
      const value = isNear ? { a: one, b: [two, one], c: one } : one;
      const [valueText, likeText] = [JSON.stringify(value), JSON.stringify(like)];
      const given = JSON.parse(valueText);
      const kept = JSON.parse(likeText);
      assert.deepEqual(shareParts(given, kept), JSON.parse(valueText));
      assert.equal(JSON.stringify(kept), likeText);
    }),
  );
});
