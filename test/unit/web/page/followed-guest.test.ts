import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FollowedGuest } from '../../../../src/web/page/stream.ts';
import type { VmRow } from '../../../../src/web/rows.ts';

const runs = (uid: string, node = 'a'): VmRow => ({
  namespace: 'default',
  name: 'demo',
  status: 'Running',
  conditions: [],
  createdAt: '2026-01-02T03:00:00Z',
  vmi: { uid, phase: 'Running', paused: false, node },
});

test('a guest is joined anew when it is another one, or came after the end of what the panel showed', () => {
  const followed = new FollowedGuest();
  const kinds = (
    [
      [runs('one'), true],
      [runs('one'), false],
      [runs('two'), true],
      [undefined, false],
      [runs('two'), false],
    ] as const
  ).map(([row, isJoined]) => followed.update(row, isJoined).kind);
  assert.deepEqual(kinds, ['nothing', 'nothing', 'another-guest', 'nothing', 'another-guest']);
});

test('a guest that has moved is followed unless its stream was told before', () => {
  const followed = new FollowedGuest();
  followed.update(runs('one', 'a'), true);
  assert.deepEqual(followed.update(runs('one', 'b'), true), { kind: 'nothing' });
  assert.deepEqual(followed.update(runs('one', 'a'), false), { kind: 'another-node', node: 'a' });
});
