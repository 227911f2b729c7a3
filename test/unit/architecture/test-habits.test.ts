import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { findHabits, type Habit } from '../../fixtures/test-habits.ts';

const instead: Readonly<Record<Habit, string>> = {
  'early-return': 'a run that returns early proves nothing: fc.pre, or inputs that aim at the case',
  'assert-in-if': 'an assertion that may be skipped proves nothing: two cases, or one assertion over both',
  'fixed-sleep': 'wait for what is to happen (eventually, settled), or watch that it does not (stays)',
};

/** How many each has, with the reason; those without one are being mended. The list only gets shorter. */
const known: Readonly<Record<string, number>> = {
  // The program takes two Ctrl-C within a second for one: terminals and npm both pass it on.
  'test/system/node/up.test.ts': 1,
};

const files = readdirSync('test', { recursive: true })
  .map((file) => path.join('test', String(file)))
  .filter((file) => /(\.test|-cases|\/cases)\.ts$/.test(file) && !file.endsWith('test-habits.test.ts'));

test('no test passes without having looked', () => {
  assert.ok(files.length > 200, `only ${files.length} files`);
  const found = files.map((file) => ({ file, habits: findHabits(file, readFileSync(file, 'utf8')) }));
  const news = found.filter(({ file, habits }) => habits.length > (known[file] ?? 0));
  assert.deepEqual(
    news.flatMap(({ file, habits }) => habits.map(({ habit, line }) => `${file}:${line}: ${instead[habit]}`)),
    [],
  );
  const counts = new Map(found.map(({ file, habits }) => [file, habits.length]));
  const mended = Object.entries(known).filter(([file, count]) => (counts.get(file) ?? 0) < count);
  assert.deepEqual(mended, [], 'these have fewer: say so here');
});

const samples: readonly (readonly [habit: Habit | 'none', text: string])[] = [
  ['early-return', 'fc.property(any, (given) => { if (!given) return; assert.ok(given); });'],
  ['early-return', 'fc.asyncProperty(any, async (given) => { if (!given) return true; return given > 0; });'],
  ['none', 'fc.property(any, (given) => { fc.pre(given); const f = () => { return 1; }; return f() > 0; });'],
  ['assert-in-if', 'if (steps) assert.deepEqual(steps, []);'],
  ['assert-in-if', 'for (const name of names) { if (name) { use(name); } else { assert.ok(name); } }'],
  ['none', 'if (kind !== "a") assert.fail("no a");'],
  ['none', 'if (assert.ok(a), b) run(() => { assert.ok(b); });'],
  ['none', 'if (bench) test("a", () => { assert.ok(bench); });'],
  ['fixed-sleep', 'async () => { await sleep(500); };'],
  ['fixed-sleep', 'async () => { await new Promise((resolve) => setTimeout(resolve, 700)); };'],
  ['none', 'async () => { while (!done()) await sleep(20); };'],
  ['none', 'const timer = setTimeout(() => reject(new Error("late")), 500);'],
];
for (const [habit, text] of samples) {
  test(`${habit} is found in ${text}`, () => {
    assert.deepEqual(
      findHabits('sample.ts', text).map((found) => found.habit),
      habit === 'none' ? [] : [habit],
    );
  });
}
