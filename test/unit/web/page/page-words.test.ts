import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileSize } from '../../../../src/web/file-size.ts';
import { retryAfterMs } from '../../../../src/web/page/backoff.ts';
import { agentHref, parseRoute, vmHref, vmTabs } from '../../../../src/web/page/route.ts';
import { age, ago, count, spaced } from '../../../../src/web/page/words.ts';

test('every side of a VM has an address that leads back to it', () => {
  const vm = { namespace: 'default', name: 'web.1' };
  for (const tab of vmTabs) assert.deepEqual(parseRoute(vmHref(vm, tab)), { view: 'vm', tab, ...vm });
  assert.deepEqual(parseRoute('#/agent'), { view: 'agent' });
  assert.deepEqual(parseRoute(agentHref('laptop-2.lan')), { view: 'agent', node: 'laptop-2.lan' });
});

test('what is no address of the page is the list', () => {
  const strange = [
    '',
    '#',
    '#/',
    '#/vm',
    '#/vm/default',
    '#/vm/a/b/nothing',
    '#/vm/a/b/why/more',
    '#/agent/x/y',
    '#/%zz',
    '#main',
  ];
  for (const hash of strange) assert.deepEqual(parseRoute(hash), { view: 'list' }, hash);
});

test('a clock that is behind, and no time at all, give no nonsense', () => {
  const now = Date.parse('2026-01-02T03:00:00Z');
  assert.equal(ago('2026-01-02T02:59:00Z', now), '60 s ago');
  assert.equal(ago('2026-01-02T03:00:10Z', now), 'now');
  assert.equal(age('2026-01-02T03:00:10Z', now), '1 s');
  assert.deepEqual([ago('', now), age('', now)], ['', '']);
});

test('counts, sizes and condition names are readable', () => {
  assert.deepEqual([count(1, 'byte'), count(0, 'byte'), count(2, 'byte')], ['1 byte', '0 bytes', '2 bytes']);
  assert.deepEqual([0, 1023, 1536, 2 ** 30 * 20].map(fileSize), ['0 B', '1023 B', '1.5 KiB', '20 GiB']);
  assert.deepEqual(['GuestNotRunning', 'ErrorPVCNotFound'].map(spaced), ['guest not running', 'error pvc not found']);
});

test('tries come later and later, up to ten seconds, never at once', () => {
  assert.deepEqual(
    [0, 1, 2, 5, 100].map((failures) => retryAfterMs(failures, 1)),
    [500, 1000, 2000, 10_000, 10_000],
  );
  assert.deepEqual(
    [0, 100].map((failures) => retryAfterMs(failures, 0)),
    [375, 7500],
  );
});
