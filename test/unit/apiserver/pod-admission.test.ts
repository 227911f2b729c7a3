import assert from 'node:assert/strict';
import { test } from 'node:test';
import { podAdmission } from '../../../src/apiserver/admission/pods.ts';
import type { ApiObject } from '../../../src/apiserver/object.ts';

const context = {} as Parameters<NonNullable<typeof podAdmission.validate>>[1];

test('a pod with a priority class that nobody keeps is refused, and says so; one that runs may have it', () => {
  const pod = (priorityClassName?: string): ApiObject => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p' },
    spec: { containers: [{ name: 'c', image: 'i' }], ...(priorityClassName && { priorityClassName }) },
  });
  const problems = (of: ApiObject, old?: ApiObject) =>
    JSON.stringify(podAdmission.validate?.(of, { ...context, ...(old && { old }) }));
  assert.match(problems(pod('nope')), /spec\.priorityClassName.*no PriorityClass with name nope was found/);
  for (const fine of [undefined, '', 'system-node-critical', 'system-cluster-critical'])
    assert.equal(problems(pod(fine)), '[]');
  assert.equal(problems(pod('nope'), pod('nope')), '[]');
});
