import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import { memberAt } from '../../../../../src/base/index.ts';
import { observationOf } from '../../../../fixtures/agent/builders.ts';
import { leaving, open, over, reported, started } from './rule-rows/leaving.ts';

const reason = "stream frozen: the source's migration proxy did not answer for 20 s";

function failureReason(ended: object, words: string): unknown {
  const decision = decide(
    observationOf({
      vmi: leaving(started),
      domain: reported({ ...over, Failed: true, FailureReason: words }),
      migrationProxies: { ...open, hasSource: false, ...ended },
    }),
  );
  assert.equal(decision.rule, 'migration-failed');
  return memberAt(decision.patch, 'status', 'migrationState', 'failureReason');
}

test('a migration whose proxy was frozen says so, before what the launcher saw of it', () => {
  const sourceEnded = { migrationUid: 'm1', reason };
  assert.equal(failureReason({ sourceEnded }, 'Broken pipe'), `${reason}: Broken pipe`);
  assert.match(String(failureReason({ sourceEnded }, '')), /^stream frozen: .*: the launcher gave no reason/);
});

test('what ended the streams of another migration is nothing to this one', () => {
  const sourceEnded = { migrationUid: 'm0', reason };
  assert.equal(failureReason({ sourceEnded }, 'Broken pipe'), 'Broken pipe');
  assert.equal(failureReason({}, 'Broken pipe'), 'Broken pipe');
});
