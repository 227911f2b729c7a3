import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KubeOwnNode, ownNodeByName } from '../../../../src/agent/node/own-node.ts';
import type { KubeObject } from '../../../../src/api/index.ts';
import type { KubeClient, WatchEvent } from '../../../../src/kube/index.ts';
import { ReadYourWrites } from '../../../../src/reconcile/index.ts';
import { FakeClock, settle } from '../../../fixtures/fake-clock.ts';

let version = 1;

function node(name: string, metadata: object = {}, more: object = {}): KubeObject {
  const base = { name, uid: `${name}-uid`, resourceVersion: String(++version) };
  return { apiVersion: 'v1', kind: 'Node', metadata: { ...base, ...metadata }, ...more };
}

/** An API server that lists these nodes, then sends the events it is given. */
function serverWith(listed: KubeObject[]) {
  const events: WatchEvent<KubeObject>[] = [];
  const queries: (string | undefined)[] = [];
  let wake: () => void = () => undefined;
  const client = {
    list: async (_type: unknown, { fieldSelector }: { fieldSelector?: string }) => {
      queries.push(fieldSelector);
      return { items: structuredClone(listed), resourceVersion: '1' };
    },
    async *watch(_type: unknown, { fieldSelector, signal, onOpen }: Parameters<KubeClient['watch']>[1]) {
      queries.push(fieldSelector);
      onOpen?.();
      while (!signal?.aborted) {
        for (const event of events.splice(0)) yield event;
        await new Promise<void>((resolve) => {
          wake = resolve;
          signal?.addEventListener('abort', () => resolve(), { once: true });
        });
      }
    },
  } as unknown as Pick<KubeClient, 'list' | 'watch'>;
  const send = async (type: WatchEvent<KubeObject>['type'], object: KubeObject) => {
    events.push({ type, object } as WatchEvent<KubeObject>);
    wake();
    await settle();
  };
  return { client, queries, send };
}

test('the own node is followed by name: marks are kept, the kubelet’s status makes no noise, an end is told', async () => {
  const first = node(
    'node1',
    { labels: { a: 'b' } },
    { status: { images: ['x'.repeat(1000)] }, spec: { podCIDR: 'y' } },
  );
  const server = serverWith([first, node('node2')]);
  const own = new KubeOwnNode({ nodeName: 'node1' }, { client: server.client, clock: new FakeClock() });
  let changes = 0;
  const end = own.onChange(() => changes++);
  await own.start();
  await settle();
  assert.deepEqual(Object.keys(own.current ?? {}).sort(), ['apiVersion', 'kind', 'metadata']);
  assert.deepEqual(own.current?.metadata.labels, { a: 'b' });
  assert.equal(changes, 1, 'what a server sends of other nodes is not heard of');
  await server.send('MODIFIED', node('node1', { labels: { a: 'b' } }, { status: { conditions: [] } }));
  assert.equal(changes, 1);
  await server.send('MODIFIED', node('node1', { labels: { a: 'c' } }));
  assert.equal(changes, 2);
  await server.send('DELETED', node('node1'));
  assert.equal(changes, 3);
  assert.equal(own.current, undefined);
  assert.ok(server.queries.length > 1);
  for (const query of server.queries) assert.equal(query, 'metadata.name=node1');
  end();
  await own.stop();
});

test('labels and annotations of a wrong type count as not there', async () => {
  const absurd = node('node1', { labels: { good: 'yes', bad: 7, worse: null }, annotations: 'none' });
  const server = serverWith([absurd]);
  const own = new KubeOwnNode({ nodeName: 'node1' }, { client: server.client, clock: new FakeClock() });
  await own.start();
  await settle();
  const { labels, annotations } = own.current?.metadata ?? {};
  assert.deepEqual(labels, { good: 'yes' });
  assert.equal(
    Object.values(annotations ?? {}).every((value) => typeof value === 'string'),
    true,
  );
  await own.stop();
});

test('what a service wrote to the own node is read back until the watch shows it, or shows that others went on', async () => {
  const first = node('node1', { labels: { a: 'b' } });
  const server = serverWith([first]);
  const own = new KubeOwnNode({ nodeName: 'node1' }, { client: server.client, clock: new FakeClock() });
  const nodes = new ReadYourWrites(ownNodeByName('node1', own));
  const seen: unknown[] = [];
  nodes.onChange((key) => seen.push([key, nodes.get(key)?.metadata.labels]));
  assert.deepEqual([nodes.synced, [...nodes.keys()]], [false, []]);
  await own.start();
  await settle();
  assert.deepEqual([nodes.synced, [...nodes.keys()], nodes.get('node2')], [true, ['node1'], undefined]);
  const written = node('node1', { labels: { a: 'ours' } });
  nodes.saw('node1', nodes.get('node1') ?? first, written);
  assert.deepEqual(nodes.get('node1')?.metadata.labels, { a: 'ours' });
  await server.send('MODIFIED', written);
  await server.send('MODIFIED', node('node1', { labels: { a: 'theirs' } }));
  assert.deepEqual(seen, [
    ['node1', { a: 'b' }],
    ['node1', { a: 'theirs' }],
  ]);
  await own.stop();
});
