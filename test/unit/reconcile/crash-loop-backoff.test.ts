import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CrashLoopBackoff } from '../../../src/reconcile/index.ts';

const key = 'default/lamp';
const stuck = { where: 'turn', code: 'STUCK', problem: 'it is stuck' };

interface Given {
  readonly uid?: string;
  readonly wish?: string;
  readonly state?: string;
  readonly failure?: typeof stuck;
  readonly passed?: string;
}

function loops() {
  const backoff = new CrashLoopBackoff({ failures: 3 });
  const judge = ({ uid = 'uid-1', wish = 'on', state = 'off', failure, passed }: Given) =>
    backoff.judge(key, {
      uid,
      now: new Date('2026-01-02T03:04:05Z'),
      wish: () => wish,
      state: () => state,
      failure,
      hasPassed: (where) => where === passed,
    })?.kind;
  const enter = () => [1, 2, 3].map(() => judge({ failure: stuck }));
  return { backoff, judge, enter };
}

test('the third same failure in a row enters, once, and counts on', () => {
  const { backoff, judge, enter } = loops();
  assert.deepEqual(enter(), [undefined, undefined, 'entered']);
  assert.equal(judge({ failure: stuck }), undefined);
  const entry = { since: '2026-01-02T03:04:05.000Z', failures: 4, where: 'turn', problem: 'it is stuck' };
  assert.deepEqual(backoff.of(key), entry);
});

for (const [what, given] of [
  ['another failure', { failure: { ...stuck, code: 'OTHER' } }],
  ['another wish', { failure: stuck, wish: 'off' }],
  ['another object of the name', { failure: stuck, uid: 'uid-2' }],
  ['a state that was not seen while it failed', { failure: stuck, state: 'melted' }],
  ['the step that failed, done', { passed: 'turn' }],
] as const satisfies readonly (readonly [string, Given])[]) {
  test(`${what} leaves, and begins anew`, () => {
    const { backoff, judge, enter } = loops();
    enter();
    assert.equal(judge(given), 'left');
    assert.equal(backoff.of(key), undefined);
    assert.deepEqual(backoff.keys(), []);
  });
}

test('what is done beside the step that fails does not leave, nor does a state of the streak', () => {
  const { backoff, judge } = loops();
  judge({ failure: stuck, state: 'warm' });
  judge({ failure: stuck, state: 'cold' });
  judge({ failure: stuck, state: 'warm' });
  assert.equal(judge({ state: 'cold', passed: 'look' }), undefined);
  assert.ok(backoff.of(key));
});

test('a reconcile that throws is a failure of its own, and one that comes to its end leaves it', () => {
  const { backoff, judge } = loops();
  const at = new Date('2026-01-02T03:04:05Z');
  const faults = [1, 2, 3].map(() => backoff.judgeFault(key, 'uid-1', at, new TypeError('a bug'))?.kind);
  assert.deepEqual(faults, [undefined, undefined, 'entered']);
  assert.equal(backoff.of(key)?.where, 'pass');
  assert.equal(judge({ wish: '' }), 'left');
});
