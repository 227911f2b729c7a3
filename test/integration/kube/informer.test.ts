import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type KubeObject, resources } from '../../../src/api/index.ts';
import { Informer, type InformerOptions, KubeClient, noCredentials } from '../../../src/kube/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FaultApi } from '../../fixtures/fault-api.ts';

let api: FaultApi;
let client: KubeClient;
let informer: Informer<KubeObject> | undefined;
let reported: string[];

beforeEach(async () => {
  api = await FaultApi.start();
  client = new KubeClient(
    { userAgent: 'test', retry: { attempts: 1 } },
    { access: { server: api.url, credentials: noCredentials } },
  );
  reported = [];
});

afterEach(async () => {
  await informer?.stop();
  informer = undefined;
  client.close();
  await api.stop();
});

/** An informer that writes down what it is told, with a short back-off. */
async function follow(options: Partial<InformerOptions<KubeObject>> = {}): Promise<Informer<KubeObject>> {
  const backoff = { baseMs: 10, maxMs: 40, jitter: 0 };
  informer = new Informer({ type: resources.configMaps, backoff, ...options }, { client });
  const label = ({ metadata }: KubeObject) => `${metadata.name}/${metadata.uid}`;
  informer.addHandlers({
    added: (object) => reported.push(`+${label(object)}`),
    updated: (old, object) => reported.push(`~${label(object)} ${old.metadata.resourceVersion}`),
    deleted: (last, isTombstone) => reported.push(`-${label(last)}${isTombstone ? ' tombstone' : ''}`),
  });
  await informer.start();
  await informer.waitForSync(AbortSignal.timeout(5_000));
  return informer;
}

const watching = () => eventually(() => assert.equal(api.watching, 1));
const names = () =>
  informer
    ?.list()
    .map(({ metadata }) => metadata.name)
    .sort();

test('a list in pages fills the cache, and events change it in order with the old object at hand', async () => {
  for (let index = 0; index < 7; index++) api.put(`m${index}`);
  await follow({ pageSize: 3 });
  assert.equal(api.count('list'), 3);
  assert.equal(informer?.size, 7);
  await watching();
  reported.splice(0);
  const old = api.objects.get('m0')?.metadata.resourceVersion;
  api.put('m0');
  api.put('new');
  api.remove('m1');
  await eventually(() => assert.deepEqual(reported, [`~m0/uid-1 ${old}`, '+new/uid-8', '-m1/uid-2']));
});

test('selectors go into the list and into the watch, with bookmarks and a time limit', async () => {
  await follow({ namespace: 'default', labelSelector: 'node in (a,b)', fieldSelector: 'metadata.name=x' });
  await watching();
  const [list, watch] = api.requests.map(({ url }) => url);
  for (const url of [list, watch]) {
    assert.equal(url?.pathname, '/api/v1/namespaces/default/configmaps');
    assert.equal(url?.searchParams.get('labelSelector'), 'node in (a,b)');
    assert.equal(url?.searchParams.get('fieldSelector'), 'metadata.name=x');
  }
  assert.equal(watch?.searchParams.get('allowWatchBookmarks'), 'true');
  const seconds = Number(watch?.searchParams.get('timeoutSeconds'));
  assert.ok(seconds >= 300 && seconds <= 600, `${seconds}`);
  assert.equal(watch?.searchParams.get('resourceVersion'), '100');
});

test('managed fields are dropped, from listed and watched objects', async () => {
  api.put('listed', {}, { managedFields: [{ manager: 'x' }] } as object);
  await follow();
  await watching();
  api.put('watched', {}, { managedFields: [{ manager: 'x' }] } as object);
  await eventually(() => assert.deepEqual(names(), ['listed', 'watched']));
  for (const object of informer?.list() ?? []) assert.ok(!('managedFields' in object.metadata), object.metadata.name);
});

for (const [how, end] of [
  ['the server ends the watch', () => api.endWatches()],
  ['the connection is reset', () => api.resetWatches()],
] as const) {
  test(`it resumes from the last bookmark without a new list, when ${how}`, async () => {
    api.put('a');
    await follow();
    await watching();
    api.bookmark();
    api.put('b');
    await eventually(() => assert.deepEqual(names(), ['a', 'b']));
    const before = api.count('watch');
    end();
    await eventually(() => assert.ok(api.count('watch') > before));
    await watching();
    api.put('c');
    await eventually(() => assert.deepEqual(names(), ['a', 'b', 'c']));
    assert.equal(api.count('list'), 1);
    assert.equal(api.requests.at(-1)?.url.searchParams.get('resourceVersion'), '103');
    assert.deepEqual(reported.length, 3);
  });
}

