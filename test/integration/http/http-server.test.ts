import assert from 'node:assert/strict';
import { once } from 'node:events';
import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises';
import { get, type ServerResponse } from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import type { Duplex } from 'node:stream';
import { afterEach, describe, test } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { HttpServer, type ListenAddress } from '../../../src/http/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

type Options = ConstructorParameters<typeof HttpServer>[0];
type Deps = ConstructorParameters<typeof HttpServer>[1];

const anywhere: ListenAddress = { kind: 'tcp', host: '127.0.0.1', port: 0 };
const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

/** Requests that wait for the test are in `waiting`, upgraded connections in `streams`. */
class Bench {
  readonly clock = new FakeClock();
  readonly waiting: ServerResponse[] = [];
  readonly streams: Duplex[] = [];
  readonly server: HttpServer;

  constructor(options: Partial<Options> = {}, deps: Partial<Deps> = {}) {
    // Connections that are kept alive end with their server only.
    const limits = { keepAliveTimeout: 0, maxConnections: 8, ...options.limits };
    this.server = new HttpServer(
      { name: 'test server', address: anywhere, drainMs: 2_000, ...options, limits },
      {
        handle: (request, response) => {
          if (request.url === '/slow') this.waiting.push(response);
          else response.end('here');
        },
        upgrade: (_request, socket) => {
          socket.on('error', () => undefined).write('HTTP/1.1 101 Switching Protocols\r\n\r\n');
          this.streams.push(socket);
        },
        ...{ log: silentLogger, clock: this.clock, ...deps },
      },
    );
    undo.push(() => this.server.stop());
  }

  async start(): Promise<this> {
    await this.server.start();
    return this;
  }

  /** An open connection and what came over it. */
  async dial(text = ''): Promise<{ readonly socket: net.Socket; readonly text: () => string }> {
    const { state, port } = this.server;
    const socket = net.connect(port > 0 ? { host: '127.0.0.1', port } : { path: state.listens ?? '' });
    let received = '';
    socket
      .on('error', () => undefined)
      .on('data', (data: Buffer) => {
        received += String(data);
      });
    undo.push(async () => socket.destroy());
    await once(socket, 'connect');
    if (text !== '') socket.write(text);
    return { socket, text: () => received };
  }
}

