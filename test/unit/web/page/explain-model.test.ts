import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExplainDecision } from '../../../../src/api/index.ts';
import { isText, momentsOf } from '../../../../src/web/page/explain-model.ts';

const decision: ExplainDecision = {
  firstAt: '2026-01-02T03:00:00Z',
  lastAt: '2026-01-02T03:00:00Z',
  times: 1,
  uid: 'u',
  route: 'default',
  rule: 'start-guest',
  why: 'there is no guest yet',
  seen: {
    vmi: { kind: 'present', phase: 'Scheduled' },
    domain: { kind: 'gone', proof: 'the launcher says so' },
    launcher: { kind: 'ready' },
    memory: {},
  },
  steps: [],
  write: { outcome: 'unchanged' },
};

test('a decision is told with what was seen and done', () => {
  const [moment] = momentsOf({
    decisions: [
      {
        ...decision,
        steps: [
          { step: 'prepareHost', outcome: 'done', tookMs: 12 },
          { step: 'syncVirtualMachine', outcome: 'failed', tookMs: 1_500, because: 'no disk' },
          { step: 'readDomain', outcome: 'not-reached' },
        ],
        newPhase: 'Failed',
        patch: ['conditions'],
        events: ['SyncFailed'],
        write: { outcome: 'written' },
        problem: 'no disk',
      },
    ],
  });
  assert.deepEqual(moment?.did, [
    { text: 'prepare host (12 ms)', outcome: 'done' },
    { text: 'sync virtual machine failed (1 s)', outcome: 'failed', because: 'no disk' },
    { text: 'read domain was not reached', outcome: 'not-reached' },
    { text: 'wrote phase Failed, conditions', outcome: 'done' },
    { text: 'event SyncFailed', outcome: 'done' },
  ]);
  assert.equal(moment?.isTrouble, true);
  assert.equal(moment?.seen, 'VMI Scheduled · guest gone: the launcher says so · launcher ready');
});

test('the newest decision comes first, and one that was made again says how often', () => {
  const again = { ...decision, rule: 'keep-running', times: 7, lastAt: '2026-01-02T03:01:00Z' };
  const moments = momentsOf({ decisions: [decision, again] });
  assert.deepEqual(
    moments.map(({ rule, repeated, isTrouble }) => [rule, repeated, isTrouble]),
    [
      ['keep-running', '7 times in 60 s', false],
      ['start-guest', undefined, false],
    ],
  );
});

test('a write that was refused is trouble', () => {
  const [moment] = momentsOf({
    decisions: [{ ...decision, write: { outcome: 'conflict', because: 'somebody wrote first' } }],
  });
  assert.equal(moment?.isTrouble, true);
  assert.deepEqual(moment?.did, [
    { text: 'writing the status: conflict', outcome: 'failed', because: 'somebody wrote first' },
  ]);
});

test('a VMI that is gone, or is going, is told', () => {
  const gone = { ...decision, seen: { ...decision.seen, vmi: { kind: 'gone' } } };
  assert.match(isText(gone), /^VMI gone · /);
  const going = { ...decision.seen.vmi, deletionTimestamp: '2026-01-02T03:00:00Z' };
  assert.match(isText({ ...decision, seen: { ...decision.seen, vmi: going } }), /^VMI Scheduled, being deleted · /);
  const written: ExplainDecision = { ...decision, newPhase: 'Running', write: { outcome: 'written' } };
  assert.match(isText(written), /^VMI Running · /);
  assert.match(isText({ ...written, write: { outcome: 'conflict' } }), /^VMI Scheduled · /);
});
