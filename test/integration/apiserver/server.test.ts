import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ApiServer, ensureCertificates } from '../../../src/apiserver/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { type EmbeddedApi, startEmbeddedApi, userToken } from '../../fixtures/embedded-api.ts';
import { eventually } from '../../fixtures/eventually.ts';

const maps = '/api/v1/namespaces/default/configmaps';
const map = (name: string, more: object = {}) => ({ metadata: { name, ...more }, data: { a: 'b' } });

describe('access', () => {
  let api: EmbeddedApi;
  before(async () => {
    api = await startEmbeddedApi();
  });
  after(() => api.stop());

  const authorizations = [
    '',
    'Bearer',
    'Bearer ',
    `bearer  ${userToken}`,
    `Basic ${userToken}`,
    `Bearer ${userToken}x`,
    `Bearer ${userToken} x`,
  ];
  for (const authorization of authorizations) {
    test(`"${authorization.replace(userToken, '<token>')}" is no way in: 401`, async () => {
      const { status, body, headers } = await api.client.get(maps, { headers: { authorization } });
      assert.equal(status, 401);
      assert.equal(body.reason, 'Unauthorized');
      assert.match(headers['www-authenticate'] ?? '', /Bearer/);
    });
  }

  test('health and version need no token', async () => {
    for (const url of ['/healthz', '/livez', '/readyz', '/version']) {
      assert.equal((await api.client.withToken('').get(url)).status, 200);
    }
  });

  for (const host of ['evil.example', 'localhost.evil.example', '127.0.0.1.nip.io:6443', '10.0.0.1']) {
    test(`Host "${host}" is refused: a web page could have resolved it to this machine`, async () => {
      const { status, body } = await api.client.get('/healthz', { headers: { host } });
      assert.equal(status, 403);
      assert.equal(body.reason, 'Forbidden');
    });
  }

  test('localhost and other loopback names are taken', async () => {
    for (const host of ['localhost', `localhost:${api.port}`, '127.0.0.1', '[::1]:1']) {
      assert.equal((await api.client.get('/healthz', { headers: { host } })).status, 200);
    }
  });

  test('requests that carry a foreign Origin are refused', async () => {
    for (const origin of ['https://evil.example', 'null', 'http://localhost:1']) {
      assert.equal((await api.client.get(maps, { headers: { origin } })).status, 403);
    }
    assert.equal((await api.client.get(maps, { headers: { origin: `https://127.0.0.1:${api.port}` } })).status, 200);
  });

  test('strangers who connect and say nothing keep nobody out, and no known client’s watch ends for them', async () => {
    const small = await startEmbeddedApi({ maxConnections: 8 });
    const silent: Socket[] = [];
    try {
      const watch = await small.client.watch(`${maps}?watch=1&resourceVersion=0`);
      for (let count = 0; count < 40; count++) {
        const socket = connect(small.port, '127.0.0.1').on('error', () => undefined);
        silent.push(socket);
        await once(socket, 'connect');
      }
      const { status } = await small.client.post(maps, map('meanwhile'));
      assert.equal(status, 201);
      assert.equal((await watch.next())?.object.metadata.name, 'meanwhile');
      // Well before a handshake that nobody begins is given up.
      await eventually(() => assert.ok(silent.filter(({ closed }) => closed).length > 30), 5_000);
    } finally {
      for (const socket of silent) socket.destroy();
      await small.stop();
    }
  });

  test('a client that does not know the authority does not connect', async () => {
    const asking = request({ host: '127.0.0.1', port: api.port, path: '/healthz' });
    asking.end();
    const [error] = await once(asking, 'error');
    assert.match(String(error), /certificate/);
  });

  test('a short token is refused at construction', () => {
    const options = {
      dataDir: api.dir,
      host: '127.0.0.1',
      port: 0,
      tls: undefined,
      tokens: [{ token: 'short', user: 'x' }],
    };
    assert.throws(() => new ApiServer(options, { log: silentLogger }), /less than 16 characters/);
  });
});

