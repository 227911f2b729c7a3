import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sessionEnd } from '../../../src/console/close.ts';

test('the reasons of an end have their numbers', () => {
  const code = (why: Parameters<typeof sessionEnd>[0]) => sessionEnd(why, '').code;
  assert.deepEqual(
    [code('guestClosed'), code('leaving'), code('internal'), code('takenOver'), code('tooSlow'), code('gone')],
    [1000, 1001, 1011, 4001, 4002, 4003],
  );
});

test('a reason fits a close frame and is whole characters, however long and strange it is', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
      const { reason } = sessionEnd('gone', text);
      assert.ok(Buffer.byteLength(reason) <= 123);
      assert.ok(!reason.includes('\uFFFD') || text.includes('\uFFFD'));
      assert.ok(text === reason || text.startsWith(reason.slice(0, -1)));
    }),
  );
});
