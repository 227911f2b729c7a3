import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { joinedPast } from '../../../src/console/past.ts';
import { Scrollback } from '../../../src/console/scrollback.ts';

const past = (line: string, text: string, end = text.length) => ({ line, end, bytes: Buffer.from(text) });

/** What a client sees of the log and of the first chunk that comes. */
function seen(before: ReturnType<typeof past> | undefined, after: ReturnType<typeof past>, chunk: string): string {
  const joined = joinedPast(before, after);
  return after.bytes.toString() + joined?.overlap.cut(Buffer.from(chunk)).toString();
}

test('what the guest wrote while its console was connected to is shown once', () => {
  assert.equal(seen(past('l', 'boot '), past('l', 'boot login'), 'login: '), 'boot login: ');
  assert.equal(seen(past('l', 'boot '), past('l', 'boot log'), 'in: '), 'boot login: ');
  assert.equal(seen(undefined, past('l', 'login'), 'login: '), 'login: ');
  assert.equal(seen(past('other', 'boot login'), past('l', 'login'), 'gin: '), 'login: ');
});

test('what the guest writes anew is shown, however alike it is', () => {
  assert.equal(seen(past('l', 'a\n'), past('l', 'a\n'), 'a\n'), 'a\na\n');
  assert.equal(seen(past('l', 'xx'), past('l', 'xxx'), 'xxxx'), 'xxxxxx');
  const joined = joinedPast(past('l', ''), past('l', 'ab'));
  assert.equal(joined?.overlap.cut(Buffer.from('ab')).toString(), '');
  assert.equal(joined?.overlap.cut(Buffer.from('ab')).toString(), 'ab', 'of the first chunk alone');
  assert.equal(joinedPast(past('l', 'ab'), undefined), undefined);
});

test('a scrollback that begins later finds its bytes by the offsets of the whole line', () => {
  fc.assert(
    fc.property(fc.nat(5_000), fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 30 }), (from, lengths) => {
      const scrollback = new Scrollback(64, from);
      let all = Buffer.alloc(0);
      for (const length of lengths) {
        const chunk = Buffer.from(Array.from({ length }, (_, index) => (all.length + index) % 251));
        scrollback.append(chunk);
        all = Buffer.concat([all, chunk]);
      }
      assert.equal(scrollback.end, from + all.length);
      assert.equal(scrollback.start, from + Math.max(0, all.length - 64));
      assert.deepEqual(scrollback.read(scrollback.start, 1_000), all.subarray(-64));
    }),
  );
});
