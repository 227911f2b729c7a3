import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { configMap, type Subject, startSubject, vmi } from './subject.ts';

describe('watching', () => {
  let subject: Subject;
  let maps: string;
  let vmis: string;

  before(async () => {
    subject = await startSubject({ historySize: 40 });
    maps = subject.maps;
    vmis = `/apis/kubevirt.io/v1/namespaces/${subject.namespace}/virtualmachineinstances`;
  });
  after(() => subject.stop());

  const version = async (path: string) => (await subject.client.get(path)).body.metadata.resourceVersion as string;

  test('a watch from a list tells each later change in order, with growing versions', async () => {
    const watch = await subject.client.watch(`${maps}?watch=1&resourceVersion=${await version(maps)}`);
    await subject.client.post(maps, configMap('seen'));
    await subject.client.patch(`${maps}/seen`, 'merge', { data: { key: 'two' } });
    await subject.client.delete(`${maps}/seen`);
    const events = await watch.take(3);
    watch.close();
    assert.deepEqual(
      events.map(({ type }) => type),
      ['ADDED', 'MODIFIED', 'DELETED'],
    );
    assert.deepEqual(
      events.map(({ object }) => object.data.key),
      ['value', 'two', 'two'],
    );
    const versions = events.map(({ object }) => Number(object.metadata.resourceVersion));
    assert.deepEqual(
      versions,
      [...versions].sort((a, b) => a - b),
    );
    assert.equal(new Set(versions).size, 3);
  });

  test('a watch resumes after any version it has seen, losing and repeating nothing', async () => {
    const from = await version(maps);
    for (const name of ['r1', 'r2', 'r3']) await subject.client.post(maps, configMap(name));
    const first = await subject.client.watch(`${maps}?watch=1&resourceVersion=${from}`);
    const [seen] = await first.take(1);
    first.close();
    const second = await subject.client.watch(
      `${maps}?watch=1&resourceVersion=${seen?.object.metadata.resourceVersion}`,
    );
    const rest = await second.take(2);
    second.close();
    assert.deepEqual(
      [seen, ...rest].map((event) => event?.object.metadata.name),
      ['r1', 'r2', 'r3'],
    );
  });

  test('without a version a watch begins with what is there', async () => {
    await subject.client.post(maps, configMap('present', { metadata: { name: 'present', labels: { here: 'yes' } } }));
    const watch = await subject.client.watch(`${maps}?watch=1&labelSelector=here%3Dyes`);
    const [event] = await watch.take(1);
    watch.close();
    assert.equal(event?.type, 'ADDED');
    assert.equal(event?.object.metadata.name, 'present');
  });

  test('a change of labels is ADDED or DELETED for a watch with a selector', async () => {
    const from = await version(vmis);
    const watch = await subject.client.watch(`${vmis}?watch=1&resourceVersion=${from}&labelSelector=node%3Done`);
    const label = (node: string | null) =>
      subject.client.patch(`${vmis}/moved`, 'merge', { metadata: { labels: { node } } });
    await subject.client.post(vmis, vmi('moved'));
    await label('one');
    await label('two');
    await label('one');
    await subject.client.delete(`${vmis}/moved`);
    const events = await watch.take(4);
    watch.close();
    assert.deepEqual(
      events.map(({ type }) => type),
      ['ADDED', 'DELETED', 'ADDED', 'DELETED'],
    );
    assert.equal(events[1]?.object.metadata.labels.node, 'one', 'as it was while it matched');
    assert.ok(Number(events[1]?.object.metadata.resourceVersion) > Number(events[0]?.object.metadata.resourceVersion));
  });

  test('a watch of one name sees that object only', async () => {
    const from = await version(maps);
    const watch = await subject.client.watch(
      `${maps}?watch=1&resourceVersion=${from}&fieldSelector=metadata.name%3Dme`,
    );
    await subject.client.post(maps, configMap('somebody-else'));
    await subject.client.post(maps, configMap('me'));
    const [event] = await watch.take(1);
    watch.close();
    assert.equal(event?.object.metadata.name, 'me');
  });

  test('a version from before the memory of the server ends the watch with 410', async () => {
    for (let count = 0; count < 45; count++) await subject.client.post(maps, { metadata: { generateName: 'old-' } });
    const watch = await subject.client.watch(`${vmis}?watch=1&resourceVersion=1`);
    const event = await watch.next();
    watch.close();
    assert.equal(event?.type, 'ERROR');
    assert.equal(event?.object.code, 410);
    assert.equal(event?.object.reason, 'Expired');
  });

  test('timeoutSeconds ends the stream', async () => {
    const watch = await subject.client.watch(`${maps}?watch=1&resourceVersion=${await version(maps)}&timeoutSeconds=1`);
    assert.equal(await watch.next(), undefined);
  });

  test('a table watch describes its columns once', async () => {
    const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io';
    const from = await version(maps);
    const watch = await subject.client.watch(`${maps}?watch=1&resourceVersion=${from}`, { accept });
    await subject.client.post(maps, configMap('table-one'));
    await subject.client.post(maps, configMap('table-two'));
    const events = await watch.take(2);
    watch.close();
    assert.deepEqual(
      events.map(({ object }) => object.kind),
      ['Table', 'Table'],
    );
    assert.ok(events[0]?.object.columnDefinitions.length > 0);
    assert.equal(events[1]?.object.columnDefinitions?.length ?? 0, 0);
    assert.equal(events[1]?.object.rows[0].cells[0], 'table-two');
  });

  test('a bad selector, version or timeout is refused before anything is sent', async () => {
    for (const query of ['labelSelector=a%20in%20b', 'resourceVersion=abc']) {
      const { status, body } = await subject.client.get(`${maps}?watch=1&${query}`);
      assert.ok(status === 400 || status === 500, `${query}: ${status}`);
      assert.equal(body.kind, 'Status');
    }
  });
});
