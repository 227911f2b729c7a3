import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import net, { type AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { after, afterEach, before, suite, test } from 'node:test';
import tls from 'node:tls';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { SecureServer } from '../../../src/serving/index.ts';
import {
  type Authorities,
  clientCommonName,
  type KeyPair,
  type PemPair,
  readAuthorities,
  readTlsSettings,
  SettableValue,
  serverCommonName,
  type TlsSettings,
} from '../../../src/tls/index.ts';
import { readKeyPair } from '../../../src/tls/key-pair.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { tlsRequest } from '../../fixtures/tls-request.ts';

type SecureServerDeps = ConstructorParameters<typeof SecureServer>[1];

const clients = { commonNames: [clientCommonName], allowIntermediates: false };

/** Answers `/slow` never and everything else at once; upgrades are answered and kept. */
class Api {
  readonly upgraded: Duplex[] = [];

  handle(request: IncomingMessage, response: ServerResponse): void {
    if (request.url === '/slow') return;
    response.end(request.url);
  }

  upgrade(_request: IncomingMessage, socket: Duplex): void {
    socket.on('error', () => undefined);
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
    this.upgraded.push(socket);
  }
}

suite('the console server of the agent', () => {
  let authority: TestAuthority;
  let client: PemPair;
  const keyPair = new SettableValue<KeyPair>();
  const authorities = new SettableValue<Authorities>();
  const settings = new SettableValue<TlsSettings>(readTlsSettings(undefined));
  const stops: (() => Promise<unknown>)[] = [];

  before(async () => {
    authority = await TestAuthority.make();
    const server = await authority.issue({ commonName: serverCommonName, usage: 'serverAuth' });
    client = await authority.issue();
    keyPair.set(readKeyPair(server.cert, server.key));
    authorities.set(readAuthorities(authority.pair.cert));
  });
  after(() => authority.remove());
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
  });

  const make = (
    where: { address?: string; port?: number; maxConnections?: number } = {},
    more: Partial<SecureServerDeps> = {},
  ) => {
    const api = new Api();
    const server = new SecureServer(
      { address: '127.0.0.1', port: 0, clients, ...where },
      {
        api,
        endStreams: () => {
          for (const socket of api.upgraded) socket.end();
        },
        ...{ keyPair, authorities, settings, clock: systemClock, log: silentLogger },
        ...more,
      },
    );
    stops.push(() => server.stop());
    return { api, server };
  };
  const ask = (port: number, path = '/x', host = '127.0.0.1') =>
    tlsRequest({ port, client, ca: authority.pair.cert, path, tls: { host } });
  /** An open connection with a client certificate, and what came over it. */
  const connect = async (port: number, ...lines: string[]) => {
    const socket = tls.connect({
      ...{ host: '127.0.0.1', port, cert: client.cert, key: client.key, ca: authority.pair.cert },
      checkServerIdentity: () => undefined,
    });
    let text = '';
    socket.on('error', () => undefined);
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
    });
    await once(socket, 'secureConnect');
    if (lines.length > 0) socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    return { socket, text: () => text };
  };
  const upgrade = ['GET /console HTTP/1.1', 'Host: x', 'Connection: Upgrade', 'Upgrade: x'];

  test('serves on IPv4 and IPv6 addresses and says where', async () => {
    for (const [address, shown] of [
      ['127.0.0.1', /^127\.0\.0\.1:\d+$/],
      ['::1', /^\[::1\]:\d+$/],
    ] as const) {
      const { server } = make({ address });
      await server.start();
      const answer = await ask(server.port, '/x', address);
      assert.ok('body' in answer, JSON.stringify(answer));
      assert.equal(answer.body, '/x');
      assert.match(server.state.listens ?? '', shown);
    }
  });

  test('a port that is taken is told, does not keep the agent from starting, and is taken when it is free', async () => {
    const other = net.createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const { server } = make({ port });
    await server.start();
    assert.equal(server.state.listens, undefined);
    assert.match(server.state.problem ?? '', /EADDRINUSE/);
    await new Promise((resolve) => other.close(resolve));
    await eventually(() => assert.equal(server.state.listens, `127.0.0.1:${port}`));
    assert.equal(server.state.problem, undefined);
    assert.ok('body' in (await ask(port)));
  });

  test('an address that is not this machine’s is told, and the wait for it can be ended', async () => {
    const { server } = make({ address: '192.0.2.1' });
    await server.start();
    assert.match(server.state.problem ?? '', /EADDRNOTAVAIL/);
    await server.stop();
  });

  test('headers over 16 KiB are refused, and those below are not', async () => {
    const { server } = make();
    await server.start();
    const large = (bytes: number) => ['GET /x HTTP/1.1', 'Host: x', `X-Pad: ${'y'.repeat(bytes)}`];
    const refused = await connect(server.port, ...large(17 * 1024));
    await eventually(() => assert.match(refused.text(), /^HTTP\/1\.1 431 /));
    const taken = await connect(server.port, ...large(10_000));
    await eventually(() => assert.match(taken.text(), /^HTTP\/1\.1 200 /));
    for (const { socket } of [refused, taken]) socket.destroy();
  });

  test('what is no HTTP is answered 400 and closed', async () => {
    const { server } = make();
    await server.start();
    const { socket, text } = await connect(server.port, '\x00\x01garbage');
    await once(socket, 'close');
    assert.match(text(), /^HTTP\/1\.1 400 /);
  });

  test('connections are counted from their first byte on and forgotten with their end', async () => {
    const { server } = make();
    await server.start();
    const silent = net.connect(server.port, '127.0.0.1');
    const open = await Promise.all([connect(server.port), connect(server.port, ...upgrade)]);
    await eventually(() => assert.equal(server.state.connections, 3));
    silent.destroy();
    for (const { socket } of open) socket.destroy();
    await eventually(() => assert.equal(server.state.connections, 0));
  });

  test('the stop ends streams first, lets nobody in, and cuts what is stuck: a handshake, an answer, a stream', async () => {
    let ended = 0;
    const { server, api } = make({}, { endStreams: () => void ended++ });
    await server.start();
    const { port } = server;
    const silent = net.connect(port, '127.0.0.1').on('error', () => undefined);
    const slow = await connect(port, 'GET /slow HTTP/1.1', 'Host: x');
    const idle = await connect(port, 'GET /x HTTP/1.1', 'Host: x');
    const stream = await connect(port, ...upgrade);
    await eventually(() => assert.deepEqual([api.upgraded.length, server.state.connections], [1, 4]));
    await server.stop();
    assert.equal(ended, 1);
    await eventually(() => assert.equal(server.state.connections, 0));
    for (const { socket } of [slow, idle, stream]) await eventually(() => assert.ok(socket.destroyed));
    await eventually(() => assert.ok(silent.destroyed || silent.readableEnded));
    assert.deepEqual(await ask(port), { refused: 'ECONNREFUSED' });
  });

  test('strangers that open connections, or shake hands with a foreign certificate, keep virt-api out no more: the oldest of them end', async () => {
    const { server } = make({ maxConnections: 16 });
    await server.start();
    const stream = await connect(server.port, ...upgrade);
    const idle = await connect(server.port, 'GET /x HTTP/1.1', 'Host: x');
    await eventually(() => assert.match(idle.text(), /^HTTP\/1\.1 200 /));
    const foreign = await TestAuthority.make();
    const shown = await foreign.issue();
    const silent: net.Socket[] = [];
    for (let turn = 0; turn < 4; turn++) {
      for (let number = 0; number < 20; number++) {
        const socket = net.connect(server.port, '127.0.0.1').on('error', () => undefined);
        silent.push(socket);
        await once(socket, 'connect');
      }
      const stranger = await tlsRequest({ port: server.port, client: shown, ca: authority.pair.cert });
      assert.ok('refused' in stranger);
      const answer = await ask(server.port);
      assert.ok('body' in answer, JSON.stringify(answer));
      assert.ok(server.state.connections <= 16);
    }
    idle.socket.write('GET /again HTTP/1.1\r\nHost: x\r\n\r\n');
    await eventually(() => assert.match(idle.text(), /\/again$/));
    assert.equal(stream.socket.destroyed, false);
    assert.ok(server.state.refused > 60);
    for (const socket of [...silent, stream.socket, idle.socket]) socket.destroy();
    await foreign.remove();
  });

  test('the stop of one that was never started, and a second stop, do nothing', async () => {
    const { server } = make();
    await server.stop();
    await server.stop();
  });

  test('many connections that come and go leave nothing behind', async () => {
    const { server } = make();
    await server.start();
    for (let turn = 0; turn < 100; turn++) assert.ok('body' in (await ask(server.port)));
    await eventually(() => assert.equal(server.state.connections, 0));
    assert.equal(server.state.refused, 0);
  });
});
