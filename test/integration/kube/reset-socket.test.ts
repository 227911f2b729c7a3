import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { resetSocket } from '../../fixtures/reset-socket.ts';

const server = createServer();
after(() => server.close());

async function connected(): Promise<{ readonly near: Socket; readonly far: Socket }> {
  if (!server.listening) await once(server.listen(0, '127.0.0.1'), 'listening');
  const far = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [near] = (await once(server, 'connection')) as [Socket];
  near.on('error', () => undefined);
  return { near, far };
}

test('a connection that is cut in the middle is seen as reset by the other side', async () => {
  const { near, far } = await connected();
  const seen = once(far, 'error');
  resetSocket(near);
  assert.equal(((await seen) as [NodeJS.ErrnoException])[0].code, 'ECONNRESET');
});

test('one that has begun to end is closed all the same, and keeps no process from leaving', {
  timeout: 20_000,
}, async () => {
  const { near, far } = await connected();
  far.on('error', () => undefined);
  const closed = once(near, 'close');
  near.end();
  resetSocket(near);
  await closed;
  resetSocket(near);
  far.destroy();
});
