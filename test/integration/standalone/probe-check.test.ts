import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import net, { type AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { issue, makeAuthority } from '../../../src/certificates/index.ts';
import { checkOnce } from '../../../src/standalone/pod-runner/probe-check.ts';
import type { ProbeCheck } from '../../../src/standalone/pod-runner/probe-spec.ts';

type Http = Partial<Extract<ProbeCheck, { kind: 'httpGet' }>>;

describe('a probe of a port', () => {
  let server: http.Server;
  let secure: https.Server;
  let silent: net.Server;
  const asked: http.IncomingMessage[] = [];
  const deps = { sandboxes: { exec: () => assert.fail('nothing is run') }, programs: {} };

  const answer: http.RequestListener = (request, response) => {
    asked.push(request);
    const { pathname } = new URL(request.url ?? '', 'http://x');
    const status = Number(pathname.slice(1)) || 200;
    const places: Record<string, string> = {
      '/302': '/204',
      '/307': '/503',
      '/301': '/301',
      '/308': 'http://other.test/',
    };
    response.writeHead(status, places[pathname] ? { location: places[pathname] } : {});
    response.end('x'.repeat(100_000));
  };

  before(async () => {
    const authority = await makeAuthority({ commonName: 'probes', days: 1 });
    const pair = await issue(authority, { commonName: 'guest', days: 1, usage: 'serverAuth' });
    server = http.createServer(answer).listen(0, '127.0.0.1');
    secure = https.createServer({ cert: pair.cert, key: pair.key }, answer).listen(0, '127.0.0.1');
    silent = net.createServer(() => undefined).listen(0, '127.0.0.1');
    await Promise.all([server, secure, silent].map((each) => once(each, 'listening')));
  });
  after(() => {
    for (const each of [server, secure]) each.closeAllConnections();
    for (const each of [server, secure, silent]) each.close();
  });

  const portOf = (of: net.Server) => (of.address() as AddressInfo).port;
  const check = (what: ProbeCheck, signal = AbortSignal.timeout(5_000)) =>
    checkOnce(what, { uid: 'u', address: '127.0.0.1' }, signal, deps);
  const get = (path: string, changes: Http = {}) =>
    check({ kind: 'httpGet', scheme: 'http', host: undefined, port: portOf(server), path, headers: [], ...changes });

  test('is good when somebody takes the connection, and says why it is not', async () => {
    assert.equal((await check({ kind: 'tcpSocket', host: undefined, port: portOf(server) })).isGood, true);
    const closed = await check({ kind: 'tcpSocket', host: undefined, port: 1 });
    assert.deepEqual([closed.isGood, /ECONNREFUSED/.test(closed.message)], [false, true]);
  });

  test('by HTTP is good from 200 to 399, follows redirects of the same host, and knows when to stop', async () => {
    const cases = {
      '/200': true,
      '/204': true,
      '/302': true,
      '/307': false,
      '/301': false,
      '/308': true,
      '/404': false,
    };
    for (const [path, isGood] of Object.entries(cases)) assert.equal((await get(path)).isGood, isGood, path);
    assert.equal((await get('/503')).message, 'HTTP probe failed with statuscode: 503');
    assert.match((await get('/301')).message, /10 redirects/);
  });

  test('asks with the headers that were given, and by its own name', async () => {
    asked.length = 0;
    await get('/?a=1', {
      headers: [
        ['Host', 'guest.test'],
        ['X-Probe', 'yes'],
      ],
    });
    const { url, headers } = asked[0] ?? assert.fail();
    assert.deepEqual([url, headers.host, headers['x-probe']], ['/?a=1', 'guest.test', 'yes']);
    assert.match(headers['user-agent'] ?? '', /^kube-probe\//);
  });

  test('by HTTPS takes the certificate as it is', async () => {
    assert.equal((await get('/200', { scheme: 'https', port: portOf(secure) })).isGood, true);
    assert.equal((await get('/200', { scheme: 'https' })).isGood, false);
  });

  test('is over when its time is', async () => {
    const outcome = await check(
      { kind: 'httpGet', scheme: 'http', host: undefined, port: portOf(silent), path: '/', headers: [] },
      AbortSignal.timeout(200),
    );
    assert.deepEqual(outcome, { isGood: false, message: 'there was no answer in time' });
  });
});
