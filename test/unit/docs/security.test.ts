import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { citedIn, isTestThere, shownByRows } from './shown-by.ts';

const document = readFileSync('docs/security.md', 'utf8');

const rows = shownByRows(document);

test('every test that the page on security names exists', () => {
  assert.ok(rows.length > 50, `${rows.length} rows`);
  assert.deepEqual(
    rows.flatMap(citedIn).filter((cited) => !isTestThere(cited)),
    [],
  );
});

test('every attack and every advisory of the page on security has a test', () => {
  const without = rows.filter((cells) => citedIn(cells).length === 0);
  assert.deepEqual(without, []);
});

test('every file of the source that the page on security names exists', () => {
  const named = [...document.matchAll(/`((?:src|daemonset|image)\/[^`\s]*)`/g)].map(([, file = '']) => file);
  assert.ok(named.length > 15, `${named.length} files`);
  assert.deepEqual(
    named.filter((file) => !existsSync(file)),
    [],
  );
});

test('each advisory of KubeVirt has one row, in the order of their numbers', () => {
  const ids = rows.flatMap(([first = '']) => (first.startsWith('CVE-') ? [first] : []));
  const inOrder = [...new Set(ids)].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  assert.ok(ids.length >= 22, `${ids.length} advisories`);
  assert.deepEqual(ids, inOrder);
});
