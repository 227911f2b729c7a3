import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { isTitle } from './test-titles.ts';

const document = readFileSync('docs/security.md', 'utf8');

/** Cells of each row of the tables whose last column names tests. */
const rows = document.split('\n\n').flatMap((block) => {
  const lines = block.split('\n').filter((line) => line.startsWith('|'));
  if (!lines[0]?.endsWith('| Shown by |')) return [];
  return lines.slice(2).map((line) => line.slice(2, -2).split(' | '));
});
const citedIn = (cells: readonly string[]) =>
  [...(cells.at(-1) ?? '').matchAll(/`([^`]+)`/g)].map(([, cited = '']) => cited);
const isThere = (cited: string) => (cited.startsWith('test/') ? existsSync(cited) : isTitle(cited));

test('every test that the page on security names exists', () => {
  assert.ok(rows.length > 50, `${rows.length} rows`);
  assert.deepEqual(
    rows.flatMap(citedIn).filter((cited) => !isThere(cited)),
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
