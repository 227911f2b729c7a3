import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { StreamRefusal } from '../../../src/console/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { aware } from './client.ts';
import { connected, makeKeyPair, startBench, uid } from './console-bench.ts';
import { clientFrame, RawClient, upgradeText } from './raw.ts';

test('an upgrade that cannot become a session is answered in plain words and ends no session', async (t) => {
  const { attach, port, guest, server } = await startBench(t);
  const running = await attach().opened();
  const line = await guest.connection();
  const cases: [string, number][] = [
    [upgradeText({ 'Sec-WebSocket-Version': '12' }), 426],
    [upgradeText({ 'Sec-WebSocket-Version': undefined }), 426],
    [upgradeText({ 'Sec-WebSocket-Key': undefined }), 400],
    [upgradeText({ 'Sec-WebSocket-Key': 'a' }), 400],
    [upgradeText({ 'Sec-WebSocket-Key': ['dGhlIHNhbXBsZSBub25jZQ==', 'dGhlIHNhbXBsZSBub25jZQ=='] }), 400],
    [upgradeText({ 'Sec-WebSocket-Protocol': 'plain.kubevirt.io,,' }), 400],
    [upgradeText({ 'Sec-WebSocket-Protocol': ['a', 'a'] }), 400],
    [upgradeText({ Upgrade: 'tcp' }), 426],
    [upgradeText({}, `POST /console/${uid} HTTP/1.1`), 405],
  ];
  for (const [request, status] of cases) {
    const client = await RawClient.connect(port);
    client.socket.write(request);
    const answer = await client.gets('\r\n\r\n');
    assert.match(answer, new RegExp(`^HTTP/1.1 ${status} `), request);
    assert.match(answer, /Content-Type: text\/plain; charset=utf-8/);
    await client.closed();
  }
  line.write('still here');
  await running.gets('still here');
  assert.equal(server.sessions().length, 1);
  assert.equal(guest.connections.length, 1);
});

test('a guest that cannot be reached is 502 with its reason, and the session before goes on', async (t) => {
  let mayOpen = true;
  const { attach, guest } = await startBench(t, {
    open: async (signal) =>
      mayOpen ? connected(guest.path, signal) : Promise.reject(new Error('connect ECONNREFUSED')),
  });
  const running = await attach('', { kind: 'vnc' }).opened();
  mayOpen = false;
  const refusal = await attach('', { kind: 'vnc' }).refused();
  assert.deepEqual(refusal, { status: 502, type: 'text/plain; charset=utf-8', body: 'connect ECONNREFUSED' });
  (await guest.connection()).write('RFB 003.008\n');
  await running.gets('RFB');
});

test('who opens the stream says the status, and may leave the body empty', async (t) => {
  const { attach } = await startBench(t, { open: () => Promise.reject(new StreamRefusal('BUSY', 503, '')) });
  assert.deepEqual(await attach('', { kind: 'usbredir' }).refused(), {
    status: 503,
    type: 'text/plain; charset=utf-8',
    body: '',
  });
});

test('a guest that does not answer in time is 504, and a connection that comes too late is closed', async (t) => {
  const clock = new FakeClock();
  let opened: (socket: Socket) => void = () => undefined;
  const late = new Promise<Socket>((resolve) => {
    opened = resolve;
  });
  const { attach, guest } = await startBench(t, { clock, open: () => late });
  const client = attach();
  const other = attach();
  await eventually(() => assert.ok(clock.timers > 0));
  await eventually(() => {
    clock.advance(5000);
    assert.equal(client.refusal?.status, 504);
    assert.equal(other.refusal?.status, 504);
  });
  const socket = await connected(guest.path, new AbortController().signal);
  opened(socket);
  await eventually(() => assert.equal(socket.destroyed, true));
});

test('take-if-free is refused while there is a writer, in upstream’s words, and only then', async (t) => {
  const { attach, server } = await startBench(t);
  const viewer = await attach('?access=view').opened();
  const writer = await attach('?access=take-if-free').opened();
  const refusal = await attach('?access=take-if-free').refused();
  assert.equal(refusal.status, 503);
  assert.equal(refusal.body, 'Active VNC connection. Request denied.');
  writer.websocket.close();
  await writer.closed;
  await eventually(() => assert.equal(server.sessions().length, 1));
  await attach('?access=take-if-free').opened();
  assert.equal(viewer.websocket.readyState, viewer.websocket.OPEN);
});

