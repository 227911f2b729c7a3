import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { configMap, pod, type Subject, startSubject, vmi } from './subject.ts';

describe('reading', () => {
  let subject: Subject;
  let maps: string;

  before(async () => {
    subject = await startSubject();
    maps = subject.maps;
    for (const [index, tier] of ['a', 'b', 'c', 'a', 'none'].entries()) {
      const labels = tier === 'none' ? {} : { tier };
      await subject.client.post(maps, configMap(`list-${index}`, { metadata: { name: `list-${index}`, labels } }));
    }
  });
  after(() => subject.stop());

  const names = async (query: string) => {
    const { body } = await subject.client.get(`${maps}?${query}`);
    return body.items.map((item: { metadata: { name: string } }) => item.metadata.name);
  };
  const ours = (list: string[]) => list.filter((name) => name.startsWith('list-'));

  test('a list has a kind, a resourceVersion and its items sorted by name', async () => {
    const { status, body } = await subject.client.get(maps);
    assert.equal(status, 200);
    assert.equal(body.kind, 'ConfigMapList');
    assert.match(body.metadata.resourceVersion, /^\d+$/);
    const found = body.items.map((item: { metadata: { name: string } }) => item.metadata.name);
    assert.deepEqual(ours(found), ['list-0', 'list-1', 'list-2', 'list-3', 'list-4']);
  });

  const selectors: [string, string[]][] = [
    ['tier=a', ['list-0', 'list-3']],
    ['tier==b', ['list-1']],
    ['tier!=a', ['list-1', 'list-2', 'list-4']],
    ['tier in (a,c)', ['list-0', 'list-2', 'list-3']],
    ['tier notin (a, b)', ['list-2', 'list-4']],
    ['tier', ['list-0', 'list-1', 'list-2', 'list-3']],
    ['!tier', ['list-4']],
    ['tier,tier!=c', ['list-0', 'list-1', 'list-3']],
  ];
  for (const [selector, expected] of selectors) {
    test(`label selector "${selector}" chooses as in Kubernetes`, async () => {
      assert.deepEqual(ours(await names(`labelSelector=${encodeURIComponent(selector)}`)), expected);
    });
  }

  for (const selector of ['a in b', 'a=(', '=x', 'a in (b', 'a=b=c', '-=x']) {
    test(`label selector "${selector}" is refused with 400`, async () => {
      const { status, body } = await subject.client.get(`${maps}?labelSelector=${encodeURIComponent(selector)}`);
      assert.equal(status, 400);
      assert.equal(body.reason, 'BadRequest');
    });
  }

  test('a field selector finds by name, and a field that is not selectable is refused with 400', async () => {
    assert.deepEqual(await names('fieldSelector=metadata.name%3Dlist-2'), ['list-2']);
    const { status } = await subject.client.get(`${maps}?fieldSelector=data.key%3Dvalue`);
    assert.equal(status, 400);
  });

  test('pods are selected by node and phase', async () => {
    const { pods } = subject;
    await subject.client.post(pods, pod('on-one', { spec: { nodeName: 'one' } }));
    await subject.client.post(pods, pod('on-none'));
    const find = async (selector: string) => {
      const { body } = await subject.client.get(`${pods}?fieldSelector=${encodeURIComponent(selector)}`);
      return body.items.map((item: { metadata: { name: string } }) => item.metadata.name);
    };
    assert.deepEqual(await find('spec.nodeName=one'), ['on-one']);
    assert.deepEqual(await find('spec.nodeName!=one'), ['on-none']);
    assert.deepEqual(await find('spec.nodeName=one,status.phase!=Pending'), []);
  });

  test('pages of a list show the state of the first page, whatever changed since', async () => {
    const first = await subject.client.get(`${maps}?labelSelector=tier&limit=2`);
    assert.equal(first.body.items.length, 2);
    assert.ok(first.body.metadata.continue);
    await subject.client.patch(`${maps}/list-2`, 'merge', { data: { key: 'changed' } });
    const items = [];
    let token: string = first.body.metadata.continue;
    while (token) {
      const { body } = await subject.client.get(
        `${maps}?labelSelector=tier&limit=2&continue=${encodeURIComponent(token)}`,
      );
      assert.equal(body.metadata.resourceVersion, first.body.metadata.resourceVersion);
      items.push(...body.items);
      token = body.metadata.continue ?? '';
    }
    const names = items.map((item: { metadata: { name: string } }) => item.metadata.name);
    assert.deepEqual(names, ['list-2', 'list-3']);
    assert.equal(items[0].data.key, 'value');
  });

  test('a page without selectors says how many remain', async () => {
    const { body } = await subject.client.get(`${maps}?limit=1`);
    assert.ok(body.metadata.remainingItemCount >= 4);
  });

  test('a made-up continue token is refused with 400', async () => {
    assert.equal((await subject.client.get(`${maps}?limit=1&continue=bogus`)).status, 400);
  });

  for (const query of [
    'resourceVersionMatch=NotOlderThan',
    'resourceVersionMatch=Foo&resourceVersion=5',
    'resourceVersionMatch=Exact&resourceVersion=0',
    'watch=1&sendInitialEvents=true',
    'watch=1&resourceVersionMatch=NotOlderThan',
  ]) {
    test(`options that make no sense (${query}) are refused with 422`, async () => {
      const { status, body } = await subject.client.get(`${maps}?${query}`);
      assert.equal(status, 422);
      assert.equal(body.details.kind, 'ListOptions');
      assert.equal(body.details.causes[0].field, 'resourceVersionMatch');
    });
  }

  test('a list at a version of the future is refused so that the client lists again', async () => {
    const { status, body } = await subject.client.get(`${maps}?resourceVersion=99999999999`);
    assert.equal(status, 504);
    assert.equal(body.details.causes[0].reason, 'ResourceVersionTooLarge');
  });

  test('what is not there is a NotFound Status that names it', async () => {
    const { status, body } = await subject.client.get(`${maps}/missing`);
    assert.equal(status, 404);
    assert.equal(body.kind, 'Status');
    assert.equal(body.reason, 'NotFound');
    assert.equal(body.message, 'configmaps "missing" not found');
    assert.deepEqual(body.details, { name: 'missing', kind: 'configmaps' });
  });

  test('a resource type that is not there is 404', async () => {
    assert.equal((await subject.client.get('/apis/example.com/v1/things')).status, 404);
    assert.equal((await subject.client.get('/api/v1/things')).status, 404);
  });

  test('an unknown token is 401 with a Status', async () => {
    const { status, body } = await subject.client.withToken('no-such-token-at-all').get(maps);
    assert.equal(status, 401);
    assert.equal(body.reason, 'Unauthorized');
  });

  test('an Accept that cannot be met is 406', async () => {
    assert.equal((await subject.client.get(maps, { accept: 'text/csv' })).status, 406);
  });

  test('a table of VMIs has the columns of upstream, and the cells of the status', async () => {
    const path = `/apis/kubevirt.io/v1/namespaces/${subject.namespace}/virtualmachineinstances`;
    const conditions = [{ type: 'Ready', status: 'True', lastProbeTime: null, lastTransitionTime: null }];
    const status = { phase: 'Running', nodeName: 'one', interfaces: [{ ipAddress: '10.0.2.2' }], conditions };
    const made = await subject.client.post(path, vmi('table', { status }));
    assert.equal(made.status, 201, made.text);
    const { body } = await subject.client.get(`${path}/table`, {
      accept: 'application/json;as=Table;v=v1;g=meta.k8s.io',
    });
    assert.equal(body.kind, 'Table');
    const columns = body.columnDefinitions.map(({ name, priority }: { name: string; priority: number }) => [
      name,
      priority,
    ]);
    assert.deepEqual(columns, [
      ['Name', 0],
      ['Age', 0],
      ['Phase', 0],
      ['IP', 0],
      ['NodeName', 0],
      ['Ready', 0],
      ['Live-Migratable', 1],
      ['Paused', 1],
    ]);
    const [name, , phase, ip, node, ready] = body.rows[0].cells;
    assert.deepEqual([name, phase, ip, node, ready], ['table', 'Running', '10.0.2.2', 'one', 'True']);
    assert.equal(body.rows[0].object.kind, 'PartialObjectMetadata');
  });

  test('only metadata is sent to who asks for PartialObjectMetadata', async () => {
    const accept = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
    const { body } = await subject.client.get(maps, { accept });
    assert.equal(body.kind, 'PartialObjectMetadataList');
    assert.equal(body.items[0].data, undefined);
    assert.ok(body.items[0].metadata.name);
  });

  test('discovery in one answer names KubeVirt types with short names and verbs', async () => {
    const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
    const { body, headers } = await subject.client.get('/apis', { accept });
    assert.match(headers['content-type'] ?? '', /as=APIGroupDiscoveryList/);
    const group = body.items.find((item: { metadata: { name: string } }) => item.metadata.name === 'kubevirt.io');
    const type = group.versions[0].resources.find(
      ({ resource }: { resource: string }) => resource === 'virtualmachineinstances',
    );
    assert.deepEqual(type.shortNames, ['vmi', 'vmis']);
    assert.equal(type.scope, 'Namespaced');
    assert.deepEqual(type.subresources ?? [], []);
    for (const verb of ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'])
      assert.ok(type.verbs.includes(verb));
  });

  test('discovery group by group names sub-resources', async () => {
    const { body } = await subject.client.get('/apis/kubevirt.io/v1');
    assert.equal(body.kind, 'APIResourceList');
    const names = body.resources.map(({ name }: { name: string }) => name);
    assert.ok(names.includes('virtualmachines/status'));
    assert.ok(!names.includes('virtualmachineinstances/status'));
  });
});
