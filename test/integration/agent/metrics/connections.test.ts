import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { SecureServer } from '../../../../src/serving/index.ts';
import {
  type Authorities,
  type KeyPair,
  readTlsSettings,
  SettableValue,
  serverCommonName,
  type TlsSettings,
} from '../../../../src/tls/index.ts';
import { readKeyPair } from '../../../../src/tls/key-pair.ts';
import { TestAuthority } from '../../../fixtures/certificates.ts';
import { tlsRequest } from '../../../fixtures/tls-request.ts';

const maxConnections = 4;
let authority: TestAuthority;
let server: SecureServer;
let crowded: SecureServer;
const held: Socket[] = [];

before(async () => {
  authority = await TestAuthority.make();
  server = await serve(maxConnections);
  crowded = await serve(256);
});

async function serve(maxConnections: number): Promise<SecureServer> {
  const pair = await authority.issue({ commonName: serverCommonName, usage: 'serverAuth' });
  const made = new SecureServer(
    { address: '127.0.0.1', port: 0, clients: 'anyone', server: 'metrics', maxConnections },
    {
      api: { handle: (_request, response) => response.end('alive'), upgrade: (_request, socket) => socket.destroy() },
      endStreams: () => undefined,
      keyPair: new SettableValue<KeyPair>(readKeyPair(pair.cert, pair.key)),
      authorities: new SettableValue<Authorities>(),
      settings: new SettableValue<TlsSettings>(readTlsSettings(undefined)),
      log: silentLogger,
      clock: systemClock,
    },
  );
  await made.start();
  return made;
}
after(async () => {
  for (const socket of held) socket.destroy();
  await Promise.all([server?.stop(), crowded?.stop()]);
  await authority?.remove();
});

test('whoever holds all connections of the metrics server keeps no probe out: the oldest are ended', async () => {
  for (let number = 0; number < maxConnections; number++) {
    const socket = connect(server.port, '127.0.0.1').on('error', () => undefined);
    held.push(socket);
    await once(socket, 'connect');
  }
  const ended = once((held[0] as Socket).resume(), 'close');
  for (const _probe of [1, 2]) {
    const client = undefined;
    const answer = await tlsRequest({ port: server.port, client, ca: authority.pair.cert, path: '/livez' });
    assert.ok('body' in answer, JSON.stringify(answer));
    assert.equal(answer.body, 'alive');
  }
  await ended;
  assert.ok(server.state.connections <= maxConnections);
});

test('a thousand connections that say nothing hold 256 descriptors at most, and probes are answered meanwhile', async () => {
  for (let hundred = 0; hundred < 10; hundred++) {
    const sockets = Array.from({ length: 100 }, () => connect(crowded.port, '127.0.0.1').on('error', () => undefined));
    held.push(...sockets);
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    const client = undefined;
    const answer = await tlsRequest({ port: crowded.port, client, ca: authority.pair.cert, path: '/livez' });
    assert.ok('body' in answer, JSON.stringify(answer));
    assert.ok(crowded.state.connections <= 256);
  }
});
