import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { sameJson } from '../../../src/base/index.ts';

describe('equality of JSON data', () => {
  const table: [unknown, unknown, boolean][] = [
    [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
    [{ a: undefined }, {}, true],
    [{}, { a: undefined, b: undefined }, true],
    [{ a: undefined }, { b: 1 }, false],
    [{ a: null }, {}, false],
    [{ a: [1, 2] }, { a: [2, 1] }, false],
    [[1], [1, 2], false],
    [[], {}, false],
    [{ 0: 'a' }, ['a'], false],
    [null, {}, false],
    [1, '1', false],
    [{ constructor: Object }, {}, false],
    [{ b: 1 }, { toString: Object.prototype.toString }, false],
  ];
  for (const [a, b, expected] of table) {
    test(`${JSON.stringify(a)} and ${JSON.stringify(b)}: ${expected}`, () => {
      assert.equal(sameJson(a, b), expected);
      assert.equal(sameJson(b, a), expected);
    });
  }

  test('is that of the assertion library for what JSON can say', () => {
    const value = fc.jsonValue({ maxDepth: 3 }).map((given) => JSON.parse(JSON.stringify(given)));
    fc.assert(
      fc.property(value, value, (a, b) => {
        assert.equal(sameJson(a, b), isDeepStrictEqual(a, b));
        assert.ok(sameJson(a, structuredClone(a)));
      }),
    );
  });

  test('tells what it is about to look at, and ends when that is refused', () => {
    let looked = 0;
    sameJson({ a: [1, 2], b: 3 }, { a: [1, 2], b: 4 }, (values) => {
      looked += values;
    });
    assert.equal(looked, 9);
    const refuse = () => {
      throw new Error('too much');
    };
    assert.throws(() => sameJson({}, {}, refuse), /too much/);
  });
});
