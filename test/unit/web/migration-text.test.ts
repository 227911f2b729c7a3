import assert from 'node:assert/strict';
import { test } from 'node:test';
import { migrationText, movedText, progressText } from '../../../src/web/migration-text.ts';

const mebibyte = 2 ** 20;

test('a guest on its way in words: before anything moves, while it moves, and what is not known is left out', () => {
  assert.equal(progressText({ mode: 'PreCopy', bytesPerSecond: 0 }), 'its memory is copied while it runs');
  const moving = { processedBytes: 120 * mebibyte, remainingBytes: 30 * mebibyte, bytesPerSecond: 15 * mebibyte };
  assert.equal(
    progressText({ mode: 'PostCopy', ...moving, leftSeconds: 2 }),
    'it runs at the target already and fetches what is missing; 120 MiB sent, 30 MiB to go, 15 MiB/s, about 2 s left',
  );
  assert.equal(progressText({ mode: 'NextCopy', bytesPerSecond: mebibyte }), 'NextCopy; 1.0 MiB/s');
});

test('the streams of a node: way, ports and what they carried', () => {
  assert.equal(
    migrationText({
      ...{ direction: 'in', peer: 'a', migration: 'm1', mode: 'PreCopy', ports: { '40001': 0, '40002': 49_152 } },
      ...{ streams: 2, bytes: 3 * mebibyte, bytesPerSecond: mebibyte },
    }),
    'from a: its memory is copied while it runs; 1.0 MiB/s; 2 streams on port 40001, 40002, 3.0 MiB carried',
  );
});

test('where a VMI went: the node, when, and by which migration where that is known', () => {
  const moved = { node: 'b', at: '2026-01-02T03:04:05Z' };
  assert.equal(movedText(moved), 'moved to node b at 2026-01-02T03:04:05Z');
  assert.equal(movedText({ ...moved, migration: 'm1' }), 'moved to node b at 2026-01-02T03:04:05Z by migration m1');
});
