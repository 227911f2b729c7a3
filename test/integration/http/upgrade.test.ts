import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, test } from 'node:test';
import { answerUpgrade, refuseUpgrade } from '../../../src/http/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

const clock = new FakeClock();
let server: Server;
let client: Socket;
let received: string;

beforeEach(async () => {
  server = createServer(() => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true });
  received = '';
  client.on('data', (chunk) => {
    received += String(chunk);
  });
});

afterEach(() => {
  client.destroy();
  server.closeAllConnections();
  server.close();
});

const upgrade = 'GET /b HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
const connections = () =>
  new Promise<number>((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });

test('an upgrade behind a request that has no answer yet costs its client the connection, and nothing is thrown', async () => {
  const answers: boolean[] = [];
  server.on('upgrade', (request, socket) => answers.push(answerUpgrade(request, socket, clock) !== undefined));
  client.on('error', () => undefined).write(`GET /a HTTP/1.1\r\nHost: a\r\n\r\n${upgrade}`);
  await eventually(() => assert.ok(client.readableEnded || client.destroyed));
  assert.deepEqual(answers, [false]);
});

const ways: Readonly<Record<string, (server: Server) => void>> = {
  refused: (of) =>
    of.on('upgrade', (_request, socket) => refuseUpgrade(socket, { httpStatus: 403, message: 'no' }, clock)),
  answered: (of) =>
    of.on('upgrade', (request, socket) => answerUpgrade(request, socket, clock)?.writeHead(403).end('no')),
};

for (const [way, serve] of Object.entries(ways)) {
  test(`a client that was ${way} and does not hang up loses its connection after a moment`, async () => {
    serve(server);
    client.write(upgrade);
    await eventually(() => assert.match(received, /^HTTP\/1\.1 403 Forbidden\r\n[\s\S]*no/));
    client.write('and it still talks');
    assert.equal(await connections(), 1);
    clock.advance(2_000);
    await eventually(async () => assert.equal(await connections(), 0));
  });
}
