import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { citedIn, isTestThere, shownByRows } from './shown-by.ts';
import { titles } from './test-titles.ts';

const rows = shownByRows(readFileSync('docs/migration-pitfalls.md', 'utf8'));

test('each of the fifteen pitfalls of migrations has a row, and tests that exist', () => {
  const numbers = rows.map(([number]) => Number(number));
  assert.deepEqual(
    numbers,
    Array.from({ length: 15 }, (_, index) => index + 1),
  );
  assert.deepEqual(
    rows.filter((cells) => citedIn(cells).length === 0 || citedIn(cells).some((cited) => !isTestThere(cited))),
    [],
  );
});

test('each test that is named after a pitfall is in its row', () => {
  const named = titles.flatMap((title) => {
    const [, number] = /^pitfall (\d+):/.exec(title) ?? [];
    return number === undefined ? [] : [{ title, number }];
  });
  assert.ok(named.length > 12, `${named.length} tests`);
  assert.deepEqual(
    named.filter(({ title, number }) => !citedIn(rows[Number(number) - 1] ?? []).includes(title)),
    [],
  );
});
