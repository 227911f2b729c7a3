import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { WebServer } from '../../../src/web/index.ts';
import { rawHttp, rawUpgrade } from '../../fixtures/raw-http.ts';
import { MemoryBackend, memoryRights, vmRow } from '../../fixtures/web-backend.ts';
import { WebSite } from '../../fixtures/web-site.ts';

let site: WebSite;
let key: string;

before(async () => {
  site = await WebSite.start();
  site.backend.vms.set(vmRow('demo'));
  key = await site.session();
});

after(() => site?.dispose());

const vmi = '/v1/namespaces/default/virtualmachineinstances/demo';
const hint = 'open the address that was printed at start';
const get = (target: string, headers: Record<string, string> = {}) =>
  fetch(`${site.origin}${target}`, { headers, redirect: 'manual' });
const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });
const secrets = () => [`Host: 127.0.0.1:${site.port}`, `Authorization: Bearer ${key}`];

test('without a token there is nothing but the page, which has no data', async () => {
  for (const target of [
    '/api/vms',
    '/api/vms/events',
    '/api/why',
    '/api/state',
    '/api/nodes/a/state',
    `${vmi}/vnc/screenshot`,
    '/nothing',
  ]) {
    const answer = await get(target);
    assert.deepEqual(
      [target, answer.status, await answer.json()],
      [target, 401, { message: 'a token is needed', hint }],
    );
  }
  assert.equal((await fetch(`${site.origin}/api/session`, { method: 'POST' })).status, 401);
  assert.deepEqual([(await get('/')).status, (await get('/assets/page-AAAA.js')).status], [200, 200]);
  assert.deepEqual(site.backend.api.requests, []);
  assert.deepEqual(site.backend.asked, []);
});

test('the address has its token where no request carries it, and a host name of this start', async () => {
  const { hostname, port, pathname, search, hash } = new URL(site.server.url);
  assert.match(hostname, /^vms-[\da-f]{16}\.localhost$/);
  assert.deepEqual([port, pathname, search, hash], [`${site.port}`, '/', '', `#token=${site.token}`]);
  const other = await WebSite.start();
  try {
    assert.notEqual(new URL(other.server.url).hostname, hostname);
    assert.notEqual(other.token, site.token);
  } finally {
    await other.dispose();
  }
});

test('no answer sets a cookie, and no cookie lets in: browsers send it to every port of the host', async () => {
  const answers = [await get('/'), await get('/api/vms', bearer(key)), await get('/api/vms', bearer('wrong'))];
  for (const answer of answers) assert.equal(answer.headers.get('set-cookie'), null);
  for (const secret of [key, site.token]) {
    for (const name of [`virt-web-${site.port}`, 'virt-web-session', 'authorization', 'token']) {
      const answer = await get('/api/vms', { cookie: `${name}=${secret}` });
      assert.deepEqual([name, answer.status], [name, 401]);
    }
  }
  assert.equal((await get(`/api/vms?token=${site.token}`)).status, 401);
});

test('cookies of other servers of this host are of no account', async () => {
  const cookie = `virt-web-${site.port}=junk; virt-web-session=junk; virt-web-${site.port}=more`;
  assert.equal((await get('/api/vms', { ...bearer(key), cookie })).status, 200);
});

test('the token makes sessions; a session makes no other one, so that it ends', async () => {
  const post = (secret: string) => fetch(`${site.origin}/api/session`, { method: 'POST', headers: bearer(secret) });
  const made = await post(site.token);
  assert.equal(made.status, 201);
  const session = (await made.json()) as { key: string; lastsMs: number };
  assert.equal(session.lastsMs, 86_400_000);
  assert.ok(!session.key.includes(site.token), 'the session is not the token');
  assert.equal((await get('/api/vms', bearer(session.key))).status, 200);
  assert.equal((await post(session.key)).status, 403);
});

test('what was good before a restart on the same port is worthless after it: token, session, stream, address', async () => {
  const first = await WebSite.start();
  const { port, token } = first;
  const oldName = new URL(first.server.url).host;
  const oldKey = await first.session();
  await first.dispose();
  const second = await WebSite.start({ port });
  try {
    for (const secret of [token, oldKey]) {
      const answer = await fetch(`${second.origin}/api/vms`, { headers: bearer(secret) });
      assert.deepEqual(
        [answer.status, await answer.json()],
        [401, { message: 'this token or session is not of this start of the node', hint }],
      );
      const protocol = `Sec-WebSocket-Protocol: session.virt-handler.io, bearer.virt-handler.io.${secret}`;
      const stream = await rawUpgrade(port, `${vmi}/console`, [`Host: 127.0.0.1:${port}`, protocol]);
      assert.equal(stream.status, 401);
    }
    const page = await rawHttp(port, ['GET / HTTP/1.1', `Host: ${oldName}`]);
    assert.equal(page.status, 403);
    assert.match(page.body, /This address is of an earlier start of the node[\s\S]*Open the address that was printed/);
    assert.doesNotMatch(page.body, /<form|<input|<script/);
    assert.equal((await fetch(`${second.origin}/api/vms`, { headers: bearer(await second.session()) })).status, 200);
  } finally {
    await second.dispose();
  }
});