describe('bad input', () => {
  let api: EmbeddedApi;
  before(async () => {
    api = await startEmbeddedApi();
  });
  after(() => api.stop());

  const bodies: [string, string | Buffer, RegExp][] = [
    ['half JSON', '{\n  "metadata": {"name": "x"', /line 2, column/],
    ['a stray comma', '{"a": 1,\n}', /line 2, column 1/],
    ['a list', '[]', /one object/],
    ['a number', '5', /one object/],
    ['null', 'null', /one object/],
    ['metadata of the wrong type', '{"metadata": 5}', /metadata must be an object/],
    ['a name of the wrong type', '{"metadata": {"name": 5}}', /metadata\.name must be text/],
    ['a prototype', '{"metadata": {"name": "x"}, "__proto__": {"a": 1}}', /__proto__/],
    ['great depth', `${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`, /deeper than/],
    ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x00, 0x80]), /no UTF-8/],
  ];
  for (const [what, body, message] of bodies) {
    test(`${what} is refused with 400 and a reason`, async () => {
      const answer = await api.client.call('POST', maps, body);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.body.kind, 'Status');
      assert.match(answer.body.message, message);
    });
  }

  test('broken YAML is refused with its line; a bomb of aliases too', async () => {
    const contentType = 'application/yaml';
    const broken = await api.client.post(maps, 'a: b\n  c: d\n', { contentType });
    assert.equal(broken.status, 400);
    assert.match(broken.body.message, /line 1, column 4/);
    const levels = Array.from(
      { length: 9 },
      (_, level) => `x${level + 1}: &x${level + 1} [${Array(9).fill(`*x${level}`).join(', ')}]`,
    );
    const bomb = await api.client.post(maps, ['x0: &x0 [a]', ...levels].join('\n'), { contentType });
    assert.equal(bomb.status, 400);
  });

  test('garbage and unknown kinds in protobuf are refused', async () => {
    const contentType = 'application/vnd.kubernetes.protobuf';
    const send = (body: Buffer) => api.client.post(maps, body, { contentType });
    const magic = Buffer.from('k8s\0');
    assert.equal((await send(Buffer.from('nonsense'))).status, 400);
    assert.equal((await send(Buffer.concat([magic, Buffer.from([0x0a, 0xff, 0xff])]))).status, 400);
    assert.equal((await send(Buffer.concat([magic, Buffer.from([0x0a, 0x02, 0x0a, 0x00])]))).status, 415);
  });

  test('an object over 1.5 MiB is refused with 413', async () => {
    const { status } = await api.client.post(maps, { ...map('big'), data: { a: 'x'.repeat(1.7 * 1024 * 1024) } });
    assert.equal(status, 413);
  });

  test('hostile paths are 404 or 400, never more', async () => {
    for (const url of [
      '/api/v1/namespaces/..%2f..%2fetc/configmaps',
      '/api/v1/%zz',
      '/api//v1',
      '/api/v1/namespaces//pods',
      '/apis/__proto__/v1/constructor',
      '/api/v1/configmaps/x',
    ]) {
      const { status, body } = await api.client.get(url);
      assert.ok([200, 400, 404].includes(status), `${url}: ${status}`);
      assert.ok(['Status', 'ConfigMapList', 'PodList'].includes(body.kind), url);
    }
    assert.equal((await api.client.get('/healthz')).status, 200);
  });

  test('the value of a secret does not come back in an error', async () => {
    const { status, text } = await api.client.post('/api/v1/namespaces/default/secrets', {
      metadata: { name: 's' },
      data: { k: 'not base64 !' },
    });
    assert.equal(status, 422);
    assert.ok(!text.includes('not base64'));
  });
});

