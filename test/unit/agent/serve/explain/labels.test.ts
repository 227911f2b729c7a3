import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExplainService } from '../../../../../src/agent/serve/explain/index.ts';
import type { ExplainServiceDeps } from '../../../../../src/agent/serve/explain/service.ts';
import type { ExplainSeen } from '../../../../../src/api/index.ts';
import { DecisionLog } from '../../../../../src/reconcile/index.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

function service(labels?: ExplainServiceDeps['labels']): ExplainService {
  const clock = new FakeClock();
  const source = {
    decisions: new DecisionLog<ExplainSeen>({}, { isSameSeen: () => false }),
    crashLoops: { of: () => undefined },
    tryOf: () => ({ state: 'idle', because: 'nothing is asked for', failuresInARow: 0 }) as const,
  };
  const state = () => Promise.reject(new Error('not asked for'));
  return new ExplainService({ nodeName: 'here' }, { source, state, clock, ...(labels && { labels }) });
}

test('labels are told as the part that looks after them has them', async () => {
  const here = [{ key: 'kubevirt.io/sev', value: 'true', state: 'right', because: 'it is offered' }] as const;
  const answer = await service(() => ({ state: 'present', here, notHere: [] })).answer('GET', '/labels');
  assert.deepEqual(answer, {
    httpStatus: 200,
    body: {
      apiVersion: 'why.virt-handler/v1',
      kind: 'WhyLabels',
      node: 'here',
      at: '2026-01-02T03:00:00.000Z',
      state: 'present',
      here,
      notHere: [],
    },
  });
});

test('an agent that looks after no labels says so, and by which flag', async () => {
  for (const asked of [service(), service(() => undefined)]) {
    const { httpStatus, body } = await asked.answer('GET', '/labels');
    assert.equal(httpStatus, 404);
    assert.ok(body.kind === 'Error');
    assert.match(body.message, /--enable-node-labeller=false/);
  }
});