test('a program shows the token in a header', async () => {
  const answer = await get('/api/vms', bearer(site.token));
  assert.deepEqual(await answer.json(), { ...memoryRights, node: 'node1', rows: [vmRow('demo')] });
});

test('a wrong token is refused in words', async () => {
  const wrong = await get('/api/vms', bearer('wrong'));
  assert.deepEqual(
    [wrong.status, await wrong.json()],
    [401, { message: 'this token or session is not of this start of the node', hint }],
  );
});

test('a name that leads to this address is refused, whatever secret comes with it', async () => {
  for (const host of [
    'evil.example',
    `evil.example:${site.port}`,
    '127.0.0.1.evil.example',
    '[::1]',
    '127.0.0.2',
    'vms.localhost',
    `evil.localhost:${site.port}`,
    `x.${new URL(site.server.url).hostname}`,
    '',
  ]) {
    const answer = await rawHttp(site.port, ['GET /api/vms HTTP/1.1', `Host: ${host}`, `Authorization: Bearer ${key}`]);
    assert.deepEqual([host, answer.status], [host, 403]);
    assert.match(answer.body, /is not one of this server/);
  }
});

test('localhost, and the port of a tunnel, are names of this server', async () => {
  const named = new URL(site.server.url).hostname;
  const hosts = [
    `localhost:${site.port}`,
    '127.0.0.1:9999',
    'localhost',
    `${named}:${site.port}`,
    `${named.toUpperCase()}:9`,
  ];
  for (const host of hosts) {
    const answer = await rawHttp(site.port, ['GET /api/vms HTTP/1.1', `Host: ${host}`, `Authorization: Bearer ${key}`]);
    assert.deepEqual([host, answer.status], [host, 200]);
  }
});

test('pages of other origins are refused, those on another port of this host among them', async () => {
  const origins = ['http://evil.example', 'http://127.0.0.1:1', `https://127.0.0.1:${site.port}`, 'null', ''];
  for (const origin of [...origins, `http://localhost:${site.port}`]) {
    for (const line of ['GET /api/vms', 'POST /api/vms/default/demo/stop', `PUT ${vmi}/reset`]) {
      const answer = await rawHttp(site.port, [`${line} HTTP/1.1`, ...secrets(), `Origin: ${origin}`]);
      assert.deepEqual([origin, line, answer.status], [origin, line, 403]);
    }
  }
  for (const value of ['cross-site', 'same-site']) {
    const answer = await rawHttp(site.port, ['GET /api/vms HTTP/1.1', ...secrets(), `Sec-Fetch-Site: ${value}`]);
    assert.deepEqual([value, answer.status], [value, 403]);
  }
  assert.deepEqual(site.backend.actions.calls, []);
});

test('a form of another site has no secret, whatever it sends', async () => {
  for (const line of ['POST /api/vms/default/demo/stop', `PUT ${vmi}/reset`, 'POST /api/session']) {
    const form = ['Content-Type: application/x-www-form-urlencoded', 'Content-Length: 0'];
    const answer = await rawHttp(site.port, [`${line} HTTP/1.1`, `Host: 127.0.0.1:${site.port}`, ...form]);
    assert.deepEqual([line, answer.status], [line, 401]);
  }
});

