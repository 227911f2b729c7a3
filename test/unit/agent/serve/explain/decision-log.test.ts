import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DecisionLog, type DecisionRecord, recordOf } from '../../../../../src/agent/serve/explain/index.ts';
import { decide, explainRule, rulesByRoute } from '../../../../../src/agent/vmi/decide/index.ts';
import {
  domainOf,
  launcherDead,
  observationOf,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';

const now = (second: number) => new Date(Date.UTC(2026, 0, 2, 3, 0, second));

function record(rule: string, more: Partial<DecisionRecord> = {}): DecisionRecord {
  return {
    firstAt: now(0).toISOString(),
    lastAt: now(0).toISOString(),
    times: 1,
    uid,
    route: 'default',
    rule,
    seen: {
      vmi: { kind: 'present', phase: 'Running' },
      domain: { kind: 'absent' },
      launcher: { kind: 'ready' },
      memory: {},
    },
    steps: [],
    write: { outcome: 'unchanged' },
    ...more,
  };
}

test('the same decision several times in a row is one record with its first and last time', () => {
  const log = new DecisionLog();
  log.add('a/b', record('steady'));
  const again = log.add('a/b', record('steady', { lastAt: now(9).toISOString() }));
  assert.equal(again.isNew, false);
  assert.deepEqual(
    log.of('a/b').map(({ rule, times, firstAt, lastAt }) => [rule, times, firstAt, lastAt]),
    [['steady', 2, now(0).toISOString(), now(9).toISOString()]],
  );
});

test('another picture of the domain is a line of its own, and still the same decision for those who count', () => {
  const log = new DecisionLog();
  log.add('a/b', record('steady'));
  const paused = record('steady');
  paused.seen = { ...paused.seen, domain: { kind: 'present', status: 'Paused', reason: 'User' } };
  assert.equal(log.add('a/b', paused).isNew, true);
  assert.equal(log.of('a/b').length, 2);
  assert.equal(log.timesInARow('a/b'), 2);
  log.add('a/b', record('vmi-changed'));
  assert.equal(log.timesInARow('a/b'), 1);
});

test('two decisions that take turns, as try and pause do, do not fill the ring', () => {
  const log = new DecisionLog();
  log.add('a/b', record('launcher-not-probed'));
  for (let second = 0; second < 40; second++) {
    const at = now(second).toISOString();
    log.add('a/b', record(second % 2 === 0 ? 'start-due' : 'start-backing-off', { firstAt: at, lastAt: at }));
  }
  assert.deepEqual(
    log.of('a/b').map(({ rule, times, firstAt, lastAt }) => [rule, times, firstAt.slice(17, 19), lastAt.slice(17, 19)]),
    [
      ['launcher-not-probed', 1, '00', '00'],
      ['start-due', 20, '00', '38'],
      ['start-backing-off', 20, '01', '39'],
    ],
  );
  assert.equal(log.size.records, 3);
});

test('a VMI keeps its last decisions only', () => {
  const log = new DecisionLog({ recordsPerVmi: 3 });
  for (let index = 0; index < 10; index++) log.add('a/b', record(`rule-${index}`));
  assert.deepEqual(
    log.of('a/b').map(({ rule }) => rule),
    ['rule-7', 'rule-8', 'rule-9'],
  );
  assert.equal(log.size.records, 3);
});

test('of VMIs that are gone the last ones are kept, and a new VMI of the name takes up the story', () => {
  const log = new DecisionLog({ gone: 2 });
  for (const name of ['one', 'two', 'three']) {
    log.add(`a/${name}`, record('finished-clean-up'));
    log.markGone(`a/${name}`, now(1));
  }
  assert.deepEqual(log.keys(), ['a/two', 'a/three']);
  assert.equal(log.goneAt('a/two')?.getTime(), now(1).getTime());
  log.add('a/two', record('finished-nothing-left', { uid: '' }));
  assert.ok(log.goneAt('a/two'), 'an echo of the end revives nobody');
  log.add('a/two', record('start-due', { uid: 'new' }));
  assert.equal(log.goneAt('a/two'), undefined);
  assert.deepEqual([log.size.vmis, log.size.gone], [1, 1]);
});

test('all records together stay below their bytes, the last one of each VMI longest', () => {
  const log = new DecisionLog({ bytes: 20_000, vmis: 1000 });
  for (let index = 0; index < 500; index++) {
    log.add(`a/${index % 20}`, record(`rule-${index}`, { problem: 'x'.repeat(300) }));
    assert.ok(log.size.bytes <= 20_000, `${log.size.bytes} bytes`);
  }
  assert.equal(log.size.vmis, 20);
  for (const key of log.keys()) assert.ok(log.of(key).length >= 1);
});

test('VMIs beyond the limit push out those decided on longest ago', () => {
  const log = new DecisionLog({ vmis: 2 });
  for (const key of ['a/1', 'a/2', 'a/1', 'a/3']) log.add(key, record('steady'));
  assert.deepEqual(log.keys(), ['a/1', 'a/3']);
});

test('a record tells all a pass saw, did and failed at, in times that mean something outside', () => {
  const observation = observationOf({
    vmi: presentVmi(vmiOf('Scheduled')),
    domain: { kind: 'gone', uid, proof: 'launcher-says-none', seenMs: 999_000 },
    ghost: { name: 'vm1', namespace: 'default', uid, socketFile: '/s' },
    predecessor: { uid: 'old', domain: launcherDead, launcher: { kind: 'dead', reason: 'ended' } },
    memory: { uid, synced: { fingerprint: 'f', atMs: 940_000 }, ioRetry: { lastMs: 999_500, waitMs: 10_000 } },
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
  const made = recordOf(observation, decision, [
    { step: 'ensureLauncherConnection', outcome: { kind: 'done' }, tookMs: 1.26 },
    {
      step: 'prepareHost',
      outcome: { kind: 'failed', error: { severity: 'retry', code: 'EIO', message: `bad ${'x'.repeat(2000)}` } },
      tookMs: 2,
    },
  ]);
  assert.deepEqual(made.seen.vmi, { kind: 'present', phase: 'Scheduled', resourceVersion: '10' });
  assert.deepEqual(made.seen.domain, { kind: 'gone', proof: 'launcher-says-none', ageMs: 1_000 });
  assert.deepEqual(made.seen.predecessor, { uid: 'old', domain: 'gone', launcher: 'dead' });
  assert.equal(made.seen.ghost, uid);
  assert.deepEqual(made.seen.memory, {
    synced: { fingerprint: 'f', atMsAgo: 60_000 },
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
