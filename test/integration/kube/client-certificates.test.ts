import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { type KubeAccess, KubeClient } from '../../../src/kube/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';

let authority: TestAuthority;
let server: Server;
let url: string;
const connections = new Set<unknown>();

before(async () => {
  authority = await TestAuthority.make();
  const leaf = await authority.issue({ commonName: 'server', usage: 'serverAuth', hosts: ['127.0.0.1'] });
  const options = { ...leaf, ca: authority.pair.cert, requestCert: true };
  server = createServer(options, (request, response) => {
    const socket = request.socket as TLSSocket;
    connections.add(socket);
    response.end(JSON.stringify({ who: socket.getPeerCertificate().subject?.CN ?? 'nobody' }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await authority.remove();
});

test('a new client certificate is shown at once, on a connection of its own; the same one shares a connection', async () => {
  const [first, second] = [await authority.issue({ commonName: 'one' }), await authority.issue({ commonName: 'two' })];
  let identity: Awaited<ReturnType<KubeAccess['credentials']['current']>> = { headers: {}, ...first };
  const credentials = { current: async () => identity, invalidate: () => false };
  const access = { server: url, ca: authority.pair.cert, credentials };
  const client = new KubeClient({ userAgent: 'test', maxSockets: 1 }, { access });
  const ask = async () => (await client.raw<{ who: string }>({ method: 'GET', path: '/' })).who;
  assert.deepEqual([await ask(), await ask()], ['one', 'one']);
  assert.equal(connections.size, 1);
  identity = { headers: {}, cert: Buffer.from(first.cert), key: Buffer.from(first.key) };
  assert.deepEqual([await ask(), connections.size], ['one', 1], 'the same in another shape');
  identity = { headers: {}, ...second };
  assert.deepEqual([await ask(), await ask(), connections.size], ['two', 'two', 2]);
  client.close();
});
