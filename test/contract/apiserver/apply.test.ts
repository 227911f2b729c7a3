import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ApiAnswer } from '../../fixtures/api-client.ts';
import { configMap, type Subject, startSubject, vm } from './subject.ts';

describe('server-side apply', () => {
  let subject: Subject;
  let core: string;
  let maps: string;
  let vms: string;

  before(async () => {
    subject = await startSubject();
    core = `/api/v1/namespaces/${subject.namespace}`;
    maps = `${core}/configmaps`;
    vms = `/apis/kubevirt.io/v1/namespaces/${subject.namespace}/virtualmachines`;
  });
  after(() => subject.stop());

  const apply = (url: string, manager: string, body: object, more = '') =>
    subject.user.patch(`${url}?fieldManager=${manager}${more}`, 'apply', body);
  const map = (name: string, data: object, metadata: object = {}) => ({
    ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, ...metadata } },
    data,
  });
  // biome-ignore lint/suspicious/noExplicitAny: entries of every shape
  const managersOf = ({ body }: ApiAnswer): any[] => body.metadata.managedFields ?? [];
  const ownersOf = (answer: ApiAnswer) =>
    managersOf(answer).map(({ manager, operation, fieldsV1 }) => [
      manager,
      operation,
      Object.keys(fieldsV1['f:data'] ?? {})
        .filter((key) => key !== '.')
        .sort(),
    ]);

  test('makes an object that is not there, changes it, and takes away what is not applied any more', async () => {
    const url = `${maps}/made`;
    const made = await apply(url, 'one', map('made', { a: '1', b: '2' }));
    assert.equal(made.status, 201, made.text);
    assert.deepEqual(ownersOf(made), [['one', 'Apply', ['f:a', 'f:b']]]);
    const again = await apply(url, 'one', map('made', { a: '1', b: '2' }));
    assert.deepEqual([again.status, again.body.metadata.resourceVersion], [200, made.body.metadata.resourceVersion]);
    const changed = await apply(url, 'one', map('made', { a: '3' }));
    assert.deepEqual([changed.status, changed.body.data], [200, { a: '3' }]);
    assert.deepEqual(ownersOf(changed), [['one', 'Apply', ['f:a']]]);
  });

  test('of two managers each has its own fields, and what both apply stays until neither does', async () => {
    const url = `${maps}/shared`;
    await apply(url, 'one', map('shared', { a: '1', both: 'x' }));
    const second = await apply(url, 'two', map('shared', { b: '2', both: 'x' }));
    assert.deepEqual(second.body.data, { a: '1', b: '2', both: 'x' });
    assert.deepEqual(ownersOf(second).sort(), [
      ['one', 'Apply', ['f:a', 'f:both']],
      ['two', 'Apply', ['f:b', 'f:both']],
    ]);
    assert.deepEqual((await apply(url, 'one', map('shared', {}))).body.data, { b: '2', both: 'x' });
    assert.deepEqual((await apply(url, 'two', map('shared', { b: '2' }))).body.data, { b: '2' });
  });

  test('a change of what another owns is a conflict with a cause for each field; force takes it', async () => {
    const url = `${maps}/conflict`;
    await apply(url, 'one', map('conflict', { a: '1', b: '1' }));
    const refused = await apply(url, 'two', map('conflict', { a: '2' }));
    assert.deepEqual([refused.status, refused.body.reason], [409, 'Conflict']);
    assert.equal(refused.body.message, 'Apply failed with 1 conflict: conflict with "one": .data.a');
    assert.deepEqual(refused.body.details.causes, [
      { reason: 'FieldManagerConflict', message: 'conflict with "one"', field: '.data.a' },
    ]);
    const two = await apply(url, 'two', map('conflict', { a: '2', b: '2' }));
    assert.equal(two.body.message, 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b');
    const forced = await apply(url, 'two', map('conflict', { a: '2' }), '&force=true');
    assert.deepEqual([forced.status, forced.body.data], [200, { a: '2', b: '1' }]);
    assert.deepEqual(ownersOf(forced).sort(), [
      ['one', 'Apply', ['f:b']],
      ['two', 'Apply', ['f:a']],
    ]);
  });

  test('an update owns what it changes, and an apply of something else conflicts with it', async () => {
    const url = `${maps}/updated`;
    const created = await subject.user.post(`${maps}?fieldManager=maker`, map('updated', { a: '1', b: '1' }));
    assert.deepEqual(ownersOf(created), [['maker', 'Update', ['f:a', 'f:b']]]);
    const patched = await subject.user.patch(`${url}?fieldManager=editor`, 'merge', { data: { b: '2', c: '3' } });
    assert.deepEqual(ownersOf(patched).sort(), [
      ['editor', 'Update', ['f:b', 'f:c']],
      ['maker', 'Update', ['f:a']],
    ]);
    const refused = await apply(url, 'one', map('updated', { a: '2', b: '2' }));
    assert.equal(refused.body.message, 'Apply failed with 1 conflict: conflict with "maker" using v1: .data.a');
    const taken = await apply(url, 'one', map('updated', { b: '2' }));
    assert.deepEqual(ownersOf(taken).sort(), [
      ['editor', 'Update', ['f:b', 'f:c']],
      ['maker', 'Update', ['f:a']],
      ['one', 'Apply', ['f:b']],
    ]);
    const removed = await subject.user.patch(`${url}?fieldManager=editor`, 'merge', { data: { b: null } });
    assert.deepEqual(ownersOf(removed).sort(), [
      ['editor', 'Update', ['f:c']],
      ['maker', 'Update', ['f:a']],
    ]);
  });

  test('lists: elements of a map are owned by their keys, a set by its values, others as a whole', async () => {
    const url = `${core}/services/lists`;
    const service = (spec: object, finalizers: string[] = []) => ({
      ...{ apiVersion: 'v1', kind: 'Service', metadata: { name: 'lists', finalizers }, spec },
    });
    const one = await apply(url, 'one', service({ ports: [{ name: 'a', port: 80 }] }, ['example.com/one']));
    assert.equal(one.status, 201, one.text);
    const ports = [{ name: 'b', port: 81, protocol: 'UDP' }];
    const two = await apply(url, 'two', service({ ports, selector: { x: 'y' } }, ['example.com/two']));
    assert.equal(two.status, 200, two.text);
    const shown = ({ body }: ApiAnswer) =>
      body.spec.ports.map(({ name, port }: { name: string; port: number }) => [name, port]).sort();
    assert.deepEqual(shown(two), [
      ['a', 80],
      ['b', 81],
    ]);
    assert.deepEqual([...two.body.metadata.finalizers].sort(), ['example.com/one', 'example.com/two']);
    const refused = await apply(url, 'one', service({ ports: [{ name: 'x', port: 81, protocol: 'UDP' }] }));
    assert.equal(refused.status, 409);
    assert.deepEqual(
      refused.body.details.causes.map(({ field }: { field: string }) => field),
      ['.spec.ports[port=81,protocol="UDP"].name'],
    );
    const left = await apply(url, 'one', service({ ports: [] }));
    assert.deepEqual(shown(left), [['b', 81]]);
    assert.deepEqual(left.body.metadata.finalizers, ['example.com/two']);
    await subject.user.patch(url, 'merge', { metadata: { finalizers: [] } });
  });

  test('a custom resource: lists are whole where the definition says no more, labels are owned one by one', async () => {
    const url = `${vms}/custom`;
    const wanted = (spec: object, labels: object = {}) => ({
      ...vm('custom'),
      metadata: { name: 'custom', labels },
      spec,
    });
    const made = await apply(url, 'one', wanted(vm('custom').spec, { a: 'b' }));
    assert.equal(made.status, 201, made.text);
    assert.equal((await apply(url, 'two', { ...wanted({}, { c: 'd' }), spec: undefined })).status, 200);
    const lists = (name: string) => ({
      template: { spec: { tolerations: [{ key: name }], volumes: [{ name, emptyDisk: { capacity: '1Mi' } }] } },
    });
    assert.equal((await apply(url, 'lists', wanted(lists('a')))).status, 200);
    const refused = await apply(url, 'other', wanted(lists('b')));
    assert.deepEqual(refused.body.details.causes.map(({ field }: { field: string }) => field).sort(), [
      '.spec.template.spec.tolerations',
      '.spec.template.spec.volumes',
    ]);
    const { body } = await apply(url, 'lists', { ...wanted({}), spec: undefined });
    assert.ok(!('volumes' in body.spec.template.spec));
    assert.deepEqual(body.metadata.labels, { a: 'b', c: 'd' });
    assert.equal(body.spec.runStrategy, 'Halted');
  });

  test('the status has owners of its own', async () => {
    const url = `${vms}/status`;
    await apply(url, 'one', vm('status'));
    const { status, text } = await apply(`${url}/status`, 'reporter', {
      ...vm('status'),
      spec: undefined,
      status: { ready: true },
    });
    assert.equal(status, 200, text);
    const { body } = await subject.user.get(url);
    assert.equal(body.status.ready, true);
    assert.deepEqual(
      body.metadata.managedFields
        .map((each: { manager: string; subresource?: string }) => [each.manager, each.subresource])
        .sort(),
      [
        ['one', undefined],
        ['reporter', 'status'],
      ],
    );
    const kept = await apply(url, 'one', { ...vm('status'), status: { ready: false } });
    assert.deepEqual([kept.status, kept.body.status.ready], [200, true]);
  });

  test('a dry run says what would be, or the conflict, and changes nothing', async () => {
    const url = `${maps}/dry`;
    const dry = await apply(url, 'one', map('dry', { a: '1' }), '&dryRun=All');
    assert.deepEqual([dry.status, dry.body.data], [201, { a: '1' }]);
    assert.equal((await subject.user.get(url)).status, 404);
    await apply(url, 'one', map('dry', { a: '1' }));
    assert.equal((await apply(url, 'two', map('dry', { a: '2' }), '&dryRun=All')).status, 409);
    assert.equal((await apply(url, 'two', map('dry', { a: '2' }), '&dryRun=All&force=true')).body.data.a, '2');
    assert.equal((await subject.user.get(url)).body.data.a, '1');
  });

  test('what is no apply is refused: no manager, an unknown field, managed fields, another name, force without apply', async () => {
    const url = `${maps}/bad`;
    const nobody = await subject.user.patch(url, 'apply', map('bad', {}));
    assert.deepEqual([nobody.status, nobody.body.reason], [422, 'Invalid']);
    assert.match(nobody.body.message, /fieldManager: Required value: is required for apply patch/);
    const unknown = await apply(`${vms}/bad`, 'one', { ...vm('bad'), spec: { ...vm('bad').spec, autostart: true } });
    assert.match(unknown.body.message, /\.spec\.autostart: field not declared in schema/);
    const managed = await apply(url, 'one', map('bad', {}, { managedFields: [{ manager: 'x' }] }));
    assert.match(managed.body.message, /metadata\.managedFields must be nil/);
    assert.equal((await apply(url, 'one', map('other', {}))).status, 400);
    await subject.user.post(maps, configMap('bad'));
    const forced = await subject.user.patch(`${url}?force=true`, 'merge', {});
    assert.match(forced.body.message, /force: Forbidden: may not be specified for non-apply patch/);
    const old = await apply(url, 'one', map('bad', { x: 'y' }, { resourceVersion: '1' }));
    assert.deepEqual([old.status, old.body.reason], [409, 'Conflict']);
  });

  test('a client may hand fields over by writing the list of managers, and do away with it', async () => {
    const url = `${maps}/handed`;
    const { body } = await subject.user.post(`${maps}?fieldManager=old`, map('handed', { a: '1' }));
    const [entry] = body.metadata.managedFields;
    const managedFields = [{ ...entry, manager: 'new', operation: 'Apply' }];
    const handed = await subject.user.patch(url, 'merge', { metadata: { managedFields } });
    assert.deepEqual(ownersOf(handed), [['new', 'Apply', ['f:a']]]);
    assert.deepEqual((await apply(url, 'new', map('handed', { b: '2' }))).body.data, { b: '2' });
    const none = await subject.user.patch(url, 'merge', { metadata: { managedFields: [{}] } });
    assert.deepEqual(managersOf(none), []);
    const first = await apply(url, 'late', map('handed', { b: '3' }));
    assert.equal(
      first.body.message,
      'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.b',
    );
  });
});
