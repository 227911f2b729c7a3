import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { configMap, pod, type Subject, startSubject, vm, vmi } from './subject.ts';

describe('writing', () => {
  let subject: Subject;
  let maps: string;
  let pods: string;
  let vms: string;
  let vmis: string;

  before(async () => {
    subject = await startSubject();
    ({ maps, pods, vms, vmis } = subject);
  });
  after(() => subject.stop());

  test('a created object gets uid, creation time and version', async () => {
    const { status, body } = await subject.client.post(maps, configMap('made'));
    assert.equal(status, 201);
    assert.match(body.metadata.uid, /^[0-9a-f-]{36}$/);
    assert.match(body.metadata.creationTimestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    assert.match(body.metadata.resourceVersion, /^\d+$/);
    assert.equal(body.metadata.namespace, subject.namespace);
  });

  test('a second object of the same name is refused with AlreadyExists', async () => {
    await subject.client.post(maps, configMap('twice'));
    const { status, body } = await subject.client.post(maps, configMap('twice'));
    assert.equal(status, 409);
    assert.equal(body.reason, 'AlreadyExists');
  });

  test('generateName gives each object its own name', async () => {
    const make = () => subject.client.post(maps, { metadata: { generateName: 'gen-' } });
    const [one, two] = [await make(), await make()];
    assert.match(one.body.metadata.name, /^gen-[a-z0-9]{5}$/);
    assert.notEqual(one.body.metadata.name, two.body.metadata.name);
  });

  test('names, labels and namespaces are checked, and the message names the field', async () => {
    const bad = await subject.client.post(maps, configMap('Not_A_Name'));
    assert.equal(bad.status, 422);
    assert.equal(bad.body.reason, 'Invalid');
    assert.equal(bad.body.details.causes[0].field, 'metadata.name');
    const label = await subject.client.post(maps, configMap('x', { metadata: { name: 'x', labels: { a: 'b c' } } }));
    assert.equal(label.status, 422);
    const nameless = await subject.client.post(maps, { metadata: {} });
    assert.equal(nameless.status, 422);
    const elsewhere = await subject.client.post(maps, configMap('x', { metadata: { name: 'x', namespace: 'other' } }));
    assert.equal(elsewhere.status, 400);
    const nowhere = await subject.client.post('/api/v1/namespaces/not-there/configmaps', configMap('x'));
    assert.equal(nowhere.status, 404);
  });

  test('a body of another kind, no JSON, nothing, or a foreign media type is refused', async () => {
    const kind = await subject.client.post(maps, { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'x' } });
    assert.equal(kind.status, 400);
    assert.equal((await subject.client.post(maps, '{"metadata": {"name": "x"')).status, 400);
    assert.equal((await subject.client.post(maps, '')).status, 400);
    assert.equal((await subject.client.post(maps, 'a=b', { contentType: 'text/plain' })).status, 415);
  });

  test('YAML is read as well', async () => {
    const text = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata: {a: b}\n';
    const { status, body } = await subject.client.post(maps, text, { contentType: 'application/yaml' });
    assert.equal(status, 201);
    assert.deepEqual(body.data, { a: 'b' });
  });

  test('a dry run answers as if, and stores nothing', async () => {
    const { status } = await subject.client.post(`${maps}?dryRun=All`, configMap('dry'));
    assert.equal(status, 201);
    assert.equal((await subject.client.get(`${maps}/dry`)).status, 404);
    assert.equal((await subject.client.post(`${maps}?dryRun=Some`, configMap('dry'))).status, 422);
  });

  test('a PUT made from an old version is refused with Conflict, one from the present version goes through', async () => {
    const { body: made } = await subject.client.post(maps, configMap('put'));
    const changed = await subject.client.put(`${maps}/put`, { ...made, data: { key: 'two' } });
    assert.equal(changed.status, 200);
    assert.ok(Number(changed.body.metadata.resourceVersion) > Number(made.metadata.resourceVersion));
    const stale = await subject.client.put(`${maps}/put`, { ...made, data: { key: 'three' } });
    assert.equal(stale.status, 409);
    assert.equal(stale.body.reason, 'Conflict');
    assert.match(stale.body.message, /the object has been modified; please apply your changes to the latest version/);
  });

  test('a PUT of another uid or another name is refused; uid and creation time stay', async () => {
    const { body: made } = await subject.client.post(maps, configMap('identity'));
    const { resourceVersion: _version, ...metadata } = made.metadata;
    const foreign = { ...made, metadata: { ...metadata, uid: '00000000-0000-0000-0000-000000000000' } };
    assert.equal((await subject.client.put(`${maps}/identity`, foreign)).status, 409);
    const renamed = { ...made, metadata: { ...metadata, name: 'other' } };
    assert.equal((await subject.client.put(`${maps}/identity`, renamed)).status, 400);
    const kept = await subject.client.put(`${maps}/identity`, configMap('identity', { data: { a: 'b' } }));
    assert.equal(kept.body.metadata.uid, made.metadata.uid);
    assert.equal(kept.body.metadata.creationTimestamp, made.metadata.creationTimestamp);
  });

  test('a PUT that changes nothing keeps the version', async () => {
    const { body: made } = await subject.client.post(maps, configMap('same'));
    const again = await subject.client.put(`${maps}/same`, made);
    assert.equal(again.body.metadata.resourceVersion, made.metadata.resourceVersion);
  });

  test('an immutable config map keeps its data', async () => {
    await subject.client.post(maps, configMap('fixed', { immutable: true }));
    const changed = await subject.client.patch(`${maps}/fixed`, 'merge', { data: { key: 'two' } });
    assert.equal(changed.status, 422);
    const undone = await subject.client.patch(`${maps}/fixed`, 'merge', { immutable: null });
    assert.equal(undone.status, 422);
    const labelled = await subject.client.patch(`${maps}/fixed`, 'merge', { metadata: { labels: { a: 'b' } } });
    assert.equal(labelled.status, 200);
  });

  test('a PUT to what is not there is 404', async () => {
    assert.equal((await subject.client.put(`${maps}/absent`, configMap('absent'))).status, 404);
  });

  test('a custom resource is only replaced by who says from which version', async () => {
    await subject.client.post(vms, vm('versioned'));
    const { status, body } = await subject.client.put(`${vms}/versioned`, vm('versioned'));
    assert.equal(status, 422);
    assert.match(body.message, /resourceVersion/);
  });

  test('merge patch: null removes, objects merge, lists are replaced', async () => {
    await subject.client.post(maps, configMap('merge', { data: { a: '1', b: '2' } }));
    const { status, body } = await subject.client.patch(`${maps}/merge`, 'merge', { data: { a: null, c: '3' } });
    assert.equal(status, 200);
    assert.deepEqual(body.data, { b: '2', c: '3' });
  });

  test('JSON patch: applies in order; a failed test changes nothing and is 422; garbage is 400', async () => {
    await subject.client.post(maps, configMap('json'));
    const path = `${maps}/json`;
    const good = await subject.client.patch(path, 'json', [
      { op: 'test', path: '/data/key', value: 'value' },
      { op: 'replace', path: '/data/key', value: 'new' },
      { op: 'add', path: '/metadata/labels', value: { 'a/b': 'c' } },
      { op: 'remove', path: '/metadata/labels/a~1b' },
    ]);
    assert.equal(good.body.data.key, 'new');
    const failed = await subject.client.patch(path, 'json', [
      { op: 'replace', path: '/data/key', value: 'never' },
      { op: 'test', path: '/data/key', value: 'something else' },
    ]);
    assert.equal(failed.status, 422);
    assert.equal((await subject.client.get(path)).body.data.key, 'new');
    assert.equal((await subject.client.patch(path, 'json', { op: 'remove' })).status, 400);
    assert.equal((await subject.client.patch(path, 'json', [{ op: 'remove', path: '/data/none' }])).status, 422);
  });

  test('JSON patch: copies that add more than 3 MiB are 422 and change nothing', async () => {
    const data = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`k${index}`, 'x'.repeat(50_000)]));
    await subject.client.post(maps, configMap('copied', { data }));
    const path = `${maps}/copied`;
    const copies = Array.from({ length: 20 }, (_, index) => ({
      op: 'copy',
      from: '/data',
      path: `/metadata/x${index}`,
    }));
    const { status, body } = await subject.client.patch(path, 'json', copies);
    assert.equal(status, 422, body.message);
    assert.match(body.message, /accumulated size increase of copy|request due to an error/);
    assert.deepEqual((await subject.client.get(path)).body.data, data);
  });

  test('strategic patch: containers merge by name, conditions by type', async () => {
    await subject.client.post(pods, pod('strategic'));
    const image = { spec: { containers: [{ name: 'main', image: 'other' }] } };
    const { status, body } = await subject.client.patch(`${pods}/strategic`, 'strategic', image);
    assert.equal(status, 200);
    assert.equal(body.spec.containers.length, 1);
    assert.equal(body.spec.containers[0].image, 'other');
    const set = (type: string, state: string) =>
      subject.client.patch(`${pods}/strategic/status`, 'strategic', {
        status: { conditions: [{ type, status: state }] },
      });
    await set('Ready', 'False');
    await set('Initialized', 'True');
    const last = await set('Ready', 'True');
    const conditions = last.body.status.conditions.map(({ type, status: state }: { type: string; status: string }) => [
      type,
      state,
    ]);
    assert.deepEqual(
      new Map(conditions),
      new Map([
        ['Ready', 'True'],
        ['Initialized', 'True'],
      ]),
    );
  });

  test('a custom resource refuses a strategic patch with 415', async () => {
    await subject.client.post(vmis, vmi('no-strategic'));
    const { status, body } = await subject.client.patch(`${vmis}/no-strategic`, 'strategic', { spec: {} });
    assert.equal(status, 415);
    assert.equal(body.reason, 'UnsupportedMediaType');
  });

  test('a patch that carries an old resourceVersion is refused with Conflict', async () => {
    await subject.client.post(maps, configMap('locked'));
    const { status } = await subject.client.patch(`${maps}/locked`, 'merge', {
      metadata: { resourceVersion: '1' },
      data: {},
    });
    assert.equal(status, 409);
  });

  test('a VMI without spec.domain is refused, and the message names it', async () => {
    const { status, body } = await subject.client.post(vmis, { ...vmi('bad'), spec: {} });
    assert.equal(status, 422);
    assert.match(body.message, /spec\.domain/);
    const kindless = await subject.client.post(vmis, { metadata: { name: 'bad' }, spec: {} });
    assert.equal(kindless.status, 400);
  });

  test('the status of a VM is written below /status only, that of a VMI with the object', async () => {
    const { body: made } = await subject.client.post(vms, { ...vm('split'), status: { created: true } });
    assert.equal(made.status?.created, undefined);
    const ignored = await subject.client.patch(`${vms}/split`, 'merge', { status: { created: true } });
    assert.equal(ignored.body.status?.created, undefined);
    const status = await subject.client.patch(`${vms}/split/status`, 'merge', {
      spec: { runStrategy: 'Always' },
      status: { created: true },
    });
    assert.equal(status.status, 200);
    assert.equal(status.body.status.created, true);
    assert.equal(status.body.spec.runStrategy, 'Halted');
    await subject.client.post(vmis, vmi('joined', { status: { phase: 'Pending' } }));
    const vmiStatus = await subject.client.patch(`${vmis}/joined`, 'merge', { status: { phase: 'Running' } });
    assert.equal(vmiStatus.body.status.phase, 'Running');
    assert.equal((await subject.client.get(`${vmis}/joined/status`)).status, 404);
  });

  test('generation of a VM counts spec changes, of a VMI status changes too, of neither labels', async () => {
    await subject.client.post(vms, vm('counted'));
    await subject.client.patch(`${vms}/counted`, 'merge', { metadata: { labels: { a: 'b' } } });
    await subject.client.patch(`${vms}/counted/status`, 'merge', { status: { created: true } });
    const changed = await subject.client.patch(`${vms}/counted`, 'merge', { spec: { runStrategy: 'Manual' } });
    assert.equal(changed.body.metadata.generation, 2);
    await subject.client.post(vmis, vmi('counted'));
    await subject.client.patch(`${vmis}/counted`, 'merge', { metadata: { labels: { a: 'b' } } });
    const status = await subject.client.patch(`${vmis}/counted`, 'merge', { status: { phase: 'Running' } });
    assert.equal(status.body.metadata.generation, 2);
  });

  test('a pod keeps its spec but for images, and its status is written below /status only', async () => {
    const { body: made } = await subject.client.post(pods, pod('fixed'));
    assert.equal(made.status.phase, 'Pending');
    const moved = await subject.client.patch(`${pods}/fixed`, 'merge', { spec: { nodeName: 'elsewhere' } });
    assert.equal(moved.status, 422);
    const phase = await subject.client.patch(`${pods}/fixed`, 'merge', { status: { phase: 'Running' } });
    assert.equal(phase.body.status.phase, 'Pending');
    const status = await subject.client.patch(`${pods}/fixed/status`, 'merge', { status: { phase: 'Running' } });
    assert.equal(status.body.status.phase, 'Running');
  });

  test('binding puts a pod on a node, once', async () => {
    await subject.client.post(pods, pod('bound'));
    const binding = {
      apiVersion: 'v1',
      kind: 'Binding',
      metadata: { name: 'bound' },
      target: { kind: 'Node', name: 'one' },
    };
    assert.equal((await subject.client.post(`${pods}/bound/binding`, binding)).status, 201);
    assert.equal((await subject.client.get(`${pods}/bound`)).body.spec.nodeName, 'one');
    assert.equal((await subject.client.post(`${pods}/bound/binding`, binding)).status, 409);
  });

  test('a body over the limit is refused with 413', async () => {
    const { status } = await subject.client.post(
      maps,
      configMap('big', { data: { a: 'x'.repeat(3.5 * 1024 * 1024) } }),
    );
    assert.equal(status, 413);
  });

  test('a method that a path does not have is 405', async () => {
    assert.equal((await subject.client.put(maps, configMap('x'))).status, 405);
    assert.equal((await subject.client.post(`${maps}/made`, configMap('x'))).status, 405);
  });
});