const ask = (target: string) => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`;
const upgrade = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n';

async function directory(): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), 'http-'));
  undo.push(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

describe('where an HTTP server listens', () => {
  test('at a TCP address, which it says', async () => {
    const { server } = await new Bench().start();
    assert.deepEqual(server.state, {
      listens: `127.0.0.1:${server.port}`,
      problem: undefined,
      connections: 0,
      refused: 0,
    });
    await server.stop();
    assert.deepEqual([server.state.listens, server.port], [undefined, 0]);
  });

  test('at both loopback addresses with one port', { skip: !hasIpv6 && 'no IPv6' }, async () => {
    const { server } = await new Bench({ address: { kind: 'loopback', port: 0 } }).start();
    const { port } = server;
    assert.equal(server.state.listens, `127.0.0.1:${port}, [::1]:${port}`);
    for (const host of ['127.0.0.1', '::1']) {
      const [response] = await once(get({ host, port, agent: false }), 'response');
      assert.equal(response.resume().statusCode, 200);
    }
  });

  test('at a Unix socket with the mode and the owner that were asked for; its file goes with it', async () => {
    const dir = path.join(await directory(), 'made');
    const file = path.join(dir, 'x.sock');
    const owner = { uid: process.getuid?.() ?? 0, gid: process.getuid?.() === 0 ? 107 : (process.getgid?.() ?? 0) };
    const bench = await new Bench({
      address: { kind: 'unix', path: file, mode: 0o660, owner, pid: 1, other: 'another program' },
    }).start();
    const { mode, uid, gid } = await lstat(file);
    assert.deepEqual([mode & 0o777, uid, gid], [0o660, owner.uid, owner.gid]);
    assert.deepEqual([bench.server.state.listens, bench.server.port], [file, 0]);
    assert.deepEqual(await readdir(dir), ['x.sock']);
    const { text } = await bench.dial(ask('/'));
    await eventually(() => assert.match(text(), /here$/));
    await bench.server.stop();
    assert.deepEqual(await readdir(dir), []);
  });

  test('an address that cannot be had is an error, and nothing listens', async () => {
    const other = net.createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    undo.push(() => new Promise((resolve) => other.close(resolve)));
    const { port } = other.address() as AddressInfo;
    await assert.rejects(new Bench({ address: { ...anywhere, port } }).start(), { code: 'EADDRINUSE' });
    const loopback = new Bench({ address: { kind: 'loopback', port } });
    await assert.rejects(loopback.start(), { code: 'PORT_IN_USE', message: /choose another one/ });
    assert.equal(loopback.server.state.listens, undefined);
    const long: ListenAddress = { kind: 'unix', path: `/tmp/${'x'.repeat(110)}`, mode: 0o600, pid: 1, other: 'it' };
    await assert.rejects(new Bench({ address: long }).start(), { code: 'PATH_TOO_LONG' });
  });

  test('where that is wanted it tries again, says why it does not listen, and listens once it can', async () => {
    const other = net.createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const { server, clock } = await new Bench({
      address: { ...anywhere, port },
      retry: { baseMs: 1_000, maxMs: 4_000 },
    }).start();
    assert.match(server.state.problem ?? '', /EADDRINUSE/);
    clock.advance(1_000);
    await eventually(() => assert.equal(clock.timers, 1));
    assert.match(server.state.problem ?? '', /EADDRINUSE/);
    await new Promise((resolve) => other.close(resolve));
    clock.advance(2_000);
    await eventually(() => assert.equal(server.state.listens, `127.0.0.1:${port}`));
    assert.equal(server.state.problem, undefined);
  });

  test('a stop ends the attempts', async () => {
    const { server, clock } = await new Bench({
      address: { kind: 'tcp', host: '192.0.2.1', port: 1 },
      retry: { baseMs: 1_000, maxMs: 4_000 },
    }).start();
    await server.stop();
    assert.equal(clock.timers, 0);
  });
});

describe('how an HTTP server stops', { timeout: 60_000 }, () => {
  test('idle connections at once; one with an answer under way when that is out, without waiting for the deadline', async () => {
    const bench = await new Bench().start();
    const [idle, busy] = [await bench.dial(ask('/')), await bench.dial(ask('/slow'))];
    await eventually(() => assert.match(idle.text(), /here$/));
    await eventually(() => assert.equal(bench.waiting.length, 1));
    const stopped = bench.server.stop();
    await eventually(() => assert.ok(idle.socket.closed));
    assert.equal(busy.socket.closed, false);
    bench.waiting[0]?.end('at last');
    await stopped;
    assert.match(busy.text(), /at last$/);
    assert.equal(bench.clock.timers, 0, 'no deadline is left');
  });

  test('streams are asked to end, and what is left at the deadline is cut: an answer, a stream, a silent client', async () => {
    let asked = 0;
    const bench = await new Bench({}, { endStreams: () => void asked++ }).start();
    const dialled = [await bench.dial(ask('/slow')), await bench.dial(upgrade), await bench.dial()];
    await eventually(() => assert.deepEqual([bench.waiting.length, bench.streams.length], [1, 1]));
    await eventually(() => assert.equal(bench.server.state.connections, 3));
    const stopped = bench.server.stop();
    await eventually(() => assert.equal(asked, 1));
    assert.equal(dialled[1]?.socket.closed, false);
    bench.clock.advance(2_000);
    await stopped;
    for (const { socket } of dialled) await eventually(() => assert.ok(socket.closed));
    assert.equal(bench.server.state.connections, 0);
  });

  test('streams that cannot be ended hold it up no longer than the deadline', async () => {
    const bench = await new Bench({}, { endStreams: () => new Promise(() => undefined) }).start();
    await bench.dial(upgrade);
    await eventually(() => assert.equal(bench.streams.length, 1));
    const stopped = bench.server.stop();
    await eventually(() => assert.equal(bench.clock.timers, 1));
    bench.clock.advance(2_000);
    await stopped;
  });

  test('an error in ending streams is told, and the server is closed all the same', async () => {
    const bench = new Bench({}, { endStreams: () => Promise.reject(new Error('no')) });
    undo.pop();
    await bench.start();
    const { port } = bench.server;
    await assert.rejects(bench.server.stop(), /no/);
    await assert.rejects(once(net.connect(port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' });
  });

  test('a stranger who says nothing, or half of it, holds it up no longer than headers may take; a known client has until the deadline', async () => {
    const limits = { maxConnections: 8, headersTimeout: 10_000 };
    const bench = await new Bench({ limits, drainMs: 3_600_000 }).start();
    const known = await bench.dial(ask('/slow'));
    await eventually(() => assert.equal(bench.waiting.length, 1));
    bench.server.authenticated(bench.waiting[0]?.req.socket as net.Socket);
    const strangers = [await bench.dial(), await bench.dial('GET / HTTP/1.1\r\nHo')];
    await eventually(() => assert.equal(bench.server.state.connections, 3));
    const stopped = bench.server.stop();
    await eventually(() => assert.equal(bench.clock.timers, 2));
    bench.clock.advance(10_000);
    await eventually(() =>
      assert.deepEqual(
        strangers.map(({ socket }) => socket.closed),
        [true, true],
      ),
    );
    assert.equal(known.socket.closed, false);
    bench.waiting[0]?.end('out');
    await stopped;
    assert.match(known.text(), /out/);
  });

  test('a deadline of nothing cuts at once', async () => {
    const bench = await new Bench({ drainMs: 0 }).start();
    await bench.dial(ask('/slow'));
    await eventually(() => assert.equal(bench.waiting.length, 1));
    await bench.server.stop();
  });
});

describe('what one client may cost an HTTP server', () => {
  test('over TCP the oldest connection without a right goes; one that has authenticated stays', async () => {
    const bench = await new Bench({ limits: { maxConnections: 2 } }).start();
    const { server } = bench;
    const known = await bench.dial(ask('/slow'));
    await eventually(() => assert.equal(bench.waiting.length, 1));
    server.authenticated(bench.waiting[0]?.req.socket as net.Socket);
    const [older, newer] = [await bench.dial(), await bench.dial()];
    await eventually(() => assert.ok(older.socket.closed));
    assert.deepEqual([known.socket.closed, newer.socket.closed], [false, false]);
    assert.deepEqual([server.state.connections, server.state.refused], [2, 1]);
  });

  test('at a Unix socket, whose clients all have a right, the newcomer goes', async () => {
    const file = path.join(await directory(), 'x.sock');
    const bench = await new Bench({
      limits: { maxConnections: 1 },
      address: { kind: 'unix', path: file, mode: 0o600, pid: 1, other: 'another program' },
    }).start();
    const first = await bench.dial();
    await eventually(() => assert.equal(bench.server.state.connections, 1));
    const second = await bench.dial();
    await eventually(() => assert.ok(second.socket.closed));
    first.socket.write(ask('/'));
    await eventually(() => assert.match(first.text(), /here$/));
    first.socket.destroy();
    await eventually(() => assert.equal(bench.server.state.connections, 0));
  });

  test('many connections and requests that come and go leave nothing behind', async () => {
    const bench = await new Bench({}, { clock: systemClock }).start();
    for (let turn = 0; turn < 50; turn++) {
      const { socket, text } = await bench.dial(ask('/').repeat(3));
      await eventually(() => assert.equal(text().split('here').length, 4));
      socket.destroy();
    }
    await eventually(() => assert.equal(bench.server.state.connections, 0));
  });
});
