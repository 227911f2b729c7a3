import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { applyMergePatch } from '../../../src/base/index.ts';

const freeze = <T>(value: T): T => {
  if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) freeze(member);
  return Object.freeze(value);
};

describe('merge patch', () => {
  const table: [unknown, unknown, unknown][] = [
    [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
    [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
    [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
    [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
    [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
    [{ a: 'foo' }, 'bar', 'bar'],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: 'b', c: null }, { a: 'b' }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ];
  for (const [target, patch, expected] of table) {
    test(`${JSON.stringify(target)} with ${JSON.stringify(patch)} (examples of RFC 7396)`, () => {
      assert.deepEqual(applyMergePatch(freeze(target), freeze(patch)), expected);
    });
  }
});
