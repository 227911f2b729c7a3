import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';

const maps = '/api/v1/namespaces/default/configmaps';

/** What is sent to the port as it is, before any TLS. */
const beforeTls: readonly (readonly [what: string, bytes: Buffer])[] = [
  ['nothing', Buffer.alloc(0)],
  ['random bytes', randomBytes(64 * 1024)],
  ['plain HTTP', Buffer.from('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')],
  ['half of a TLS record', Buffer.from('16030100ff0100', 'hex')],
  ['a TLS record that is too long', Buffer.concat([Buffer.from('160301ffff', 'hex'), randomBytes(70_000)])],
];

/** What is sent within TLS. */
const withinTls: readonly (readonly [what: string, bytes: Buffer])[] = [
  ['random bytes', randomBytes(64 * 1024)],
  ['half a request', Buffer.from('GET /api/v1 HTTP/1.1\r\nHost: local')],
  ['a header without end', Buffer.from(`GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(200_000)}`)],
  [
    'two lengths',
    Buffer.from('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'),
  ],
  [
    'length and chunks',
    Buffer.from(
      'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ),
  ],
  ['a chunk of no size', Buffer.from('POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n')],
  ['HTTP/2 without ALPN', Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
  [
    'an unknown upgrade',
    Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: spdy/3.1\r\n\r\n'),
  ],
  ['a CONNECT', Buffer.from('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n')],
];

describe('garbage on the port of the API', () => {
  let api: EmbeddedApi;
  before(async () => {
    api = await startEmbeddedApi();
  });
  after(() => api.stop());

  /** Sends, says that no more comes, and resolves with what came back when the server has hung up. */
  function send(socket: net.Socket, ready: 'connect' | 'secureConnect', bytes: Buffer): Promise<string> {
    return new Promise((resolve) => {
      let answer = '';
      socket.on('error', () => undefined);
      socket.on('data', (chunk) => {
        answer += chunk.toString('latin1');
      });
      socket.once(ready, () => socket.end(bytes));
      socket.once('close', () => resolve(answer));
    });
  }

  /** The server is the same one, answers, and has lost nothing. */
  async function stillServes(name: string): Promise<void> {
    const { status } = await api.client.post(maps, { metadata: { name } });
    assert.equal(status, 201);
    assert.equal((await api.client.get(`${maps}/${name}`)).status, 200);
  }

  test('before TLS costs only its connection, whatever it is', async () => {
    const idle = net.connect(api.port, '127.0.0.1').on('error', () => undefined);
    for (const [what, bytes] of beforeTls) {
      const answer = await send(net.connect(api.port, '127.0.0.1'), 'connect', bytes);
      assert.doesNotMatch(answer, /HTTP\/1.1 200/, what);
    }
    await stillServes('after-tls-garbage');
    idle.destroy();
  });

  for (const [index, [what, bytes]] of withinTls.entries()) {
    test(`within TLS costs only its connection: ${what}`, async () => {
      const socket = connectTls({ port: api.port, host: '127.0.0.1', rejectUnauthorized: false });
      const answer = await send(socket, 'secureConnect', bytes);
      assert.doesNotMatch(answer, /HTTP\/1.1 [125]\d\d/, 'neither served nor an error of the server');
      await stillServes(`after-${index}`);
    });
  }
});
