import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextTryText } from '../../../src/web/index.ts';

test('each kind of waiting has its words', () => {
  const waits = { because: 'the last try failed', failuresInARow: 3 };
  assert.equal(
    nextTryText({ state: 'waiting', inMs: 4_000, ...waits }),
    'in 4 s: the last try failed; 3 failures in a row',
  );
  assert.equal(nextTryText({ state: 'idle', because: 'nothing is awaited', failuresInARow: 0 }), 'nothing is awaited');
  assert.match(nextTryText({ state: 'running', forMs: 2_000, ...waits }), /for 2 s; 3 failures in a row$/);
  const once = { state: 'waiting', inMs: 4_000, because: 'b', failuresInARow: 1 } as const;
  assert.equal(nextTryText(once), 'in 4 s: b; 1 failure');
  assert.match(nextTryText({ state: 'queued', because: '', failuresInARow: 0 }), /^now: /);
});
