import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { WebServer } from '../../../src/web/index.ts';
import { rawHttp, rawUpgrade } from '../../fixtures/raw-http.ts';
import { MemoryBackend, vmRow } from '../../fixtures/web-backend.ts';
import { WebSite } from '../../fixtures/web-site.ts';

let site: WebSite;
let cookie: string;

before(async () => {
  site = await WebSite.start();
  site.backend.vms.set(vmRow('demo'));
  cookie = await site.cookie();
});

after(() => site?.dispose());

const vmi = '/v1/namespaces/default/virtualmachineinstances/demo';
const get = (target: string, headers: Record<string, string> = {}) =>
  fetch(`${site.origin}${target}`, { headers, redirect: 'manual' });
const secrets = () => [`Host: 127.0.0.1:${site.port}`, `Cookie: ${cookie}`];

test('without a token there is nothing but the page that asks for it', async () => {
  for (const target of ['/api/vms', '/api/vms/events', '/api/why', '/api/state', `${vmi}/vnc/screenshot`, '/nothing']) {
    const answer = await get(target);
    assert.deepEqual([target, answer.status, await answer.json()], [target, 401, { message: 'a token is needed' }]);
  }
  assert.equal((await get('/assets/page-AAAA.js')).status, 401);
  const page = await get('/');
  assert.equal(page.status, 401);
  assert.match(await page.text(), /The token was printed at start\./);
  assert.deepEqual(site.backend.api.requests, []);
  assert.deepEqual(site.backend.asked, []);
});

test('the address with the token gives a cookie that no script and no other site can use', async () => {
  const answer = await fetch(site.server.url, { redirect: 'manual' });
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get('location'), '/');
  const given = answer.headers.get('set-cookie') ?? '';
  assert.match(given, new RegExp(`^virt-web-${site.port}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Strict$`));
  assert.ok(!given.includes(site.token), 'the cookie is not the token');
  const page = await get('/', { cookie });
  assert.deepEqual([page.status, await page.text()], [200, '<!doctype html><title>the page</title>']);
});

test('a link with the token on another site leads in, too', async () => {
  const headers = ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: document'];
  const answer = await rawHttp(site.port, [
    `GET /?token=${site.token} HTTP/1.1`,
    `Host: 127.0.0.1:${site.port}`,
    ...headers,
  ]);
  assert.equal(answer.status, 200);
  assert.match(answer.body, /http-equiv="refresh" content="0; url=\/"/);
  assert.ok(answer.headers.get('set-cookie')?.startsWith('virt-web-'));
});

test('a program shows the token in a header', async () => {
  const answer = await get('/api/vms', { authorization: `Bearer ${site.token}` });
  assert.deepEqual(await answer.json(), { node: 'node1', actions: true, rows: [vmRow('demo')] });
});

test('a wrong token and an old cookie are refused in words', async () => {
  const page = await get(`/?token=${site.token}x`);
  assert.equal(page.status, 401);
  assert.match(await page.text(), /This token is not the right one/);
  assert.equal(page.headers.get('set-cookie'), null);
  const bearer = await get('/api/vms', { authorization: 'Bearer wrong' });
  assert.deepEqual([bearer.status, await bearer.json()], [401, { message: 'this token is not the right one' }]);
  const old = await get('/api/vms', { cookie: `virt-web-${site.port}=${'A'.repeat(43)}` });
  assert.deepEqual([old.status, await old.json()], [401, { message: 'the session has ended' }]);
});

test('a name that leads to this address is refused, whatever secret comes with it', async () => {
  for (const host of [
    'evil.example',
    `evil.example:${site.port}`,
    '127.0.0.1.evil.example',
    '[::1]',
    '127.0.0.2',
    '',
  ]) {
    const answer = await rawHttp(site.port, ['GET /api/vms HTTP/1.1', `Host: ${host}`, `Cookie: ${cookie}`]);
    assert.deepEqual([host, answer.status], [host, 403]);
    assert.match(answer.body, /is not one of this server/);
  }
});

test('localhost, and the port of a tunnel, are names of this server', async () => {
  for (const host of [`localhost:${site.port}`, '127.0.0.1:9999', 'localhost']) {
    const answer = await rawHttp(site.port, ['GET /api/vms HTTP/1.1', `Host: ${host}`, `Cookie: ${cookie}`]);
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

test('a write with the cookie needs an origin, for a form of an old browser sends none', async () => {
  for (const line of ['POST /api/vms/default/demo/stop', `PUT ${vmi}/reset`]) {
    const answer = await rawHttp(site.port, [`${line} HTTP/1.1`, ...secrets()]);
    assert.deepEqual([answer.status, answer.body], [403, '{"message":"a request of a page names its origin"}']);
  }
});

test('a stream needs the cookie and the origin of the page', async () => {
  const refusals: [string, string[], number][] = [
    [`${vmi}/console`, [`Host: 127.0.0.1:${site.port}`, `Origin: ${site.origin}`], 401],
    [`${vmi}/console`, secrets(), 403],
    [`${vmi}/console`, [...secrets(), 'Origin: http://evil.example'], 403],
    [`${vmi}/console`, ['Host: evil.example', `Cookie: ${cookie}`, 'Origin: http://evil.example'], 403],
    [`${vmi}/usbredir`, [...secrets(), `Origin: ${site.origin}`], 404],
    [`/?token=${site.token}`, [`Host: 127.0.0.1:${site.port}`, `Origin: ${site.origin}`], 401],
  ];
  for (const [target, headers, status] of refusals) {
    const answer = await rawUpgrade(site.port, target, headers);
    assert.deepEqual([target, headers, answer.status], [target, headers, status]);
    assert.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8');
  }
  assert.deepEqual(site.backend.api.sockets, []);
  const answer = await rawUpgrade(site.port, `${vmi}/console?access=view`, [...secrets(), `Origin: ${site.origin}`]);
  assert.equal(answer.status, 101);
  assert.equal(site.backend.api.requests.at(-1)?.line, `UPGRADE ${vmi}/console?access=view`);
  assert.equal(site.backend.api.requests.at(-1)?.headers.cookie, undefined);
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
  const asset = await get('/assets/page-AAAA.js', { cookie });
  assert.equal(asset.status, 200);
  assert.equal(asset.headers.get('content-type'), 'text/javascript; charset=utf-8');
  assert.match(asset.headers.get('cache-control') ?? '', /immutable/);
  for (const target of ['/', '/api/vms', '/assets/other.js']) {
    assert.equal((await get(target, { cookie })).headers.get('cache-control'), 'no-store', target);
  }
});

test('every answer forbids frames, foreign scripts, guessed types and referrers', async () => {
  for (const answer of [await get('/'), await get('/', { cookie }), await get('/nothing', { cookie })]) {
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
  assert.equal((await get('/', { cookie })).status, 200);
});

test('a start asks for a page that was built, and for a port that is free', async () => {
  const options = { port: 0, pageDir: '/nonexistent/web', token: site.token, tokenHint: '' };
  const deps = { backend: new MemoryBackend(), log: silentLogger };
  await assert.rejects(new WebServer(options, deps).start(), { code: 'PAGE_MISSING', message: /npm run build/ });
  assert.throws(() => new WebServer({ ...options, token: 'short' }, deps), { code: 'WEAK_TOKEN' });
  await assert.rejects(WebSite.start({ port: site.port }), { code: 'PORT_IN_USE' });
});
