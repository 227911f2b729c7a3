import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventsOf, podsOf } from '../../../../src/web/page/kube-calls.ts';

const pod = (name: string, domain: string, creationTimestamp: string) => ({
  metadata: { name, creationTimestamp, annotations: { 'kubevirt.io/domain': domain } },
});

test('of all launchers a VM’s own are asked for, and the youngest is the first', async (t) => {
  const asked: string[] = [];
  const items = [
    pod('old', 'demo', '2026-01-01T00:00:00Z'),
    pod('new', 'demo', '2026-01-02T00:00:00Z'),
    pod('other', 'demo2', '2026-01-03T00:00:00Z'),
  ];
  t.mock.method(globalThis, 'fetch', async (path: string) => {
    asked.push(decodeURIComponent(path));
    return Response.json({ items: path.includes('/pods') ? items : [{ metadata: { name: 'a' } }] });
  });
  const { signal } = new AbortController();
  const vm = { namespace: 'default', name: 'demo' };
  const names = (await podsOf(vm, signal)).map(({ metadata }) => metadata.name);
  assert.deepEqual(names, ['new', 'old']);
  assert.equal((await eventsOf(vm, signal)).length, 3);
  await podsOf({ ...vm, name: 'a'.repeat(64) }, signal);
  const pods = '/kube/api/v1/namespaces/default/pods?labelSelector=';
  const events = '/kube/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=';
  const own = `${pods}vmi.kubevirt.io/id=demo`;
  // A longer name is no value of a label.
  assert.deepEqual(asked, [
    own,
    own,
    ...['demo', 'new', 'old'].map((each) => events + each),
    `${pods}kubevirt.io=virt-launcher`,
  ]);
});
