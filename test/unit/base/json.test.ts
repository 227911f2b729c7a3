import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRecord, jsonRecord, listOf, memberAt, shortened } from '../../../src/base/index.ts';

test('a record is an object with named members, and no list, text or null', () => {
  for (const value of [{}, { a: 1 }, Object.create(null)]) assert.equal(isRecord(value), true);
  for (const value of [undefined, null, [], [{}], 'a', 1, true]) assert.equal(isRecord(value), false, String(value));
});

test('a member is found at the end of its path, and absent where a holder is no object or it is null', () => {
  const value = { a: { b: { c: 0 } }, list: [{ c: 1 }], text: 'abc', none: null };
  assert.equal(memberAt(value, 'a', 'b', 'c'), 0);
  assert.equal(memberAt(value), value);
  for (const path of [
    ['b'],
    ['a', 'x', 'c'],
    ['list', 'c'],
    ['list', 'length'],
    ['text', 'length'],
    ['none'],
    ['none', 'c'],
  ]) {
    assert.equal(memberAt(value, ...path), undefined, path.join('.'));
  }
  for (const holder of [undefined, null, 'a', 7, [1]]) assert.equal(memberAt(holder, '0'), undefined, String(holder));
});

test('a list is itself, and anything else is none', () => {
  const list = [1];
  assert.equal(listOf(list), list);
  for (const value of [undefined, null, {}, { length: 1 }, 'ab']) assert.deepEqual(listOf(value), [], String(value));
});

test('a text that is too long ends within its limit, and says that it was cut', () => {
  assert.equal(shortened('12345', 5), '12345');
  assert.equal(shortened('123456', 5), '1234…');
  assert.equal(shortened('', 5), '');
});

test('a text that is a JSON object is that object; anything else is none', () => {
  assert.deepEqual(jsonRecord('{"a":1}'), { a: 1 });
  for (const text of ['', 'null', '[]', '"text"', '1', '{', '{"a":1}}'])
    assert.equal(jsonRecord(text), undefined, text);
});
