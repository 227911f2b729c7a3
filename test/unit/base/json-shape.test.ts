import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type JsonShape, shapedJson } from '../../../src/base/index.ts';

const shape: JsonShape = {
  members: {
    name: 'string',
    size: 'number',
    on: 'boolean',
    any: 'object',
    amount: 'string or number',
    tags: { list: 'string' },
    notes: { map: 'string' },
    inner: { members: { name: 'string' }, required: ['name'] },
  },
  required: ['name'],
};

const shaped = (value: unknown) => shapedJson(value, shape, 'it', (path, problem) => new Error(`${path} ${problem}`));

test('what fits is given back, members of no name in the shape with it', () => {
  const value = {
    name: 'a',
    size: 1,
    on: false,
    any: { b: [null] },
    amount: '64Mi',
    tags: ['x'],
    notes: { y: 'z' },
    inner: { name: 'i', other: 7 },
    other: [null, {}],
  };
  assert.deepEqual(shaped(value), value);
});

test('a named member that is null is one that is not there; the value itself is left alone', () => {
  const value = { name: 'a', size: null, inner: { name: 'i', other: null }, notes: { y: null }, other: null };
  assert.deepEqual(shaped(value), { name: 'a', inner: { name: 'i', other: null }, notes: {}, other: null });
  assert.equal(value.size, null);
});

for (const [value, message] of [
  [7, 'it must be an object'],
  [[], 'it must be an object'],
  [{}, 'it.name is missing'],
  [{ name: null }, 'it.name is missing'],
  [{ name: 1 }, 'it.name must be a string'],
  [{ name: 'a', size: '1' }, 'it.size must be a number'],
  [{ name: 'a', size: Number.POSITIVE_INFINITY }, 'it.size must be a number'],
  [{ name: 'a', on: 'yes' }, 'it.on must be true or false'],
  [{ name: 'a', any: [] }, 'it.any must be an object'],
  [{ name: 'a', amount: {} }, 'it.amount must be a string or a number'],
  [{ name: 'a', tags: 'x' }, 'it.tags must be a list'],
  [{ name: 'a', tags: ['x', null] }, 'it.tags[1] must be a string'],
  [{ name: 'a', tags: Array(1025).fill('x') }, 'it.tags has 1025 items, 1024 are possible'],
  [{ name: 'a', notes: { y: 1 } }, 'it.notes.y must be a string'],
  [{ name: 'a', inner: {} }, 'it.inner.name is missing'],
] as const) {
  test(`${JSON.stringify(value).slice(0, 40)}: ${message}`, () => {
    assert.throws(() => shaped(value), { message });
  });
}

test('names that every object has are no members of the shape, and __proto__ reaches nothing', () => {
  const value: unknown = JSON.parse('{"name":"a","toString":1,"__proto__":{"size":"x"}}');
  const result = shaped(value);
  assert.equal(JSON.stringify(result), JSON.stringify(value));
  assert.equal(Object.getPrototypeOf(result), Object.prototype);
});