const relists: readonly (readonly [string, () => void])[] = [
  ['a 410 on the watch', () => api.fail('watch', { kind: 'status', code: 410, reason: 'Expired' })],
  ['an ERROR event', () => api.fail('watch', { kind: 'errorEvent', code: 410 })],
  ['a line that is no JSON', () => api.fail('watch', { kind: 'text', text: 'what?\n' })],
  ['an event without an object', () => api.fail('watch', { kind: 'text', text: '{"type":"ADDED"}\n' })],
  ['an object without a name', () => api.fail('watch', { kind: 'text', text: '{"type":"ADDED","object":{}}\n' })],
  ['an event of an unknown type', () => api.fail('watch', { kind: 'text', text: '{"type":"X","object":{}}\n' })],
  ['half a line', () => api.fail('watch', { kind: 'text', text: '{"type":"ADDED","obj' })],
  ['null', () => api.fail('watch', { kind: 'text', text: 'null\n' })],
];
for (const [what, inject] of relists) {
  test(`it lists again and reports what is gone as a tombstone, after ${what}`, async () => {
    api.put('kept');
    api.put('lost');
    await follow();
    await watching();
    reported.splice(0);
    api.remove('lost', { quiet: true });
    inject();
    api.endWatches();
    await eventually(() => assert.deepEqual(reported, ['-lost/uid-2 tombstone']));
    assert.equal(api.count('list'), 2);
    await watching();
    api.put('after');
    await eventually(() => assert.deepEqual(names(), ['after', 'kept']));
  });
}

test('a line of more than the limit ends the watch and leads to a new list, not to more memory', async () => {
  client.close();
  const access = { server: api.url, credentials: noCredentials };
  client = new KubeClient({ userAgent: 'test', maxLineBytes: 1000, retry: { attempts: 1 } }, { access });
  api.put('a');
  await follow();
  await watching();
  api.sendRaw(`{"type":"ADDED","object":{"filler":"${'x'.repeat(5000)}`);
  await eventually(() => assert.equal(api.count('list'), 2));
  assert.deepEqual(names(), ['a']);
});

test('an object deleted and made again under the same name is told as deleted and added, seen only by a list', async () => {
  api.put('same');
  await follow();
  await watching();
  reported.splice(0);
  api.remove('same', { quiet: true });
  api.compact();
  const again = api.put('same');
  api.compact();
  api.endWatches();
  await eventually(() => assert.deepEqual(reported, ['-same/uid-1 tombstone', `+same/${again.metadata.uid}`]));
});

test('the cache keeps its last state and is not synced anew, while the server fails', async () => {
  api.put('a');
  await follow();
  await watching();
  api.fail('watch', ...Array.from({ length: 5 }, () => ({ kind: 'status', code: 500 }) as const));
  api.endWatches();
  await eventually(() => assert.ok((informer?.health.failures ?? 0) >= 3));
  assert.deepEqual(names(), ['a']);
  assert.equal(informer?.isConnected, false);
  assert.equal(informer?.hasSynced, true);
  await watching();
  await eventually(() => assert.equal(informer?.isConnected, true));
  assert.equal(api.count('list'), 1);
});

const badLists = [
  { kind: 'status', code: 500 },
  { kind: 'status', code: 403 },
  { kind: 'reset' },
  { kind: 'text', text: '<html>bad gateway</html>', contentType: 'text/html' },
  { kind: 'text', text: '{"items":7}' },
  { kind: 'text', text: '{"metadata":{"resourceVersion":"1"},"items":[{}]}' },
  { kind: 'truncated', text: '{"metadata":{"resourceVersion":"1"},"items":[' },
] as const;
test('it is not synced before a whole list was read, through every kind of bad answer', async () => {
  api.put('a');
  api.fail('list', ...badLists);
  await follow();
  assert.equal(api.count('list'), badLists.length + 1);
  assert.deepEqual(reported, ['+a/uid-1']);
});

