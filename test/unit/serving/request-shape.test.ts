import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestShape } from '../../../src/serving/request-metrics.ts';

test('names of objects and namespaces are not in the URL of a series', () => {
  const cases: readonly (readonly [path: string, url: string, resource: string | undefined, isOne: boolean])[] = [
    ['/api/v1/nodes/node1', '/api/v1/nodes/{name}', 'nodes', true],
    ['/api/v1/nodes/node1/status', '/api/v1/nodes/{name}/status', 'nodes/status', true],
    ['/api/v1/namespaces/a/events', '/api/v1/namespaces/{namespace}/events', 'events', false],
    ['/api/v1/namespaces/a', '/api/v1/namespaces/{name}', 'namespaces', true],
    [
      '/apis/kubevirt.io/v1/virtualmachineinstances',
      '/apis/kubevirt.io/v1/virtualmachineinstances',
      'virtualmachineinstances',
      false,
    ],
    [
      '/apis/kubevirt.io/v1/namespaces/a/virtualmachineinstances/b',
      '/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/{name}',
      'virtualmachineinstances',
      true,
    ],
    ['/version', '/version', undefined, false],
    ['/apis', '/apis', undefined, false],
    ['/', '/', undefined, false],
    ['', '/', undefined, false],
  ];
  for (const [path, url, resource, isOne] of cases)
    assert.deepEqual(requestShape(path), { url, resource, isOne }, path);
});
