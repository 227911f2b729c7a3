import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { rulesByRoute } from '../../../src/agent/vmi/decide/index.ts';
import { filesBelow, isTitle, titles } from './test-titles.ts';

const document = readFileSync('docs/better-than-upstream.md', 'utf8');

/** Rows of the tables: the cells of each, without heads and lines. */
const rows = document
  .split('\n')
  .filter((line) => line.startsWith('| ') && !/^\| (Upstream|What|#|Fault) \|/.test(line))
  .map((line) => line.slice(2, -2).split(' | '));

test('every test that the note on upstream cites exists', () => {
  const cited = rows.flatMap((cells) =>
    [...(cells.at(-1) ?? '').matchAll(/`([^`]+)`/g)].map(([, title = '']) => title),
  );
  assert.ok(cited.length > 60, `${cited.length} found`);
  assert.deepEqual(
    cited.filter((title) => !isTitle(title)),
    [],
  );
});

test('every row of the note on upstream has a test, or says what is not built', () => {
  const without = rows.filter((cells) => !/^`.+`$/.test(cells.at(-1) ?? '') && !cells.join().includes('*not built*'));
  assert.deepEqual(without, []);
});

test('each of upstream’s faults has a test named after it', () => {
  const faults = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
  const hasTest = (fault: number) => titles.some((title) => new RegExp(`fault ${fault}\\b`).test(title));
  assert.deepEqual(
    faults.filter((fault) => !hasTest(fault)),
    [],
  );
});

test('each rule is the title of a test', () => {
  const source = filesBelow('test/unit/agent/vmi/decide/rule-rows')
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
  const names = new Set(Object.values(rulesByRoute).flatMap((rules) => rules.map(({ name }) => name)));
  assert.ok(names.size > 50, `${names.size} rules`);
  assert.deepEqual(
    [...names].filter((name) => !source.includes(`rule: '${name}'`)),
    [],
  );
});
