import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Decision, decide, rulesByRoute } from '../../../../../src/agent/vmi/decide/index.ts';
import { observationOf } from '../../../../fixtures/agent/builders.ts';
import { endingRows } from './rule-rows/ending.ts';
import { handOverRows } from './rule-rows/hand-over.ts';
import { hotPlugRows } from './rule-rows/hot-plug.ts';
import { orphanRows } from './rule-rows/orphan.ts';
import { placementRows } from './rule-rows/placement.ts';
import { runningRows } from './rule-rows/running.ts';
import { sourceRows } from './rule-rows/source.ts';
import { targetRows } from './rule-rows/target.ts';

const table = [
  ...endingRows,
  ...runningRows,
  ...placementRows,
  ...hotPlugRows,
  ...sourceRows,
  ...handOverRows,
  ...targetRows,
  ...orphanRows,
];

for (const { rule, when, given, expect } of table) {
  test(`${rule}: ${when}`, () => {
    const decision = decide(observationOf(given));
    assert.equal(decision.rule, rule);
    const seen = { ...decision, steps: decision.steps.map(({ step }) => step) };
    for (const [name, value] of Object.entries(expect)) assert.deepEqual(seen[name as keyof Decision], value, name);
  });
}

test('every rule has a row in the table, so that none is without a test', () => {
  const names = Object.values(rulesByRoute).flatMap((rules) => rules.map(({ name }) => name));
  const tested = new Set(table.map(({ rule }) => rule));
  assert.deepEqual(
    [...new Set(names)].filter((name) => !tested.has(name)),
    [],
  );
});
