import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExplainService } from '../../../../../src/agent/serve/explain/index.ts';
import { explainRule } from '../../../../../src/agent/vmi/decide/index.ts';
import type { ExplainSeen } from '../../../../../src/api/index.ts';
import { type DecidedKind, decidedLoop } from '../../../../fixtures/decided-loop.ts';
import { assertGolden } from '../../../../fixtures/golden.ts';

const kind: DecidedKind<ExplainSeen> = {
  seen: {
    vmi: { kind: 'present', phase: 'Scheduled' },
    domain: { kind: 'present', status: 'Paused', reason: 'Migration' },
    launcher: { kind: 'present', connected: true },
    memory: { reportedProblem: 'told before' },
  },
  rule: 'domain-unknown',
  more: { route: 'default', newPhase: 'Running' },
};
/** Not pinned here. */
const sentence = explainRule('default', kind.rule);
assert.ok(sentence);

const requests = [
  'GET /why',
  'GET /why/default/vm1',
  'GET /why/default/vm2?pretty',
  'HEAD /why/default/gone',
  'GET /why/default/broken',
  'GET /why/default/none',
  'GET /why/default/%76m1',
  'GET /why/default/%zz',
  'GET /why/default/VM',
  'GET /why/default',
  `GET /why/${'a/'.repeat(600)}`,
  'GET /explain',
  'POST /why',
];

test('each document has the bytes that its readers know', async () => {
  const { source, clock } = decidedLoop(kind);
  const state = () => Promise.reject(new Error('not asked for'));
  const service = new ExplainService({ nodeName: 'here' }, { source, state, clock });
  let text = '';
  for (const request of requests) {
    const [method = '', target = ''] = request.split(' ');
    const { httpStatus, body } = await service.answer(method, target);
    text += `${request.slice(0, 40)}\n${httpStatus} ${JSON.stringify(body)}\n\n`;
  }
  assertGolden('test/unit/agent/serve/explain/documents.golden.txt', text.replaceAll(sentence, 'WHY'));
});
