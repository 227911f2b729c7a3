import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type KubeObject, keyOf } from '../../../src/api/index.ts';
import { ObjectStore } from '../../../src/kube/store.ts';
import { cachedObjects, type InformerView } from '../../../src/reconcile/index.ts';

const pod = (resourceVersion: string): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'pod1', namespace: 'default', uid: 'uid-1', resourceVersion },
});

/** The store of an informer, without its requests. */
function informer() {
  const store = new ObjectStore<KubeObject>({}, (error) => assert.fail(String(error)));
  const view: InformerView<KubeObject> = {
    hasSynced: true,
    get: (key) => store.get(key),
    keys: () => store.keys(),
    addHandlers: (handlers) => store.addHandlers(handlers),
  };
  return { store, view };
}

test('an informer is seen as cached objects, each of whose changes is told by its key', () => {
  const { store, view } = informer();
  const objects = cachedObjects(view, keyOf);
  const reported: string[] = [];
  const end = objects.onChange((key) => reported.push(key));
  store.upsert(pod('1'));
  store.upsert(pod('2'));
  assert.equal(objects.get('default/pod1')?.metadata.resourceVersion, '2');
  store.delete(pod('3'));
  end();
  store.upsert(pod('4'));
  assert.deepEqual(reported, ['default/pod1', 'default/pod1', 'default/pod1']);
  assert.deepEqual([objects.synced, [...objects.keys()]], [true, ['default/pod1']]);
});
