import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DecisionLog, type DecisionLogOptions, type DecisionRecord } from '../../../src/reconcile/index.ts';

const now = (second: number) => new Date(Date.UTC(2026, 0, 2, 3, 0, second));

type Seen = { readonly phase: string; readonly domain?: string };

function record(rule: string, more: Partial<DecisionRecord<Seen>> = {}): DecisionRecord<Seen> {
  return {
    firstAt: now(0).toISOString(),
    lastAt: now(0).toISOString(),
    times: 1,
    uid: 'uid-1',
    route: 'default',
    rule,
    seen: { phase: 'Running' },
    steps: [],
    write: { outcome: 'unchanged' },
    ...more,
  };
}

const logOf = (options: Partial<DecisionLogOptions> = {}) =>
  new DecisionLog<Seen>(options, {
    isSameSeen: (left, right) => left.phase === right.phase && left.domain === right.domain,
  });

test('the same decision several times in a row is one record with its first and last time', () => {
  const log = logOf();
  log.add('a/b', record('steady'));
  const again = log.add('a/b', record('steady', { lastAt: now(9).toISOString() }));
  assert.equal(again.isNew, false);
  assert.deepEqual(
    log.of('a/b').map(({ rule, times, firstAt, lastAt }) => [rule, times, firstAt, lastAt]),
    [['steady', 2, now(0).toISOString(), now(9).toISOString()]],
  );
});

test('another observation is a line of its own, and still the same decision for those who count', () => {
  const log = logOf();
  log.add('a/b', record('steady'));
  const paused = record('steady');
  paused.seen = { ...paused.seen, domain: 'Paused' };
  assert.equal(log.add('a/b', paused).isNew, true);
  assert.equal(log.of('a/b').length, 2);
  assert.equal(log.timesInARow('a/b'), 2);
  log.add('a/b', record('vmi-changed'));
  assert.equal(log.timesInARow('a/b'), 1);
});

test('two decisions that take turns, as try and pause do, do not fill the ring', () => {
  const log = logOf();
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

test('a key keeps its last decisions only', () => {
  const log = logOf({ recordsPerKey: 3 });
  for (let index = 0; index < 10; index++) log.add('a/b', record(`rule-${index}`));
  assert.deepEqual(
    log.of('a/b').map(({ rule }) => rule),
    ['rule-7', 'rule-8', 'rule-9'],
  );
  assert.equal(log.size.records, 3);
});

test('of objects that are gone the last ones are kept, and a new one of the name takes up the story', () => {
  const log = logOf({ gone: 2 });
  for (const name of ['one', 'two', 'three']) {
    log.add(`a/${name}`, record('finished-clean-up'));
    log.markGone(`a/${name}`, now(1));
  }
  assert.deepEqual(log.keys(), ['a/two', 'a/three']);
  assert.equal(log.goneAt('a/two')?.getTime(), now(1).getTime());
  log.add('a/two', record('finished-nothing-left', { uid: '' }));
  assert.ok(log.goneAt('a/two'), 'an echo of the end revives nothing');
  log.add('a/two', record('start-due', { uid: 'new' }));
  assert.equal(log.goneAt('a/two'), undefined);
  assert.deepEqual([log.size.keys, log.size.gone], [1, 1]);
});

test('all records together stay below their bytes, the last one of each key longest', () => {
  const log = logOf({ bytes: 20_000, keys: 1000 });
  for (let index = 0; index < 500; index++) {
    log.add(`a/${index % 20}`, record(`rule-${index}`, { problem: 'x'.repeat(300) }));
    assert.ok(log.size.bytes <= 20_000, `${log.size.bytes} bytes`);
  }
  assert.equal(log.size.keys, 20);
  for (const key of log.keys()) assert.ok(log.of(key).length >= 1);
});

test('what is added to a record after its decision counts, too', () => {
  const because = 'x'.repeat(600);
  const log = logOf({ bytes: 20_000, keys: 1000 });
  for (let index = 0; index < 200; index++) {
    const key = `a/${index % 20}`;
    const { record: kept } = log.add(key, record(`rule-${index % 3}`));
    Object.assign(kept, { write: { outcome: 'failed', because }, next: { because } });
    log.close(key);
    const really = log.keys().flatMap((each) => log.of(each).map((one) => JSON.stringify(one).length));
    const sum = really.reduce((total, bytes) => total + bytes, 0);
    assert.equal(log.size.bytes, sum);
    assert.ok(sum <= 20_000, `${sum} bytes`);
  }
});

test('keys beyond the limit push out those decided on longest ago', () => {
  const log = logOf({ keys: 2 });
  for (const key of ['a/1', 'a/2', 'a/1', 'a/3']) log.add(key, record('steady'));
  assert.deepEqual(log.keys(), ['a/1', 'a/3']);
});