for (const kind of ['console', 'vnc'] as const) {
  test(`of many who want a free ${kind} at the same instant one gets it`, async (t) => {
    const { attach, server } = await startBench(t);
    const clients = Array.from({ length: 8 }, () => attach('?access=take-if-free', { kind }));
    await eventually(() => assert.equal(clients.filter(({ refusal }) => refusal?.status === 503).length, 7));
    assert.equal(server.sessions().length, 1);
  });

  test(`of many who take a ${kind} at the same instant the last one has it and the others are told`, async (t) => {
    const { attach, server } = await startBench(t);
    const clients = Array.from({ length: 8 }, () => attach('', { kind }));
    const ends: number[] = [];
    for (const { closed } of clients) void closed.then(({ code }) => ends.push(code));
    await eventually(() => assert.equal(ends.length, 7));
    assert.deepEqual(new Set(ends), new Set([4001]));
    assert.equal(server.sessions().length, 1);
  });
}

test('a frame that comes with the handshake is not lost', async (t) => {
  const { port, guest } = await startBench(t);
  const client = await RawClient.connect(port);
  client.socket.write(Buffer.concat([Buffer.from(upgradeText()), clientFrame(2, Buffer.from('first'))]));
  await client.gets('101 Switching Protocols');
  const line = await guest.connection();
  await eventually(() => assert.equal(line.read()?.toString(), 'first'));
  client.socket.destroy();
});

for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
  test(`the 101 answer has a record of its own although the guest speaks first, ${maxVersion}`, async (t) => {
    const { port, guest } = await startBench(t, { tls: { ...(await makeKeyPair()), maxVersion } });
    for (let round = 1; round <= 20; round++) {
      const client = await RawClient.connectTls(port);
      client.socket.write(upgradeText({}, `GET /vnc/${uid} HTTP/1.1`));
      (await guest.connection(round)).write('RFB 003.008\n');
      await client.gets('RFB 003.008');
      assert.match(client.chunks[0]?.toString('latin1') ?? '', /^HTTP\/1\.1 101 .*\r\n\r\n$/s);
      assert.deepEqual(client.chunks[1], Buffer.from('\u0082\u000cRFB 003.008\n', 'latin1'));
      client.socket.destroy();
    }
  });
}

test('without a subprotocol, and with unknown ones, the upgrade works and none is returned', async (t) => {
  const { attach, port } = await startBench(t);
  assert.equal((await attach('', { protocols: [] }).opened()).websocket.protocol, '');
  const client = await RawClient.connect(port);
  client.socket.write(
    upgradeText({ 'Sec-WebSocket-Protocol': 'other', 'Sec-WebSocket-Extensions': 'permessage-deflate' }),
  );
  const answer = await client.gets('\r\n\r\n');
  assert.doesNotMatch(answer, /Sec-WebSocket-(Protocol|Extensions)/);
  client.socket.destroy();
});

/** A bench whose guest answers when told. */
async function startHesitant(t: TestContext) {
  const answers: ((socket: Socket) => void)[] = [];
  const open = () => new Promise<Socket>((resolve) => answers.push(resolve));
  const bench = await startBench(t, { open });
  const isAsked = (times: number) => eventually(() => assert.equal(answers.length, times));
  const answer = async (place: number) => {
    answers[place - 1]?.(await connected(bench.guest.path, new AbortController().signal));
    return bench.guest.connection(place);
  };
  return { ...bench, isAsked, answer };
}

test('a client that is gone before the guest answered leaves nothing', async (t) => {
  const { port, server, attach, isAsked, answer } = await startHesitant(t);
  const client = await RawClient.connect(port);
  client.socket.write(upgradeText());
  await isAsked(1);
  client.socket.resetAndDestroy();
  await client.closed();
  const line = await answer(1);
  line.resume();
  await eventually(() => {
    line.write('x');
    assert.equal(line.destroyed, true);
  });
  assert.deepEqual(server.sessions(), []);
  const next = attach('', { protocols: [aware] });
  await isAsked(2);
  await answer(2);
  await next.opened();
});

test('a client that is gone does not take the line away from the one that waits with it', async (t) => {
  const { port, server, attach, upgrades, isAsked, answer } = await startHesitant(t);
  const gone = await RawClient.connect(port);
  gone.socket.write(upgradeText());
  await isAsked(1);
  const waiting = attach();
  await eventually(() => assert.equal(upgrades(), 2));
  gone.socket.resetAndDestroy();
  await gone.closed();
  const line = await answer(1);
  await waiting.opened();
  line.write('hello');
  await waiting.gets('hello');
  assert.equal(server.sessions().length, 1);
});
