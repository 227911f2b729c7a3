import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Decision, decide, rulesByRoute } from '../../../../../src/agent/vmi/decide/index.ts';
import { memberAt } from '../../../../../src/base/index.ts';
import { observationOf } from '../../../../fixtures/agent/builders.ts';
import { decentralisedRows } from './rule-rows/decentralised.ts';
import { endingRows } from './rule-rows/ending.ts';
import { handOverRows } from './rule-rows/hand-over.ts';
import { hotPlugRows } from './rule-rows/hot-plug.ts';
import { orphanRows } from './rule-rows/orphan.ts';
import { placementRows } from './rule-rows/placement.ts';
import { runningRows } from './rule-rows/running.ts';
import { sourceRows } from './rule-rows/source.ts';
import { sriovRows } from './rule-rows/sriov.ts';
import { targetRows } from './rule-rows/target.ts';

const table = [
  ...endingRows,
  ...runningRows,
  ...placementRows,
  ...sriovRows,
  ...hotPlugRows,
  ...sourceRows,
  ...handOverRows,
  ...targetRows,
  ...orphanRows,
  ...decentralisedRows,
];

for (const { rule, when, given, expect } of table) {
  test(`${rule}: ${when}`, () => {
    const decision = decide(observationOf(given));
    assert.equal(decision.rule, rule);
    const seen = { ...decision, steps: decision.steps.map(({ step }) => step) };
    for (const [name, value] of Object.entries(expect)) assert.deepEqual(seen[name as keyof Decision], value, name);
  });
}

/** What each failure says to virt-controller, which tries a loss again. */
test('of the failures that are written, these are refusals: another try would end in the same way', () => {
  const failures = table.flatMap(({ rule, when, given }) => {
    const { patch } = decide(observationOf(given));
    const isFailure = memberAt(patch?.status, 'migrationState', 'failed') === true;
    const mark = patch?.annotations?.['virt-handler.kubevirt.io/migration-refused'];
    return isFailure ? [[`${rule}: ${when}`, mark] as const] : [];
  });
  const [refusals, losses] = [true, false].map((is) =>
    failures.filter(([, mark]) => (mark === 'm1') === is).map(([failure]) => failure),
  );
  assert.deepEqual(refusals, [
    'migration-refused-here: this build has no migrationProxies',
    'migration-refused-by-launcher: the launcher said no',
    'migration-ports-unusable: a port is none',
    'migration-over-denied: the launcher says it is done and shows the guest running a minute later',
    'target-refused: this node carries no migrations',
    'target-given-up: the launcher has refused for 20 seconds',
  ]);
  for (const loss of [
    'migration-failed: the launcher gave up',
    'migration-refused-here: this agent is leaving and nothing was begun',
    'migration-start-given-up: every try failed for five minutes',
    'migration-lost: ',
    'target-refused: this agent is leaving and has prepared nothing',
    'target-given-up: nothing has worked for three minutes',
  ]) {
    assert.ok(
      losses?.some((each) => each.startsWith(loss)),
      `${loss}: ${losses?.join('; ')}`,
    );
  }
});

test('every rule has a row in the table, so that none is without a test', () => {
  const names = Object.values(rulesByRoute).flatMap((rules) => rules.map(({ name }) => name));
  const tested = new Set(table.map(({ rule }) => rule));
  assert.deepEqual(
    [...new Set(names)].filter((name) => !tested.has(name)),
    [],
  );
});
