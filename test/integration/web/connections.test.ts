import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { WebSite } from '../../fixtures/web-site.ts';

async function startSite(t: TestContext): Promise<WebSite> {
  const site = await WebSite.start();
  t.after(() => site.dispose());
  return site;
}

test('a stranger whose upgrade was refused does not keep its connection by not hanging up', async (t) => {
  const site = await startSite(t);
  const stranger = connect({ port: site.port, host: '127.0.0.1', allowHalfOpen: true });
  t.after(() => stranger.destroy());
  let isOver = false;
  stranger.on('error', () => undefined).on('data', () => undefined);
  stranger.once('close', () => {
    isOver = true;
  });
  // Only a write finds out that the server has hung up.
  const talk = setInterval(() => stranger.write('x'), 50);
  t.after(() => clearInterval(talk));
  stranger.write(`GET / HTTP/1.1\r\nHost: 127.0.0.1:${site.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
  await eventually(() => assert.equal(isOver, true));
});

test('a connection that could not be taken for want of descriptors does not end the program', async (t) => {
  const site = await startSite(t);
  let server: Server | undefined;
  const see = (message: unknown) => {
    server = (message as { server: Server }).server;
  };
  subscribe('http.server.request.start', see);
  t.after(() => unsubscribe('http.server.request.start', see));
  await fetch(site.origin);
  // As net.Server does it; no kernel runs out of descriptors on demand.
  server?.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' }));
  assert.equal((await fetch(site.origin)).status, 200);
  assert.ok(server);
});

/** Connections that send these bytes and no more; all are open when it resolves. */
async function crowd(t: TestContext, port: number, many: number, text = ''): Promise<Socket[]> {
  const sockets = Array.from({ length: many }, () => connect(port, '127.0.0.1').on('error', () => undefined));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  for (const socket of sockets) if (text !== '') socket.write(text);
  return sockets;
}

test('strangers that open connections and say nothing, or half a request, keep nobody out: the oldest of them end', async (t) => {
  const site = await startSite(t);
  const authorization = `Bearer ${await site.session()}`;
  const head = `GET /api/vms HTTP/1.1\r\nHost: 127.0.0.1:${site.port}\r\n`;
  for (const text of ['', head, `${head}Authorization: Bearer wrong\r\nConnection: keep-alive\r\n\r\n`]) {
    for (let turn = 0; turn < 3; turn++) {
      const [first] = await crowd(t, site.port, 520, text);
      assert.ok(first);
      first.resume();
      await eventually(() => assert.equal(first.closed, true));
      // A connection of its own each time: one that is kept open would prove nothing.
      const headers = { authorization, connection: 'close' };
      assert.equal((await fetch(`${site.origin}/api/vms`, { headers })).status, 200, JSON.stringify(text));
    }
  }
});

test('connections of who has shown the token, streams among them, are not ended for strangers', async (t) => {
  const site = await startSite(t);
  const key = await site.session();
  const host = `Host: 127.0.0.1:${site.port}`;
  const target = '/v1/namespaces/default/virtualmachineinstances/demo/console';
  const stream = connect(site.port, '127.0.0.1');
  const events = connect(site.port, '127.0.0.1');
  const idle = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => {
    for (const held of [stream, events, idle]) held.destroy();
  });
  const upgrade = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: bearer.virt-handler.io.${key}`;
  stream.write(`GET ${target} HTTP/1.1\r\n${host}\r\n${upgrade}\r\n\r\n`);
  events.write(`GET /api/vms/events HTTP/1.1\r\n${host}\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  await Promise.all([once(stream, 'data'), once(events, 'data')]);
  const list = () => listOver(idle, site.port, key);
  const port = await list();
  await crowd(t, site.port, 1_200);
  assert.equal(await list(), port, 'the idle connection is the one of before');
  assert.deepEqual([stream.closed, events.closed], [false, false]);
});

/** Gives the port of the connection that was used. */
async function listOver(agent: Agent, port: number, key: string): Promise<number | undefined> {
  const headers = { authorization: `Bearer ${key}` };
  const asked = request({ host: '127.0.0.1', port, path: '/api/vms', agent, headers }).end();
  const [answer] = await once(asked, 'response');
  assert.equal(answer.statusCode, 200);
  const { localPort } = asked.socket ?? {};
  await once(answer.resume(), 'end');
  return localPort;
}
