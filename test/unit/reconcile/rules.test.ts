import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decideBy, explainRule, type Rule, ruleTable } from '../../../src/reconcile/index.ts';

interface Plan {
  readonly steps: readonly string[];
}

const rule = (name: string, when: (heat: number) => boolean): Rule<number, Plan> => ({
  name,
  why: `This is ${name}.`,
  when,
  plan: (heat) => ({ steps: [`${name} at ${heat}`] }),
});

const table = ruleTable([rule('hot', (heat) => heat > 30), rule('warm', (heat) => heat > 10)], {
  name: 'cold',
  why: 'This is cold.',
  plan: () => ({ steps: [] }),
});

test('the first rule that matches decides, and the last one decides on all that is left', () => {
  assert.deepEqual(decideBy(table, 40), { rule: 'hot', steps: ['hot at 40'] });
  assert.deepEqual(decideBy(table, 20), { rule: 'warm', steps: ['warm at 20'] });
  assert.deepEqual(decideBy(table, Number.NaN), { rule: 'cold', steps: [] });
});

test('each rule explains itself, also the last one; a rule of another build does not', () => {
  assert.deepEqual(
    ['hot', 'cold', 'tepid'].map((name) => explainRule(table, name)),
    ['This is hot.', 'This is cold.', ''],
  );
  assert.deepEqual(
    table.rules.map(({ name }) => name),
    ['hot', 'warm', 'cold'],
  );
});
