import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Server } from 'node:http';
import { connect } from 'node:net';
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
  assert.equal((await fetch(site.origin)).status, 401);
  assert.ok(server);
});
