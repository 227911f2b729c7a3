import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Scrollback } from '../../../src/console/scrollback.ts';

for (const limitBytes of [1, 1000, 10_007, 16_384]) {
  test(`a scrollback of ${limitBytes} bytes gives back the last of all that was appended, whatever the sizes`, () => {
    const sizes = fc.array(fc.oneof(fc.nat(50), fc.nat(5000), fc.nat(40_000)), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(sizes, fc.nat(), (chunkSizes, place) => {
        const scrollback = new Scrollback(limitBytes);
        let all = Buffer.alloc(0);
        for (const size of chunkSizes) {
          const chunk = Buffer.from(Array.from({ length: size }, (_, at) => (all.length + at) * 31));
          all = Buffer.concat([all, chunk]);
          scrollback.append(chunk);
          assert.equal(scrollback.end, all.length);
          assert.equal(scrollback.start, Math.max(0, all.length - limitBytes));
          const from = scrollback.start + (place % (scrollback.end - scrollback.start + 1));
          assert.deepEqual(scrollback.read(from, limitBytes), all.subarray(from));
          assert.deepEqual(scrollback.read(from, 7), all.subarray(from, from + 7));
        }
      }),
      { numRuns: 60 },
    );
  });
}

test('what was read does not change when the ring goes round', () => {
  const limitBytes = 16_384;
  const scrollback = new Scrollback(limitBytes);
  scrollback.append(Buffer.alloc(limitBytes, 'a'));
  const piece = scrollback.read(0, limitBytes);
  scrollback.append(Buffer.alloc(limitBytes, 'b'));
  assert.deepEqual(piece, Buffer.alloc(limitBytes, 'a'));
});

test('nothing appended is nothing to read', () => {
  const scrollback = new Scrollback(16_384);
  scrollback.append(Buffer.alloc(0));
  assert.equal(scrollback.read(0, 100).length, 0);
  assert.deepEqual([scrollback.start, scrollback.end], [0, 0]);
});
