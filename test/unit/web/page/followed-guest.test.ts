import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FollowedGuest } from '../../../../src/web/page/stream.ts';
import type { VmRow } from '../../../../src/web/rows.ts';

const runs = (uid: string): VmRow => ({
  namespace: 'default',
  name: 'demo',
  status: 'Running',
  conditions: [],
  createdAt: '2026-01-02T03:00:00Z',
  vmi: { uid, phase: 'Running', paused: false },
});

test('a guest is joined anew when it is another one, or came after the end of what the panel showed', () => {
  const followed = new FollowedGuest();
  assert.equal(followed.update(runs('one'), true), false);
  assert.equal(followed.update(runs('one'), false), false);
  assert.equal(followed.update(runs('two'), true), true);
  assert.equal(followed.update(undefined, false), false);
  assert.equal(followed.update(runs('two'), false), true);
});
