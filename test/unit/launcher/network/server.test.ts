import assert from 'node:assert/strict';
import type { Socket } from 'node:dgram';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { silentLogger } from '../../../../src/base/index.ts';
import type { Answer } from '../../../../src/launcher/network/answer.ts';
import { DhcpServer } from '../../../../src/launcher/network/server.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';

/** What the server sees of a socket; the real one is in the integration tests. */
class SocketEnd extends EventEmitter {
  readonly sent: string[] = [];
  isClosed = false;

  send(bytes: Buffer, port: number, address: string, done: (error: Error | null) => void): void {
    this.sent.push(`${bytes} to ${address}:${port}`);
    done(null);
  }

  close(): void {
    this.isClosed = true;
  }

  receive(text: string): void {
    this.emit('message', Buffer.from(text), { address: '10.0.2.2', port: 68 });
  }
}

function serverWith(answer: (text: string) => Answer) {
  const clock = new FakeClock();
  const sockets: SocketEnd[] = [];
  let failure: Error | undefined;
  const open = async () => {
    if (failure) throw failure;
    const socket = new SocketEnd();
    sockets.push(socket);
    return socket as unknown as Socket;
  };
  const listen = { family: 'udp4', port: 67, device: 'k6t-eth0' } as const;
  const server = new DhcpServer(
    { listen, answer: (bytes) => answer(String(bytes)) },
    { open, log: silentLogger, clock },
  );
  return { server, clock, sockets, fail: (error: Error | undefined) => (failure = error) };
}

const echo = (text: string): Answer =>
  text === 'ask'
    ? { kind: 'reply', bytes: Buffer.from('answer'), to: { address: '255.255.255.255', port: 68 } }
    : { kind: 'malformed', problem: 'it is noise' };

test('answers go where the answer says, and noise gets none', async () => {
  const { server, sockets } = serverWith(echo);
  await server.start();
  sockets[0]?.receive('noise');
  sockets[0]?.receive('ask');
  assert.deepEqual(sockets[0]?.sent, ['answer to 255.255.255.255:68']);
  server.stop();
  assert.equal(sockets[0]?.isClosed, true);
});

test('of a flood 200 messages are looked at, and 50 in each second after', async () => {
  const { server, sockets, clock } = serverWith(echo);
  await server.start();
  const flood = () => {
    for (let at = 0; at < 1000; at++) sockets[0]?.receive('ask');
    return sockets[0]?.sent.splice(0).length;
  };
  assert.equal(flood(), 200);
  await clock.pass(1000);
  assert.equal(flood(), 50);
  server.stop();
});

test('a socket that breaks is opened again, ever more seldom while that fails', async () => {
  const { server, sockets, clock, fail } = serverWith(echo);
  await server.start();
  fail(new Error('no device'));
  sockets[0]?.emit('error', new Error('ENETDOWN'));
  assert.equal(sockets[0]?.isClosed, true);
  await clock.pass(10_000);
  assert.equal(sockets.length, 1);
  fail(undefined);
  await clock.pass(30_000);
  assert.equal(sockets.length, 2);
  sockets[1]?.receive('ask');
  assert.equal(sockets[1]?.sent.length, 1);
  server.stop();
});

test('a server that is stopped while it waits does not come back', async () => {
  const { server, sockets, clock } = serverWith(echo);
  await server.start();
  sockets[0]?.emit('error', new Error('ENETDOWN'));
  server.stop();
  await clock.pass(60_000);
  assert.equal(sockets.length, 1);
});

test('what cannot listen at the start says what it needs', async () => {
  const { server, fail } = serverWith(echo);
  fail(new Error('bind: EACCES'));
  await assert.rejects(server.start(), {
    code: 'DHCP_FAILED',
    message: /the DHCP server for the guest cannot listen on k6t-eth0: bind: EACCES\. .*NET_BIND_SERVICE/,
  });
});