describe('watches', () => {
  test('a bookmark comes in its time, and one before the agreed end', async () => {
    const api = await startEmbeddedApi({ bookmarkIntervalMs: 50 });
    try {
      const watch = await api.client.watch(
        `${maps}?watch=1&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=1`,
      );
      const events = [];
      for (let event = await watch.next(); event; event = await watch.next()) events.push(event);
      assert.ok(events.length >= 3);
      assert.ok(
        events.every(({ type, object }) => type === 'BOOKMARK' && /^\d+$/.test(object.metadata.resourceVersion)),
      );
      const silent = await api.client.watch(`${maps}?watch=1&resourceVersion=0&timeoutSeconds=1`);
      assert.equal(await silent.next(), undefined);
    } finally {
      await api.stop();
    }
  });

  test('sendInitialEvents sends the state, then a bookmark that says so, then changes', async () => {
    const api = await startEmbeddedApi();
    try {
      await api.client.post(maps, map('init', { labels: { initial: 'yes' } }));
      const query = 'watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true';
      const watch = await api.client.watch(`${maps}?${query}&labelSelector=initial`);
      const [state, mark] = await watch.take(2);
      assert.equal(state?.type, 'ADDED');
      assert.equal(mark?.type, 'BOOKMARK');
      assert.equal(mark?.object.metadata.annotations['k8s.io/initial-events-end'], 'true');
      await api.client.patch(`${maps}/init`, 'merge', { data: { a: 'later' } });
      const [change] = await watch.take(1);
      watch.close();
      assert.equal(change?.type, 'MODIFIED');
    } finally {
      await api.stop();
    }
  });

  test('a client that does not read is sent away with 410, and memory stays bounded', async () => {
    const api = await startEmbeddedApi({ watchBufferBytes: 256 * 1024 });
    try {
      await api.client.post(maps, map('flood'));
      const watch = await api.client.watch(`${maps}?watch=1`);
      await watch.take(1);
      watch.response.pause();
      const padding = 'x'.repeat(200_000);
      for (let count = 0; count < 100; count++) {
        await api.client.patch(`${maps}/flood`, 'merge', { data: { count: String(count), padding } });
      }
      watch.response.resume();
      const events = [];
      for (let event = await watch.next(); event; event = await watch.next()) events.push(event);
      const last = events.at(-1);
      assert.equal(last?.type, 'ERROR');
      assert.equal(last?.object.code, 410);
      assert.ok(events.length < 100);
    } finally {
      await api.stop();
    }
  });

  test('a state larger than the buffer is still sent whole at the start', async () => {
    const api = await startEmbeddedApi({ watchBufferBytes: 64 * 1024 });
    try {
      const padding = 'x'.repeat(100_000);
      for (let count = 0; count < 10; count++) await api.client.post(maps, { ...map(`m${count}`), data: { padding } });
      const watch = await api.client.watch(`${maps}?watch=1`);
      assert.equal((await watch.take(10)).length, 10);
      watch.close();
    } finally {
      await api.stop();
    }
  });

  test('a client that reads slowly gets the state at the start and every later change, once and in order', async () => {
    const api = await startEmbeddedApi({ watchBufferBytes: 64 * 1024, historyBytes: 64 * 1024 * 1024 });
    try {
      const padding = 'x'.repeat(100_000);
      // More than the buffers of both ends of a connection take.
      const names = Array.from({ length: 150 }, (_, index) => `m${String(index).padStart(3, '0')}`);
      for (const name of names) await api.client.post(maps, { ...map(name), data: { padding } });
      const query = 'watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true';
      const watch = await api.client.watch(`${maps}?${query}`);
      watch.response.pause();
      const before = await api.client.get(`${maps}?limit=1`);
      for (const name of names) await api.client.patch(`${maps}/${name}`, 'merge', { data: { padding: 'later' } });
      await api.client.delete(`${maps}/${names[0]}`);
      const events = await watch.take(names.length * 2 + 2);
      watch.close();
      const reported = events.map(({ type, object }) => `${type} ${object.metadata.name ?? ''}`);
      assert.deepEqual(reported, [
        ...names.map((name) => `ADDED ${name}`),
        'BOOKMARK ',
        ...names.map((name) => `MODIFIED ${name}`),
        `DELETED ${names[0]}`,
      ]);
      assert.ok(
        events.slice(0, names.length).every(({ object }) => object.data.padding === padding),
        'as it was then',
      );
      const mark = events[names.length]?.object.metadata;
      assert.equal(mark.annotations['k8s.io/initial-events-end'], 'true');
      assert.equal(mark.resourceVersion, before.body.metadata.resourceVersion);
    } finally {
      await api.stop();
    }
  });

  test('one more watch than a user may have is 429 with the limit and Retry-After; another user has its own', async () => {
    const api = await startEmbeddedApi({ limits: { streams: [2, 3] } });
    try {
      const [one] = [await api.client.watch(`${maps}?watch=1`), await api.client.watch(`${maps}?watch=1`)];
      const refused = await api.client.get(`${maps}?watch=1`);
      assert.equal(refused.status, 429);
      assert.equal(refused.headers['retry-after'], '1');
      assert.equal(refused.body.reason, 'TooManyRequests');
      assert.match(refused.body.message, /user "user" may have 2 watches and followed logs/);
      const other = await api.controller.watch(`${maps}?watch=1`);
      assert.equal(other.status, 200);
      assert.match((await api.controller.get(`${maps}?watch=1`)).body.message, /all users together may have 3/);
      one.close();
      await eventually(async () => {
        const again = await api.client.watch(`${maps}?watch=1`);
        assert.equal(again.status, 200);
      });
    } finally {
      await api.stop();
    }
  });

  test('a list that nobody reads is not made whole; read later, it is', async () => {
    const api = await startEmbeddedApi();
    try {
      const padding = 'x'.repeat(100_000);
      for (let count = 0; count < 150; count++) await api.client.post(maps, { ...map(`m${count}`), data: { padding } });
      for (const accept of ['application/json', 'application/yaml']) {
        const late = await api.client.watch(maps, { accept });
        late.response.pause();
        await api.client.patch(`${maps}/m99`, 'merge', { data: { padding: `changed after ${accept}` } });
        let text = '';
        for await (const chunk of late.response) text += chunk;
        const { items } = JSON.parse(text);
        assert.equal(items.length, 150);
        assert.ok(!items.at(-1).data.padding.includes(`after ${accept}`), 'as it was when it was asked for');
      }
    } finally {
      await api.stop();
    }
  });

  test('a restart keeps objects and versions; a watch goes on from the last version', async () => {
    const api = await startEmbeddedApi();
    try {
      const { body: made } = await api.client.post(maps, map('kept'));
      const open = await api.client.watch(`${maps}?watch=1`);
      await open.take(1);
      await api.restart();
      while (await open.next().catch(() => undefined));
      const { body: list } = await api.client.get(maps);
      assert.deepEqual(list.items[0], made);
      const watch = await api.client.watch(`${maps}?watch=1&resourceVersion=${list.metadata.resourceVersion}`);
      await api.client.post(maps, map('after'));
      const [event] = await watch.take(1);
      watch.close();
      assert.equal(event?.object.metadata.name, 'after');
      assert.ok(Number(event?.object.metadata.resourceVersion) > Number(list.metadata.resourceVersion));
      const old = await api.client.watch(`${maps}?watch=1&resourceVersion=${made.metadata.resourceVersion - 1}`);
      const gone = await old.next();
      assert.equal(gone?.object.code, 410);
    } finally {
      await api.stop();
    }
  });
});