test('a continue token that came too late begins the list again', async () => {
  for (let index = 0; index < 4; index++) api.put(`m${index}`);
  const listed = follow({ pageSize: 2 });
  await listed;
  api.compact();
  api.fail('list', { kind: 'status', code: 410, reason: 'Expired' });
  api.fail('watch', { kind: 'errorEvent', code: 410 });
  api.endWatches();
  await eventually(() => assert.equal(api.count('list'), 2 + 1 + 2));
  assert.equal(informer?.size, 4);
});

/** 50, 100, 200 and three times 400 ms, less what timers may be early. */
const sixPausesMs = 1_500;

test('a server that accepts and hangs up at once is asked with growing pauses', async () => {
  await follow({ backoff: { baseMs: 50, maxMs: 400, jitter: 0 } });
  await watching();
  api.fail('watch', ...Array.from({ length: 100 }, () => ({ kind: 'empty' }) as const));
  const before = api.count('watch');
  const startedMs = performance.now();
  api.endWatches();
  await eventually(() => assert.ok(api.count('watch') - before >= 6));
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs >= sixPausesMs, `six watches in ${tookMs} ms`);
});

test('a server that lists well but refuses each watch as expired is asked with growing pauses', async () => {
  await follow({ backoff: { baseMs: 50, maxMs: 400, jitter: 0 } });
  await watching();
  api.fail('watch', ...Array.from({ length: 100 }, () => ({ kind: 'status', code: 410 }) as const));
  const startedMs = performance.now();
  api.endWatches();
  await eventually(() => assert.ok(api.count('list') >= 7));
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs >= sixPausesMs, `six lists in ${tookMs} ms`);
});

test('a silent watch is given up after the idle time and resumed', async () => {
  api.put('a');
  await follow({ idleTimeoutMs: 80 });
  api.fail('watch', { kind: 'silence' });
  await eventually(() => assert.ok(api.count('watch') >= 3));
  assert.match(informer?.health.lastError ?? '', /80 ms/);
  assert.equal(api.count('list'), 1);
});

test('a handler that throws does not stop the others or the cache', async () => {
  api.put('a');
  await follow();
  informer?.addHandlers({
    updated: () => {
      throw new Error('handler');
    },
  });
  await watching();
  api.put('a');
  api.put('b');
  await eventually(() => assert.deepEqual(names(), ['a', 'b']));
});

test('handlers that come later first hear of what is there, and no more after they have left', async () => {
  api.put('a');
  await follow();
  await watching();
  const late: string[] = [];
  const leave = informer?.addHandlers({ added: ({ metadata }) => late.push(metadata.name) });
  assert.deepEqual(late, ['a']);
  leave?.();
  api.put('b');
  await eventually(() => assert.deepEqual(names(), ['a', 'b']));
  assert.deepEqual(late, ['a']);
});

test('an index follows adds, changes and deletes', async () => {
  api.put('a', {}, { labels: { team: 'red' } });
  const byTeam = { team: ({ metadata }: KubeObject) => [metadata.labels?.team ?? 'none'] };
  await follow({ indexes: byTeam });
  await watching();
  const red = () => informer?.byIndex('team', 'red').map(({ metadata }) => metadata.name);
  assert.deepEqual(red(), ['a']);
  api.put('b', {}, { labels: { team: 'red' } });
  api.put('a', {}, { labels: { team: 'blue' } });
  await eventually(() => assert.deepEqual(red(), ['b']));
  api.remove('b');
  await eventually(() => assert.deepEqual(red(), []));
  assert.throws(() => informer?.byIndex('other', ''), RangeError);
});

test('stop ends the watch at once and waits for nothing', async () => {
  await follow();
  await watching();
  const startedMs = performance.now();
  await informer?.stop();
  assert.ok(performance.now() - startedMs < 500);
  await eventually(() => assert.equal(api.watching, 0));
});

test('waiting for the first list ends with the signal, while the server is silent', async () => {
  api.fail('list', { kind: 'silence' });
  informer = new Informer({ type: resources.configMaps }, { client });
  await informer.start();
  await assert.rejects(informer.waitForSync(AbortSignal.timeout(50)), { name: 'TimeoutError' });
});
