import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import type net from 'node:net';
import { test } from 'node:test';
import { type WebSocket, WebSocketServer } from 'ws';
import { systemClock } from '../../../src/base/index.ts';
import { Session } from '../../../src/console/session.ts';
import { Client } from './client.ts';

test('a client that makes others tell it something and reads nothing is ended before that fills the memory', async (t) => {
  const listener = http.createServer().listen(0, '127.0.0.1');
  const websockets = new WebSocketServer({ server: listener });
  await once(listener, 'listening');
  const client = new Client(`ws://127.0.0.1:${(listener.address() as net.AddressInfo).port}`, {});
  const [websocket, request] = (await once(websockets, 'connection')) as [WebSocket, http.IncomingMessage];
  t.after(() => {
    client.stop();
    websocket.terminate();
    websockets.close();
    listener.close();
  });
  client.websocket.pause();
  let code: number | undefined;
  const session = new Session(
    { isAware: true, pingIntervalMs: 60_000 },
    { websocket, socket: request.socket, clock: systemClock, onEnd: (end) => (code = end.code) },
  );
  await new Promise<void>((resolve) =>
    session.join({
      started: resolve,
      input: () => undefined,
      command: () => undefined,
      drained: () => undefined,
      left: () => undefined,
    }),
  );
  let most = 0;
  for (let reported = 0; reported < 200_000; reported++) {
    session.notify({ kind: 'role', role: 'viewer', reason: 'another session has taken over the console' });
    most = Math.max(most, session.bufferedBytes);
  }
  assert.ok(most < 1_000_000, `${most} bytes wait`);
  assert.equal(code, 4002);
});
