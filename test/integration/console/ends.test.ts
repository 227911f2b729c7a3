import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { aware } from './client.ts';
import { type ConsoleBenchOptions, connected, makeKeyPair, startBench, uid } from './console-bench.ts';
import { RawClient, upgradeText } from './raw.ts';

for (const kind of ['console', 'vnc', 'usbredir'] as const) {
  test(`a guest that closes its ${kind} ends the session with 1000 after its last bytes`, async (t) => {
    const { attach, guest, server } = await startBench(t);
    const client = await attach('', { kind, protocols: [aware] }).opened();
    const line = await guest.connection();
    line.write(Buffer.alloc(300_000, 'a'));
    line.end('panic: not syncing');
    const { code, reason } = await client.closed;
    assert.equal(code, 1000);
    assert.match(reason, /^the virtual machine closed its /);
    assert.equal(client.bytes, 300_018);
    assert.deepEqual(server.sessions(), []);
  });
}

test('a guest that dies with unread input is one that closed its console', async (t) => {
  const { attach, guest } = await startBench(t);
  const client = await attach().opened();
  const line = await guest.connection();
  client.send('unread');
  await eventually(() => assert.ok(line.readableLength > 0 || line.bytesRead > 0));
  client.send('unread, too');
  line.pause();
  line.destroy();
  assert.deepEqual(await client.closed, { code: 1000, reason: 'the virtual machine closed its console' });
});

for (const kind of ['console', 'vnc'] as const) {
  test(`a connection to the guest that fails ends the ${kind} with 1011 and the reason`, async (t) => {
    const { attach, guest } = await startBench(t, {
      open: async (signal) => {
        const socket = await connected(guest.path, signal);
        // No kernel gives an error on demand.
        socket.once('data', () => socket.destroy(new Error('read EIO')));
        return socket;
      },
    });
    const client = await attach('', { kind }).opened();
    (await guest.connection()).write('x');
    const { code, reason } = await client.closed;
    assert.equal(code, 1011);
    assert.match(reason, /failed: read EIO$/);
  });
}

for (const kind of ['console', 'vnc', 'usbredir'] as const) {
  test(`a ${kind} whose guest hung up between the connect and the session is refused, and the next one is not`, async (t) => {
    let isDying = true;
    const { attach, guest } = await startBench(t, {
      open: async (signal) => {
        const socket = await connected(guest.path, signal);
        if (isDying) {
          // Who listens is checked meanwhile, which takes its time.
          (await guest.connection()).destroy();
          await once(socket.resume(), 'close');
          isDying = false;
        }
        return socket;
      },
    });
    assert.equal((await attach('', { kind }).refused()).status, 502);
    await attach('', { kind }).opened();
  });
}

test('what is gone is ended with 4003 and the reason, also what waits for its guest; other VMIs go on', async (t) => {
  let isHanging = false;
  const { attach, guest, server } = await startBench(t, {
    open: (signal) => (isHanging ? new Promise(() => undefined) : connected(guest.path, signal)),
  });
  const gone = [
    await attach('', { protocols: [aware] }).opened(),
    await attach('?access=view').opened(),
    await attach('', { kind: 'vnc' }).opened(),
    await attach('', { kind: 'usbredir' }).opened(),
  ];
  const other = await attach('', { uid: 'other' }).opened();
  isHanging = true;
  const waiting = attach('', { kind: 'vnc' });
  await eventually(() => assert.equal(server.sessions().length, 5));
  await eventually(() => {
    server.endAll(uid, 'the virtual machine was restarted');
    assert.equal(waiting.refusal?.status, 503);
  });
  for (const { closed } of gone)
    assert.deepEqual(await closed, { code: 4003, reason: 'the virtual machine was restarted' });
  assert.deepEqual(
    server.sessions().map((session) => session.uid),
    ['other'],
  );
  other.send('x');
});

test('an agent that leaves says 1001, refuses newcomers, closes lingering lines, and waits for nobody', async (t) => {
  const { attach, guest, server, port } = await startBench(t, { options: { closeTimeoutMs: 300 } });
  const lingering = await attach('', { uid: 'lingering', protocols: [aware] }).opened();
  await lingering.notice('attached');
  const left = await guest.connection();
  left.resume();
  lingering.stop();
  const client = await attach().opened();
  const deaf = await RawClient.connect(port);
  deaf.socket.write(upgradeText({}, 'GET /console/deaf HTTP/1.1'));
  await deaf.gets('101');
  deaf.socket.pause();
  await eventually(() => assert.equal(server.sessions().length, 2));
  const closing = Promise.all([server.close(), server.close()]);
  assert.deepEqual(await client.closed, { code: 1001, reason: 'the agent is restarting; connect again' });
  await closing;
  await eventually(() => assert.equal(left.destroyed, true));
  assert.equal((await attach().refused()).status, 503);
  deaf.socket.destroy();
});

async function letPeerGoSilent(t: TestContext, options: Pick<ConsoleBenchOptions, 'tls'>): Promise<void> {
  const clock = new FakeClock();
  const { attach, server } = await startBench(t, { clock, ...options });
  const silent = await attach('', { autoPong: false }).opened();
  const talking = await attach('?access=view').opened();
  let pings = 0;
  silent.websocket.on('ping', () => pings++);
  const ofTalking = () => server.sessions().find(({ role }) => role === 'viewer')?.receivedBytes;
  for (const count of [1, 2]) {
    clock.advance(30_000);
    await eventually(() => assert.equal(pings, count));
    talking.send('x');
    await eventually(() => assert.equal(ofTalking(), count));
  }
  clock.advance(30_000);
  assert.equal((await silent.closed).code, 1006);
  await eventually(() => assert.equal(server.sessions().length, 1));
  assert.equal(talking.websocket.readyState, talking.websocket.OPEN);
}

test('a half-open peer is found by its silence: two pings, then the end', (t) => letPeerGoSilent(t, {}));

test('a half-open peer is found by its silence over TLS, too', async (t) =>
  letPeerGoSilent(t, { tls: await makeKeyPair() }));

test('a peer that never answers a close frame loses its connection within the limit', async (t) => {
  const { guest, port, server } = await startBench(t, { options: { closeTimeoutMs: 300 } });
  const client = await RawClient.connect(port);
  client.socket.write(upgradeText());
  await client.gets('101');
  (await guest.connection()).end();
  await client.gets('\u0088\u0028\u0003\u00e8the virtual machine closed its console');
  assert.deepEqual(server.sessions(), []);
  await client.closed();
});

test('a guest is known to have streams while one is being opened and while its line lingers, and not afterwards', async (t) => {
  let isHanging = true;
  const { attach, guest, server } = await startBench(t, {
    open: (signal) => (isHanging ? new Promise(() => undefined) : connected(guest.path, signal)),
  });
  attach('', { protocols: [aware] });
  const known = () => [...server.uidsOf('default/testvm')];
  await eventually(() => assert.deepEqual(known(), [uid]));
  server.endAll(uid, 'the virtual machine was restarted');
  await eventually(() => assert.deepEqual(known(), []));
  isHanging = false;
  const client = await attach('', { protocols: [aware] }).opened();
  await client.notice('attached');
  client.stop();
  await eventually(() => assert.equal(server.sessions().length, 0));
  assert.deepEqual(known(), [uid]);
  server.endAll(uid, 'the virtual machine is gone from this node');
  await eventually(() => assert.deepEqual(known(), []));
});
