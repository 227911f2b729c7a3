import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { configMap, pod, type Subject, startSubject, vmi } from './subject.ts';

describe('deleting', () => {
  let subject: Subject;
  let maps: string;
  let pods: string;
  let vmis: string;

  before(async () => {
    subject = await startSubject();
    ({ maps, pods } = subject);
    vmis = `/apis/kubevirt.io/v1/namespaces/${subject.namespace}/virtualmachineinstances`;
  });
  after(() => subject.stop());

  test('a deletion answers Success with the uid, and the object is gone', async () => {
    const { body: made } = await subject.client.post(maps, configMap('gone'));
    const { status, body } = await subject.client.delete(`${maps}/gone`);
    assert.equal(status, 200);
    assert.equal(body.status, 'Success');
    assert.equal(body.details.uid, made.metadata.uid);
    assert.equal((await subject.client.get(`${maps}/gone`)).status, 404);
    assert.equal((await subject.client.delete(`${maps}/gone`)).status, 404);
  });

  test('preconditions that do not hold are refused with Conflict', async () => {
    await subject.client.post(maps, configMap('guarded'));
    const wrong = await subject.client.delete(`${maps}/guarded`, { preconditions: { uid: 'another' } });
    assert.equal(wrong.status, 409);
    const stale = await subject.client.delete(`${maps}/guarded`, { preconditions: { resourceVersion: '1' } });
    assert.equal(stale.status, 409);
    assert.equal((await subject.client.get(`${maps}/guarded`)).status, 200);
  });

  test('a finalizer keeps an object until it is taken away; none can be added meanwhile', async () => {
    const finalizers = ['example.com/hold'];
    await subject.client.post(vmis, vmi('held', { metadata: { finalizers } }));
    const { status, body } = await subject.client.delete(`${vmis}/held`);
    assert.equal(status, 200);
    assert.equal(body.kind, 'VirtualMachineInstance');
    assert.ok(body.metadata.deletionTimestamp);
    assert.equal(body.metadata.deletionGracePeriodSeconds, 0);
    assert.equal(body.metadata.generation, 2);
    const again = await subject.client.delete(`${vmis}/held`);
    assert.equal(again.body.metadata.deletionTimestamp, body.metadata.deletionTimestamp);
    const more = { metadata: { finalizers: [...finalizers, 'example.com/more'] } };
    assert.equal((await subject.client.patch(`${vmis}/held`, 'merge', more)).status, 422);
    const undone = { metadata: { deletionTimestamp: null } };
    const kept = await subject.client.patch(`${vmis}/held`, 'merge', undone);
    assert.ok(kept.body.metadata.deletionTimestamp);
    assert.equal((await subject.client.patch(`${vmis}/held`, 'merge', { metadata: { finalizers: null } })).status, 200);
    assert.equal((await subject.client.get(`${vmis}/held`)).status, 404);
  });

  test('a pod on a node waits for its kubelet: deletion time in the future, gone with grace 0', async () => {
    await subject.client.post(pods, pod('graceful', { spec: { nodeName: 'one', terminationGracePeriodSeconds: 20 } }));
    const { body } = await subject.client.delete(`${pods}/graceful`);
    assert.equal(body.metadata.deletionGracePeriodSeconds, 20);
    assert.ok(Date.parse(body.metadata.deletionTimestamp) > Date.now() + 10_000);
    const shorter = await subject.client.delete(`${pods}/graceful`, { gracePeriodSeconds: 3 });
    assert.equal(shorter.body.metadata.deletionGracePeriodSeconds, 3);
    await subject.client.delete(`${pods}/graceful`, { gracePeriodSeconds: 0 });
    assert.equal((await subject.client.get(`${pods}/graceful`)).status, 404);
  });

  test('a pod on no node is gone at once', async () => {
    await subject.client.post(pods, pod('unbound'));
    await subject.client.delete(`${pods}/unbound`);
    assert.equal((await subject.client.get(`${pods}/unbound`)).status, 404);
  });

  test('a collection is deleted as far as the selector goes', async () => {
    for (const group of ['x', 'x', 'y']) {
      await subject.client.post(maps, { metadata: { generateName: 'coll-', labels: { group } } });
    }
    const { status } = await subject.client.delete(`${maps}?labelSelector=group%3Dx`);
    assert.equal(status, 200);
    const { body } = await subject.client.get(`${maps}?labelSelector=group`);
    assert.deepEqual(
      body.items.map((item: { metadata: { labels: { group: string } } }) => item.metadata.labels.group),
      ['y'],
    );
  });

  test('a deletion on trial deletes nothing', async () => {
    await subject.client.post(maps, configMap('trial'));
    assert.equal((await subject.client.delete(`${maps}/trial?dryRun=All`)).status, 200);
    assert.equal((await subject.client.get(`${maps}/trial`)).status, 200);
  });

  test('an unknown propagation policy or a negative grace period is refused', async () => {
    await subject.client.post(maps, configMap('policy'));
    const policy = await subject.client.delete(`${maps}/policy`, { propagationPolicy: 'Sideways' });
    assert.ok([400, 422].includes(policy.status), String(policy.status));
    assert.equal((await subject.client.get(`${maps}/policy`)).status, 200);
  });

  test('default may not be deleted', async () => {
    assert.equal((await subject.client.delete('/api/v1/namespaces/default')).status, 403);
  });
});