test('a stream needs the key and the origin of the page', async () => {
  const host = `Host: 127.0.0.1:${site.port}`;
  const protocols = `Sec-WebSocket-Protocol: session.virt-handler.io, bearer.virt-handler.io.${key}`;
  const refusals: [string, string[], number][] = [
    [`${vmi}/console`, [host, `Origin: ${site.origin}`], 401],
    [`${vmi}/console`, [host, 'Sec-WebSocket-Protocol: bearer.virt-handler.io.'], 401],
    [`${vmi}/console`, [host, protocols, 'Origin: http://evil.example'], 403],
    [`${vmi}/console`, [host, protocols, 'Origin: http://127.0.0.1:1'], 403],
    [`${vmi}/console`, ['Host: evil.example', protocols, 'Origin: http://evil.example'], 403],
    [`${vmi}/usbredir`, [host, protocols, `Origin: ${site.origin}`], 404],
    [`/?token=${site.token}`, [host, `Origin: ${site.origin}`], 401],
  ];
  for (const [target, headers, status] of refusals) {
    const answer = await rawUpgrade(site.port, target, headers);
    assert.deepEqual([target, headers, answer.status], [target, headers, status]);
    assert.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8');
  }
  assert.deepEqual(site.backend.api.sockets, []);
  const answer = await rawUpgrade(site.port, `${vmi}/console?access=view`, [host, protocols, `Origin: ${site.origin}`]);
  assert.equal(answer.status, 101);
  const passedOn = site.backend.api.requests.at(-1);
  assert.equal(passedOn?.line, `UPGRADE ${vmi}/console?access=view`);
  assert.equal(passedOn?.headers['sec-websocket-protocol'], 'session.virt-handler.io');
  assert.doesNotMatch(JSON.stringify(passedOn), /bearer/i);
});

test('paths that are not exactly one of the page go nowhere', async () => {
  const targets = [
    '/assets/../index.html',
    '/assets/..%2f..%2fsecret.js',
    '/assets/%2e%2e/%2e%2e/secret.js',
    '/assets/page-AAAA.js.map',
    '/assets/',
    '/assets',
    '/assets/page-AAAA.js/',
    '/assets/page-AAAA.js%00',
    '/index.html',
    '/ASSETS/page-AAAA.js',
    '//evil.example/',
    `${vmi}/../../../../api/v1/secrets`,
    `${vmi}%2f..%2fother/vnc/screenshot`,
    '/v1/namespaces/default/virtualmachineinstances/../vnc/screenshot',
    '/v1/namespaces/default/virtualmachineinstances/Demo/vnc/screenshot',
    '/v1//namespaces/default/virtualmachineinstances/demo/vnc/screenshot',
    `${vmi}/sev/fetchcertchain`,
    `${vmi}/pause`,
    '/api/vms/default/demo/start',
    '/api/why/default',
  ];
  const asked = site.backend.api.requests.length;
  for (const target of targets) {
    const answer = await rawHttp(site.port, [`GET ${target} HTTP/1.1`, ...secrets()]);
    assert.ok([404, 400].includes(answer.status), `${target}: ${answer.status}`);
    assert.doesNotMatch(answer.body, /above the page|not for browsers/, target);
  }
  const bad = await rawHttp(site.port, ['GET /assets/%zz HTTP/1.1', ...secrets()]);
  assert.equal(bad.status, 400);
  assert.equal(site.backend.api.requests.length, asked);
});

test('files with a hash in their name are kept by the browser, and nothing else is', async () => {
  const asset = await get('/assets/page-AAAA.js');
  assert.equal(asset.status, 200);
  assert.equal(asset.headers.get('content-type'), 'text/javascript; charset=utf-8');
  assert.match(asset.headers.get('cache-control') ?? '', /immutable/);
  for (const target of ['/', '/api/vms', '/assets/other.js']) {
    assert.equal((await get(target, bearer(key))).headers.get('cache-control'), 'no-store', target);
  }
});

test('every answer forbids frames, foreign scripts, guessed types and referrers', async () => {
  for (const answer of [await get('/'), await get('/', bearer(key)), await get('/nothing', bearer(key))]) {
    const policy = answer.headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src 'none'; script-src 'self';/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.equal(answer.headers.get('x-frame-options'), 'DENY');
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
    assert.equal(answer.headers.get('referrer-policy'), 'no-referrer');
    assert.equal(answer.headers.get('access-control-allow-origin'), null);
  }
});

test('oversized headers and garbage are refused, and the server goes on', async () => {
  const long = await rawHttp(site.port, ['GET / HTTP/1.1', ...secrets(), `X-Long: ${'x'.repeat(20_000)}`]);
  assert.equal(long.status, 431);
  const garbage = await rawHttp(site.port, ['\u0016\u0003\u0001 not http']);
  assert.equal(garbage.status, 400);
  assert.equal((await get('/', bearer(key))).status, 200);
});

test('a start asks for a page that was built, and for a port that is free', async () => {
  const options = { port: 0, pageDir: '/nonexistent/web', tokenHint: '' };
  const deps = { backend: new MemoryBackend(), log: silentLogger };
  await assert.rejects(new WebServer(options, deps).start(), { code: 'PAGE_MISSING', message: /npm run build/ });
  await assert.rejects(WebSite.start({ port: site.port }), { code: 'PORT_IN_USE' });
});
