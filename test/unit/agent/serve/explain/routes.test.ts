import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseExplainRequest } from '../../../../../src/agent/serve/explain/routes.ts';

test('the four questions are understood, with or without a query', () => {
  assert.deepEqual(parseExplainRequest('GET', '/why'), { kind: 'list' });
  assert.deepEqual(parseExplainRequest('HEAD', '/state?pretty'), { kind: 'state' });
  assert.deepEqual(parseExplainRequest('GET', '/labels'), { kind: 'labels' });
  assert.deepEqual(parseExplainRequest('GET', '/why/default/my.vm-1/'), {
    kind: 'report',
    key: 'default/my.vm-1',
  });
});

const wrong: readonly (readonly [method: string, target: string, httpStatus: number])[] = [
  ['POST', '/why', 405],
  ['<script>', '/why', 405],
  ['GET', '', 404],
  ['GET', '/', 404],
  ['GET', '/why/default', 404],
  ['GET', '/why/default/vm/more', 404],
  ['GET', '/metrics', 404],
  ['GET', '/state/x', 404],
  ['GET', '/labels/x', 404],
  ['GET', '/why/default/%2e%2e%2fetc', 400],
  ['GET', '/why/default/..', 400],
  ['GET', '/why/default/VM', 400],
  ['GET', '/why/default/%zz', 400],
  ['GET', '/why/default/%00', 400],
  ['GET', `/why/default/${'a'.repeat(254)}`, 400],
  ['GET', `/why/${'a/'.repeat(2000)}`, 400],
];

for (const [method, target, httpStatus] of wrong) {
  test(`${method} ${target.slice(0, 40) || 'nothing'} is refused with ${httpStatus} and words`, () => {
    const request = parseExplainRequest(method, target);
    assert.equal(request.kind, 'refused');
    assert.equal('httpStatus' in request && request.httpStatus, httpStatus);
    assert.ok('message' in request && request.message.length > 10);
  });
}
