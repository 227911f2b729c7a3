import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCommand } from '../../../src/console/notices.ts';

test('a wish to take is understood, other kinds are left to newer versions, and the rest is malformed', () => {
  const verdict = (text: string) => parseCommand(Buffer.from(text));
  assert.deepEqual(verdict('{"kind":"take"}'), { kind: 'take' });
  assert.deepEqual(verdict('{"kind":"take","more":[1]}'), { kind: 'take' });
  assert.equal(verdict('{"kind":"wave"}'), 'unknown');
  for (const text of ['', '{', 'null', '[]', '"take"', '{}', '{"kind":1}', '{"__proto__":{"kind":"take"}}', '\u0000']) {
    assert.equal(verdict(text), 'malformed', text);
  }
  assert.equal(parseCommand(Buffer.from([0xff, 0xfe])), 'malformed');
});
