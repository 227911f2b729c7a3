import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, test } from 'node:test';
import { type KubeObject, resources } from '../../../src/api/index.ts';
import { type Credentials, KubeClient, type KubeClientOptions, noCredentials } from '../../../src/kube/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FaultApi } from '../../fixtures/fault-api.ts';

const type = resources.configMaps;
const ref = { namespace: 'default', name: 'a' };
const object: KubeObject = { apiVersion: 'v1', kind: 'ConfigMap', metadata: ref };

let api: FaultApi;
let client: KubeClient;

function connect(options: Partial<KubeClientOptions> = {}, credentials: Credentials = noCredentials): KubeClient {
  client?.close();
  client = new KubeClient(
    { userAgent: 'test/1', retry: { attempts: 4, baseMs: 5, maxMs: 20 }, ...options },
    { access: { server: api.url, credentials } },
  );
  return client;
}

beforeEach(async () => {
  api = await FaultApi.start();
  api.put('a');
  connect();
});
afterEach(async () => {
  client.close();
  await api.stop();
});

test('requests share kept connections and carry the user agent', async () => {
  for (let index = 0; index < 50; index++) await client.get(type, ref);
  assert.equal(api.connections, 1);
  await Promise.all(Array.from({ length: 40 }, () => client.get(type, ref)));
  assert.ok(api.connections <= 8, `${api.connections} connections`);
  assert.equal(api.requests[0]?.headers['user-agent'], 'test/1');
});

test('a signal that lives on is left as it was, whatever became of the requests', async () => {
  const long = new AbortController();
  const { signal } = long;
  for (let index = 0; index < 5; index++) await client.get(type, ref, { signal });
  await assert.rejects(client.get(type, { ...ref, name: 'missing' }, { signal }));
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  long.abort(new Error('enough'));
  await assert.rejects(client.get(type, ref, { signal }), /enough/);
});

test('a guard is asked before each try to change something, and what it refuses is not sent', async () => {
  let mayWrite = true;
  const guard = () => {
    if (!mayWrite) throw new Error('not now');
  };
  const guarded = new KubeClient(
    { userAgent: 'test/1', retry: { attempts: 4, baseMs: 5, maxMs: 20 } },
    { access: { server: api.url, credentials: noCredentials }, guard },
  );
  await guarded.update(type, object);
  const sent = api.requests.length;
  mayWrite = false;
  await assert.rejects(guarded.update(type, object), /not now/);
  await assert.rejects(guarded.delete(type, ref), /not now/);
  await assert.rejects(guarded.patch(type, ref, {}, 'merge'), /not now/);
  assert.equal(api.requests.length, sent);
  await guarded.get(type, ref);
  guarded.close();
});

test('a connection that the server closed while it was idle is no error', async () => {
  await client.get(type, ref);
  for (const socket of api.sockets) socket.destroy();
  await client.update(type, object);
});

const refusals = [
  [404, '', 'NOT_FOUND'],
  [409, 'Conflict', 'CONFLICT'],
  [409, 'AlreadyExists', 'ALREADY_EXISTS'],
  [410, 'Expired', 'GONE'],
  [403, 'Forbidden', 'FORBIDDEN'],
  [401, 'Unauthorized', 'UNAUTHORIZED'],
  [422, 'Invalid', 'INVALID'],
  [400, 'BadRequest', 'INVALID'],
  [413, '', 'TOO_LARGE'],
  [504, 'Timeout', 'TIMEOUT'],
] as const;
for (const [status, reason, code] of refusals) {
  test(`HTTP ${status} ${reason} is ${code} with the server's words, and is not tried again`, async () => {
    api.fail('write', { kind: 'status', code: status, reason });
    await assert.rejects(client.update(type, object), (error: Error & { httpStatus?: number; code?: string }) => {
      assert.deepEqual([error.code, error.httpStatus], [code, status]);
      assert.match(error.message, new RegExp(`PUT /api/v1/.*injected ${status}`));
      return true;
    });
    assert.equal(api.count('write'), 1);
  });
}

for (const fault of [
  { kind: 'status', code: 500 },
  { kind: 'status', code: 503 },
  { kind: 'reset' },
  { kind: 'truncated', text: '{"kind":"Con' },
  { kind: 'text', text: '<html>' },
] as const) {
  const what = 'code' in fault ? `HTTP ${fault.code}` : fault.kind;
  test(`an idempotent request is tried again, after ${what}`, async () => {
    api.fail('get', fault, fault);
    const found = await client.get(type, ref);
    assert.equal(found.metadata.name, 'a');
    assert.equal(api.count('get'), 3);
  });

  test(`a create is not tried again, after ${what}`, async () => {
    api.fail('write', fault);
    await assert.rejects(client.create(type, object));
    assert.equal(api.count('write'), 1);
  });
}

