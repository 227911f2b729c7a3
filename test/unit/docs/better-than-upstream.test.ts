import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { rulesByRoute } from '../../../src/agent/decide/index.ts';

const document = readFileSync('docs/better-than-upstream.md', 'utf8');

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => path.join(entry.parentPath, entry.name));
}

const titlePattern = /\b(?:test|it|describe)\(\s*(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`)/g;

/** Titles as they stand in the source. */
const titles = filesBelow('test').flatMap((file) =>
  [...readFileSync(file, 'utf8').matchAll(titlePattern)].map(([, single, double, template]) =>
    (single ?? double ?? template ?? '').replaceAll("\\'", "'"),
  ),
);

/** A title with parts that are computed is cited by its beginning. */
const isTitle = (cited: string) =>
  titles.some((title) => title === cited || title.startsWith(`${cited} \${`) || title.startsWith(`${cited}\${`));

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
  const source = filesBelow('test/unit/agent/decide/rule-rows')
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
  const names = new Set(Object.values(rulesByRoute).flatMap((rules) => rules.map(({ name }) => name)));
  assert.ok(names.size > 50, `${names.size} rules`);
  assert.deepEqual(
    [...names].filter((name) => !source.includes(`rule: '${name}'`)),
    [],
  );
});
