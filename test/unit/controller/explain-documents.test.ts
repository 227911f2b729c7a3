import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExplainFacts } from '../../../src/api/index.ts';
import { explain } from '../../../src/controller/explain/index.ts';
import { vmiRules } from '../../../src/controller/vmi/index.ts';
import { explainRule } from '../../../src/reconcile/index.ts';
import { type DecidedKind, decidedLoop } from '../../fixtures/decided-loop.ts';
import { assertGolden } from '../../fixtures/golden.ts';

const kind: DecidedKind<ExplainFacts> = { seen: { phase: 'Pending', pod: 'none' }, rule: 'no-pod-yet' };
/** Not pinned here. */
const sentence = explainRule({ rules: vmiRules }, kind.rule);
assert.ok(sentence);

const requests = [
  'GET /explain/vmi',
  'GET /explain/vmi/default/vm1',
  'GET /explain/vmi/default/vm2?pretty',
  'HEAD /explain/vmi/default/gone',
  'GET /explain/vmi/default/broken',
  'GET /explain/vmi/default/none',
  'GET /explain/vmi/default/%76m1',
  'GET /explain/vmi/default/%zz',
  'GET /explain/vmi/default/VM',
  'GET /explain/vmi/default',
  'GET /explain/pod',
  `GET /explain/${'a/'.repeat(600)}`,
  'GET /why',
  'POST /explain/vmi',
];

test('each document has the bytes that its readers know', () => {
  const { source, clock } = decidedLoop(kind);
  const known = { source, rules: vmiRules };
  let text = '';
  for (const request of requests) {
    const [method = '', target = ''] = request.split(' ');
    const { httpStatus, body } = explain(method, target, {
      controllers: {
        ...{
          vm: known,
          vmi: known,
          vmim: known,
          vmirs: known,
          vmpool: known,
          vmsnapshot: known,
          vmsnapshotcontent: known,
          vmrestore: known,
          vmclone: known,
          vmexport: known,
          vmbackup: known,
          vmbackuptracker: known,
        },
        ...{ node: known, evacuation: known },
      },
      clock,
    });
    text += `${request.slice(0, 40)}\n${httpStatus} ${JSON.stringify(body)}\n\n`;
  }
  assertGolden('test/unit/controller/explain-documents.golden.txt', text.replaceAll(sentence, 'WHY'));
});
