import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide, explainRule, rulesByRoute } from '../../../../../src/agent/vmi/decide/index.ts';
import { asksFor } from '../../../../../src/agent/vmi/guest-agent/index.ts';
import { recordOf } from '../../../../../src/agent/vmi/loop/record.ts';
import {
  domainOf,
  launcherDead,
  observationOf,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';
import { remembered } from '../../../../fixtures/agent/remembered.ts';

test('a record shows all that a reconcile saw, did and failed at, in times that mean something outside', () => {
  const observation = observationOf({
    vmi: presentVmi(vmiOf('Scheduled')),
    domain: { kind: 'gone', uid, proof: 'launcher-says-none', seenMs: 999_000 },
    ghost: { name: 'vm1', namespace: 'default', uid, socketFile: '/s' },
    predecessor: { uid: 'old', domain: launcherDead, launcher: { kind: 'dead', reason: 'ended' } },
    memory: remembered({ synced: { fingerprint: 'f', atMs: 940_000 }, ioRetry: { lastMs: 999_500, waitMs: 10_000 } }),
  });
  const decision = {
    route: 'default',
    rule: 'start-due',
    steps: [
      { step: 'ensureLauncherConnection', uid },
      { step: 'prepareHost', uid },
      { step: 'killDomain', uid },
    ],
    patch: { labels: { a: 'b' }, status: { migrationState: {} } },
  } as const;
  const made = recordOf({
    observation,
    decision,
    outcomes: [
      { step: 'ensureLauncherConnection', outcome: { kind: 'done' }, tookMs: 1.26 },
      {
        step: 'prepareHost',
        outcome: { kind: 'failed', error: { severity: 'retry', code: 'EIO', message: `bad ${'x'.repeat(2000)}` } },
        tookMs: 2,
      },
    ],
  });
  assert.deepEqual(made.seen.vmi, { kind: 'present', phase: 'Scheduled', resourceVersion: '10' });
  assert.deepEqual(made.seen.domain, { kind: 'gone', proof: 'launcher-says-none', ageMs: 1_000 });
  assert.deepEqual(made.seen.predecessor, { uid: 'old', domain: 'gone', launcher: 'dead' });
  assert.equal(made.seen.ghost, uid);
  assert.deepEqual(made.seen.memory, {
    synced: { fingerprint: 'f', atMsAgo: 60_000, endedMsAgo: 60_000 },
    ioRetry: { lastMsAgo: 500, waitMs: 10_000 },
  });
  assert.deepEqual(
    made.steps.map(({ step, outcome, tookMs }) => [step, outcome, tookMs]),
    [
      ['ensureLauncherConnection', 'done', 1.3],
      ['prepareHost', 'failed', 2],
      ['killDomain', 'not-reached', undefined],
    ],
  );
  assert.deepEqual(made.patch, ['label a', 'status.migrationState']);
  assert.ok((made.problem?.length ?? 0) <= 600, 'long words are cut');
  assert.match(made.problem ?? '', /^bad xx/);
});

test('every rule explains itself in one sentence', () => {
  for (const [route, rules] of Object.entries(rulesByRoute)) {
    for (const { name, why } of rules) {
      assert.match(why, /^[A-Z].{20,170}\.$/, `${route}: ${name}`);
      assert.doesNotMatch(why, /\. [A-Z]/, `${route}: ${name} is more than one sentence`);
    }
  }
});

test('a decision finds the sentence of its rule, also of those before and after any route', () => {
  const { route, rule } = decide(observationOf({ domain: seen(domainOf('Running')) }));
  assert.match(explainRule(route, rule), /runs/);
  for (const name of ['vmi-lookup-failed', 'nothing-to-do']) assert.notEqual(explainRule('default', name), '');
  assert.equal(explainRule('default', 'no-such-rule'), '');
});

test('a record names the commands that the agent in the guest lacks; its condition has no room for them', () => {
  const withAgent = (commands: readonly string[]) => {
    const { statusFacts } = observationOf({});
    return observationOf({ statusFacts: { ...statusFacts, guestAgent: { version: '9', commands } } });
  };
  const recordWith = (commands: readonly string[]) => {
    const observation = withAgent(commands);
    return recordOf({ observation, decision: decide(observation), outcomes: [] }).seen.guestAgentLacks;
  };
  const { basic } = asksFor;
  assert.deepEqual(recordWith(basic.slice(1)), basic.slice(0, 1));
  assert.equal(recordWith(basic), undefined);
});