describe('garbage collection', () => {
  let api: EmbeddedApi;
  before(async () => {
    api = await startEmbeddedApi({ eventTtlMs: 300 });
  });
  after(() => api.stop());

  const owned = (name: string, uid: string, ownerName: string, more: object = {}) =>
    map(name, { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: ownerName, uid, ...more }] });
  const isThere = async (name: string) => (await api.client.get(`${maps}/${name}`)).status === 200;
  const make = async (body: object) => (await api.client.post(maps, body)).body.metadata.uid as string;

  test('what an owner leaves behind is deleted, and what that one owned too', async () => {
    const uid = await make(map('owner'));
    const child = await make(owned('child', uid, 'owner'));
    await make(owned('grandchild', child, 'child'));
    await api.client.delete(`${maps}/owner`);
    await eventually(async () => assert.ok(!(await isThere('child')) && !(await isThere('grandchild'))));
  });

  test('an object with another living owner only loses the reference', async () => {
    const [one, two] = [await make(map('one')), await make(map('two'))];
    const references = [owned('', one, 'one'), owned('', two, 'two')].flatMap(
      ({ metadata }) => (metadata as unknown as { ownerReferences: object[] }).ownerReferences,
    );
    await make(map('shared', { ownerReferences: references }));
    await api.client.delete(`${maps}/one`);
    await eventually(async () => {
      const { body } = await api.client.get(`${maps}/shared`);
      assert.deepEqual(
        body.metadata.ownerReferences.map(({ name }: { name: string }) => name),
        ['two'],
      );
    });
  });

  test('an object made with an owner that is not there is deleted; an owner of an unknown kind is trusted', async () => {
    await make(owned('late', '11111111-1111-1111-1111-111111111111', 'never'));
    await eventually(async () => assert.ok(!(await isThere('late'))));
    const foreign = [{ apiVersion: 'example.com/v1', kind: 'Thing', name: 'x', uid: '2' }];
    await make(map('foreign', { ownerReferences: foreign }));
    await make(owned('late-too', '11111111-1111-1111-1111-111111111111', 'never'));
    await eventually(async () => assert.ok(!(await isThere('late-too'))));
    assert.ok(await isThere('foreign'));
  });

  test('Foreground: the owner goes after what blocks it', async () => {
    const uid = await make(map('front'));
    await make({ ...owned('blocker', uid, 'front', { blockOwnerDeletion: true }) });
    await api.client.patch(`${maps}/blocker`, 'merge', { metadata: { finalizers: ['example.com/hold'] } });
    const { body } = await api.client.delete(`${maps}/front`, { propagationPolicy: 'Foreground' });
    assert.deepEqual(body.metadata.finalizers, ['foregroundDeletion']);
    await eventually(async () => {
      const blocker = await api.client.get(`${maps}/blocker`);
      assert.ok(blocker.body.metadata.deletionTimestamp);
    });
    assert.ok(await isThere('front'));
    await api.client.patch(`${maps}/blocker`, 'merge', { metadata: { finalizers: null } });
    await eventually(async () => assert.ok(!(await isThere('front')) && !(await isThere('blocker'))));
  });

  test('Orphan: dependents stay and lose the reference', async () => {
    const uid = await make(map('parent'));
    await make(owned('orphan', uid, 'parent'));
    await api.client.delete(`${maps}/parent`, { propagationPolicy: 'Orphan' });
    await eventually(async () => assert.ok(!(await isThere('parent'))));
    const { body } = await api.client.get(`${maps}/orphan`);
    assert.equal(body.metadata.ownerReferences, undefined);
  });

  test('events are dropped some time after they were last seen', async () => {
    const events = '/api/v1/namespaces/default/events';
    const event = {
      metadata: { generateName: 'e.' },
      involvedObject: { kind: 'Pod', name: 'x' },
      lastTimestamp: new Date().toISOString(),
    };
    const { body } = await api.client.post(events, event);
    assert.equal((await api.client.get(`${events}/${body.metadata.name}`)).status, 200);
    await eventually(async () => assert.equal((await api.client.get(`${events}/${body.metadata.name}`)).status, 404));
  });

  test('a namespace goes when its content is gone, and takes nothing new meanwhile', async () => {
    await api.client.post('/api/v1/namespaces', { metadata: { name: 'ending' } });
    const inside = '/api/v1/namespaces/ending/configmaps';
    await api.client.post(inside, map('held', { finalizers: ['example.com/hold'] }));
    const { body } = await api.client.delete('/api/v1/namespaces/ending');
    assert.equal(body.status.phase, 'Terminating');
    const late = await api.client.post(inside, map('late'));
    assert.equal(late.status, 403);
    await eventually(async () => assert.ok((await api.client.get(`${inside}/held`)).body.metadata.deletionTimestamp));
    await api.client.patch(`${inside}/held`, 'merge', { metadata: { finalizers: null } });
    await eventually(async () => assert.equal((await api.client.get('/api/v1/namespaces/ending')).status, 404));
  });
});

