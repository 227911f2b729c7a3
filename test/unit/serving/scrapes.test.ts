import assert from 'node:assert/strict';
import { createServer, get, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { Scrapes, type ScrapesDeps } from '../../../src/serving/scrapes.ts';
import { eventually, settled } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

const bytes = (text: string) => Buffer.from(text);
const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

async function serve(more: Partial<ScrapesDeps> = {}, options: { timeoutMs?: number; giveWayMs?: number } = {}) {
  const scrapes = new Scrapes(
    { maxRequests: 3, timeoutMs: 30_000, giveWayMs: 5_000, ...options },
    {
      want: async () => undefined,
      own: async () => 'own 1\n',
      vms: () => ['vm 1\n', 'vm 2\n'].map(bytes),
      clock: systemClock,
      log: silentLogger,
      ...more,
    },
  );
  const server = createServer((request, response) => void scrapes.answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stops.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

function ask(port: number, headers: Record<string, string> = {}, method = 'GET') {
  return new Promise<{ status: number; headers: IncomingMessage['headers']; body: Buffer }>((resolve, reject) => {
    const call = get({ host: '127.0.0.1', port, headers, method, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
      );
    });
    call.once('error', reject);
  });
}

test('a scrape has the metrics of the agent, of the scrapes and of the VMs', async () => {
  const port = await serve();
  const { status, headers, body } = await ask(port);
  assert.equal(status, 200);
  assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
  const text = body.toString();
  assert.match(text, /^own 1\n/);
  assert.match(text, /promhttp_metric_handler_requests_in_flight 1\n/);
  assert.match(text, /promhttp_metric_handler_requests_total\{code="200"\} 1\n/);
  assert.match(text, /vm 1\nvm 2\n$/);
  assert.equal((await ask(port, {}, 'HEAD')).body.length, 0);
});

test('gzip is used when it is asked for, and only then', async () => {
  const port = await serve();
  for (const offer of ['gzip', 'deflate, GZIP;q=0.5', '*']) {
    const { headers, body } = await ask(port, { 'accept-encoding': offer });
    assert.equal(headers['content-encoding'], 'gzip', offer);
    assert.match(gunzipSync(body).toString(), /^own 1\n/);
  }
  for (const offer of ['', 'identity', 'gzip;q=0', 'br', 'gzip;q=x', '*;q=0']) {
    const { headers, body } = await ask(port, { 'accept-encoding': offer });
    assert.equal(headers['content-encoding'], undefined, offer);
    assert.match(body.toString(), /^own 1\n/);
  }
});

test('beyond the limit a scrape is refused with words, and let in when another has ended', async () => {
  let letGo: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  let waiting = 0;
  const port = await serve({
    want: () => {
      waiting++;
      return gate;
    },
  });
  const open = [ask(port), ask(port), ask(port)];
  await eventually(() => assert.equal(waiting, 3));
  const { status, body, headers } = await ask(port);
  assert.equal(status, 503);
  assert.match(headers['content-type'] ?? '', /^text\/plain/);
  assert.equal(body.toString(), 'Limit of concurrent requests reached (3), try again later.\n');
  letGo();
  for (const answer of await Promise.all(open)) assert.equal(answer.status, 200);
  assert.match((await ask(port)).body.toString(), /requests_total\{code="503"\} 1\n/);
});

test('an answer larger than any buffer arrives whole', async () => {
  const line = `kubevirt_x{a="${'b'.repeat(100)}"} 1\n`;
  const piece = line.repeat(2_000);
  const port = await serve({ vms: () => Array.from({ length: 40 }, () => bytes(piece)) });
  const { body } = await ask(port);
  assert.ok(body.toString().endsWith(piece.repeat(40)));
  const zipped = await ask(port, { 'accept-encoding': 'gzip' });
  assert.ok(gunzipSync(zipped.body).toString().endsWith(piece.repeat(40)));
});

test('a client that does not read makes nothing pile up, and gives its place back in time', async () => {
  let made = 0;
  function* vms() {
    for (; made < 10_000; made++) yield bytes('x'.repeat(100_000));
  }
  const port = await serve({ vms }, { timeoutMs: 1_000 });
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.pause();
  socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await eventually(() => assert.ok(made > 0));
  await settled(() => made, 100);
  assert.ok(made < 1_000, `${made} pieces were made for nobody`);
  await eventually(async () => {
    made = 10_000;
    const { body } = await ask(port);
    assert.match(body.toString(), /in_flight 1\n/);
  });
  socket.resume();
  await closed;
});

test('a failure of the metrics themselves is a 500 that says so', async () => {
  const port = await serve({ own: async () => Promise.reject(new Error('broken')) });
  const { status, body } = await ask(port);
  assert.equal(status, 500);
  assert.match(body.toString(), /broken/);
});

test('a client that goes in the middle of an answer leaves its place', async () => {
  const port = await serve({ vms: () => Array.from({ length: 500 }, () => bytes('x'.repeat(100_000))) });
  for (let time = 0; time < 4; time++) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
    await new Promise((resolve) => socket.once('data', resolve));
    socket.destroy();
  }
  await eventually(async () => assert.equal((await ask(port)).status, 200));
});

test('those who read nothing keep nobody out: after five seconds the oldest gives its place', async () => {
  function* endless() {
    for (;;) yield bytes('x'.repeat(100_000));
  }
  let isEndless = true;
  const clock = new FakeClock();
  const port = await serve({ vms: () => (isEndless ? endless() : []), clock });
  const held = await Promise.all(
    [1, 2, 3].map(async () => {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => undefined);
      socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
      await new Promise((resolve) => socket.once('readable', resolve));
      return socket;
    }),
  );
  isEndless = false;
  assert.equal((await ask(port)).status, 503, 'they are new');
  clock.advance(5_000);
  const { status, body } = await ask(port);
  assert.equal(status, 200);
  assert.match(body.toString(), /in_flight 3\n/);
  for (const socket of held) socket.destroy();
});

test('whatever format is asked for, it is the text that every Prometheus reads', async () => {
  const port = await serve();
  const openMetrics = 'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1';
  for (const accept of [openMetrics, 'application/vnd.google.protobuf', 'text/html', '']) {
    const { status, headers } = await ask(port, { accept });
    assert.equal(status, 200);
    assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
  }
});
