import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { sourcesInBundles } from '../../../scripts/bundle.mjs';
import { mask, unmask } from '../../../src/console/frame-masks.ts';

const key = fc.uint8Array({ minLength: 4, maxLength: 4 });
/** Around the length from which words are taken, at any place in memory. */
const payload = fc.tuple(fc.uint8Array({ maxLength: 700, size: 'max' }), fc.nat(8));

const expected = (bytes: Uint8Array, by: Uint8Array) =>
  Uint8Array.from(bytes, (byte, index) => byte ^ (by[index % 4] ?? 0));

describe('masks of frames', () => {
  it('are taken off in place, wherever a payload lies, and nothing beside it changes', () => {
    fc.assert(
      fc.property(payload, key, ([bytes, before], by) => {
        const memory = new Uint8Array(before + bytes.length + 8).fill(0xa5);
        memory.set(bytes, before);
        unmask(memory.subarray(before, before + bytes.length), by);
        const wanted = new Uint8Array(memory.length).fill(0xa5);
        wanted.set(expected(bytes, by), before);
        assert.deepEqual(memory, wanted);
      }),
    );
  });

  it('are put on on the way to another buffer, and in place', () => {
    fc.assert(
      fc.property(payload, key, ([bytes, offset], by) => {
        const output = new Uint8Array(offset + bytes.length);
        mask(bytes, by, output, offset, bytes.length);
        assert.deepEqual(output.subarray(offset), expected(bytes, by));
        const same = Uint8Array.from(bytes);
        mask(same, by, same, 0, same.length);
        assert.deepEqual(same, expected(bytes, by));
      }),
    );
  });

  it('are those that the library uses in a bundle', async () => {
    const sources = await sourcesInBundles(['src/console/index.ts']);
    assert.ok(sources.includes('node_modules/ws/lib/buffer-util.js'));
    assert.ok(sources.includes('src/console/frame-masks.ts'));
  });
});