describe('certificates and kubeconfig', () => {
  let dir: string;
  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'certs-'));
  });
  after(() => rm(dir, { recursive: true, force: true }));

  test('are kept while good; made again when torn, foreign or about to expire', async () => {
    const first = await ensureCertificates(dir);
    assert.deepEqual(await ensureCertificates(dir), first);
    for (const file of ['ca.key', 'server.key']) assert.equal((await stat(path.join(dir, file))).mode & 0o077, 0);
    await writeFile(path.join(dir, 'server.crt'), (await readFile(path.join(dir, 'server.crt'))).subarray(0, 100));
    const second = await ensureCertificates(dir);
    assert.notEqual(second.cert, first.cert);
    await writeFile(path.join(dir, 'ca.crt'), first.ca);
    const third = await ensureCertificates(dir);
    assert.notEqual(third.cert, second.cert);
    const later = new Date(Date.now() + 820 * 24 * 3600 * 1000);
    const fourth = await ensureCertificates(dir, later).catch((error) => error);
    assert.notEqual(await readFile(path.join(dir, 'server.crt'), 'utf8'), third.cert, String(fourth));
  });

  test('the kubeconfig is for its owner only', async () => {
    const api = await startEmbeddedApi();
    try {
      assert.equal((await stat(api.kubeconfig)).mode & 0o777, 0o600);
    } finally {
      await api.stop();
    }
  });
});