test('429 is waited out as long as the server asks, also for a create', async () => {
  api.fail('write', { kind: 'status', code: 429, reason: 'TooManyRequests', retryAfter: 0.2 });
  const startedMs = performance.now();
  await client.create(type, object);
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs >= 190 && tookMs < 2_000, `${tookMs} ms`);
});

test('tries end after the given number with the last error', async () => {
  api.fail('get', ...Array.from({ length: 9 }, () => ({ kind: 'status', code: 500 }) as const));
  await assert.rejects(client.get(type, ref), { code: 'SERVER_ERROR' });
  assert.equal(api.count('get'), 4);
});

test('a server that does not answer is given up at the deadline', async () => {
  api.fail('get', { kind: 'silence' });
  const startedMs = performance.now();
  await assert.rejects(client.get(type, ref, { timeoutMs: 60 }), { code: 'TIMEOUT', message: /no answer in 60 ms/ });
  assert.ok(performance.now() - startedMs < 1_000);
});

test('an abort ends the call with the reason of the caller', async () => {
  api.fail('get', { kind: 'silence' });
  const reason = new Error('not wanted any more');
  const abort = new AbortController();
  const refused = assert.rejects(client.get(type, ref, { signal: abort.signal }), reason);
  await eventually(() => assert.equal(api.count('get'), 1));
  abort.abort(reason);
  await refused;
});

test('an answer longer than the limit is refused', async () => {
  connect({ maxBodyBytes: 1000, retry: { attempts: 1 } });
  api.fail('get', { kind: 'text', text: JSON.stringify({ filler: 'x'.repeat(2000) }) });
  await assert.rejects(client.get(type, ref), { code: 'BAD_RESPONSE', message: /more than 1000 bytes/ });
});

test('after a 401 the credentials are read again, once', async () => {
  let token = 'old';
  let asked = 0;
  connect(
    {},
    {
      current: async () => ({ headers: { authorization: `Bearer ${token}` } }),
      invalidate: () => {
        asked++;
        token = 'new';
        return true;
      },
    },
  );
  api.fail('get', { kind: 'status', code: 401 });
  await client.get(type, ref);
  assert.deepEqual(
    api.requests.map(({ headers }) => headers.authorization),
    ['Bearer old', 'Bearer new'],
  );
  api.fail('get', { kind: 'status', code: 401 }, { kind: 'status', code: 401 });
  await assert.rejects(client.get(type, ref), { code: 'UNAUTHORIZED' });
  assert.equal(asked, 2);
});

test('an unreachable server is UNREACHABLE with its address', async () => {
  connect({ retry: { attempts: 2, baseMs: 1, maxMs: 2 } });
  await api.stop();
  await assert.rejects(client.create(type, object), {
    code: 'UNREACHABLE',
    message: /127\.0\.0\.1:\d+.*ECONNREFUSED/,
  });
  api = await FaultApi.start();
});

test('each patch kind has its content type, apply its field manager', async () => {
  await client.patch(type, ref, {}, 'merge');
  await client.patch(type, ref, [], 'json');
  await client.patch(type, ref, {}, 'strategic', { subresource: 'status' });
  await client.patch(type, ref, object, 'apply', { fieldManager: 'me', force: true });
  assert.deepEqual(
    api.requests.map(({ headers, url }) => [headers['content-type'], url.pathname.split('/').at(-1), url.search]),
    [
      ['application/merge-patch+json', 'a', ''],
      ['application/json-patch+json', 'a', ''],
      ['application/strategic-merge-patch+json', 'status', ''],
      ['application/apply-patch+yaml', 'a', '?fieldManager=me&force=true'],
    ],
  );
});

test('a delete carries grace period and preconditions', async () => {
  await client.delete(type, ref, { uid: 'u', graceSeconds: 0 });
  assert.deepEqual(JSON.parse(api.requests[0]?.body ?? ''), {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    gracePeriodSeconds: 0,
    preconditions: { uid: 'u' },
  });
});

for (const name of ['..', '.', '', 'a/b', '../secrets/x']) {
  test(`the name ${JSON.stringify(name)} is refused before anything is sent`, () => {
    assert.throws(() => client.get(type, { namespace: 'default', name }), { code: 'INVALID' });
    assert.equal(api.requests.length, 0);
  });
}

test('a name with reserved characters stays one path segment', async () => {
  await assert.rejects(client.get(type, { namespace: 'default', name: 'a?b#c%2f' }), { code: 'NOT_FOUND' });
  assert.equal(api.requests[0]?.url.pathname, '/api/v1/namespaces/default/configmaps/a%3Fb%23c%252f');
});

test('more calls than the rate limit wait for their turn', async () => {
  connect({ rateLimit: { qps: 50, burst: 5 } });
  const startedMs = performance.now();
  await Promise.all(Array.from({ length: 15 }, () => client.get(type, ref)));
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs >= 180, `15 calls took ${tookMs} ms at 50/s after a burst of 5`);
});
