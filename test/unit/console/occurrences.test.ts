import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { occurrences } from '../../../src/console/occurrences.ts';

/** By comparing at each place. */
function simply(pattern: Buffer, text: Buffer, from: number): number[] {
  const places = Array.from({ length: Math.max(0, text.length - from) }, (_, index) => from + index);
  return places.filter((at) => {
    const room = text.subarray(at, at + pattern.length);
    return room.equals(pattern.subarray(0, room.length));
  });
}

test('a pattern is found where it overlaps itself, and where the text ends in it', () => {
  assert.deepEqual(occurrences(Buffer.from('aba'), Buffer.from('ababa-ab'), 0), [0, 2, 6]);
  assert.deepEqual(occurrences(Buffer.from('aba'), Buffer.from('ababa-ab'), 1), [2, 6]);
  assert.deepEqual(occurrences(Buffer.from('aaa'), Buffer.from('aaaa'), 0), [0, 1, 2, 3]);
  assert.deepEqual(occurrences(Buffer.from('abc'), Buffer.from('ab'), 0), [0]);
  assert.deepEqual(occurrences(Buffer.from('a'), Buffer.from('bcd'), 0), []);
  assert.deepEqual(occurrences(Buffer.from('a'), Buffer.from('a'), 2), []);
});

test('it is found where a simple search finds it, in texts of two and three different bytes', () => {
  const bytes = (maxLength: number) =>
    fc.integer({ min: 1, max: 2 }).chain((max) => fc.uint8Array({ min: 0, max, minLength: 1, maxLength }));
  fc.assert(
    fc.property(bytes(9), bytes(60), fc.nat(12), (pattern, text, from) => {
      const [sought, searched] = [Buffer.from(pattern), Buffer.from(text)];
      assert.deepEqual(occurrences(sought, searched, from), simply(sought, searched, from));
    }),
    { numRuns: 2_000 },
  );
});

test('however a text is chosen, each of its bytes is looked at once, and the pattern a few times as often', () => {
  const [patternLength, textLength] = [512, 8_192];
  const lone = Buffer.alloc(patternLength, 'a').fill('b', patternLength / 2, patternLength / 2 + 1);
  const last = Buffer.from(`${'a'.repeat(patternLength - 1)}b`);
  // Each mismatch in a Fibonacci word falls back the most often.
  let [shorter, fibonacci] = ['a', 'ab'];
  while (fibonacci.length < textLength) [shorter, fibonacci] = [fibonacci, fibonacci + shorter];
  const patterns = [lone, last, Buffer.alloc(patternLength, 'a'), Buffer.from(fibonacci.slice(0, patternLength))];
  const texts = [
    Buffer.alloc(textLength, 'a'),
    Buffer.from(fibonacci.slice(0, textLength)),
    Buffer.alloc(textLength, last),
  ];
  for (const pattern of patterns) {
    for (const text of texts) {
      const [sought, searched] = [counted(pattern), counted(text)];
      occurrences(sought.bytes, searched.bytes, 0);
      assert.equal(searched.looks(), textLength);
      assert.ok(sought.looks() <= 4 * (patternLength + textLength), `${sought.looks()} looks`);
    }
  }
});

/** Bytes that count how often one of them is looked at. */
function counted(bytes: Buffer): { readonly bytes: ArrayLike<number>; readonly looks: () => number } {
  let looks = 0;
  const get = (_: Buffer, key: string | symbol): unknown => {
    if (key !== 'length') looks++;
    return Reflect.get(bytes, key);
  };
  return { bytes: new Proxy(bytes, { get }), looks: () => looks };
}
