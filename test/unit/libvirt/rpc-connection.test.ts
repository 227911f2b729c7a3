import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { afterEach, beforeEach, test } from 'node:test';
import { isLibvirtError, type LibvirtErrorCode } from '../../../src/libvirt/error.ts';
import { type Packet, PacketStatus, PacketType } from '../../../src/libvirt/frame.ts';
import { Program, procedures } from '../../../src/libvirt/procedures.ts';
import { RpcConnection, type RpcLimits } from '../../../src/libvirt/rpc-connection.ts';
import { collectStream } from '../../../src/libvirt/stream.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from './fake-clock.ts';
import { errorPayload, FakeDaemon } from './fake-daemon.ts';

let daemon: FakeDaemon;
let clock: FakeClock;
let connection: RpcConnection;
let ignored: string[];
const domain = { name: 'd', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };
const uri = Buffer.from('0000000361626300', 'hex');

async function open(limits: Partial<RpcLimits> = {}): Promise<void> {
  const socket = connect(daemon.socketPath);
  await new Promise((resolve) => socket.once('connect', resolve));
  connection = new RpcConnection(
    { callTimeoutMs: 1_000, limits },
    { socket, clock, onMessage: () => undefined, onIgnored: (reason) => ignored.push(reason) },
  );
  await eventually(() => assert.equal(daemon.peers.length > 0, true));
}

beforeEach(async () => {
  daemon = await FakeDaemon.start();
  clock = new FakeClock();
  ignored = [];
});

afterEach(async () => {
  connection?.close();
  await daemon.remove();
});

const failsWith =
  (...codes: LibvirtErrorCode[]) =>
  (error: unknown) =>
    isLibvirtError(error, ...codes);

/** Calls of a procedure that the test answers itself. */
function held(procedure: { readonly number: number }): Packet[] {
  const calls: Packet[] = [];
  daemon.onRaw(procedure.number, (_args, _peer, call) => {
    calls.push(call);
    return undefined;
  });
  return calls;
}

test('serials count from 1, and replies find their calls in any order', async () => {
  await open();
  const calls = held(procedures.connectGetUri);
  const answers = [0, 1, 2].map(() => connection.call(procedures.connectGetUri, undefined));
  await eventually(() => assert.equal(calls.length, 3));
  assert.deepEqual(
    calls.map(({ serial }) => serial),
    [1, 2, 3],
  );
  for (const call of calls.reverse()) {
    daemon.peer.reply(call, Buffer.from(`0000000${call.serial}61616161`, 'hex'));
  }
  assert.deepEqual(await Promise.all(answers), [{ value: 'a' }, { value: 'aa' }, { value: 'aaa' }]);
});

test('an error reply is the error of its call only', async () => {
  await open();
  daemon.on(procedures.connectGetHostname, () => ({ value: 'h' }));
  await assert.rejects(connection.call(procedures.connectGetUri, undefined), { code: 'RPC', libvirtCode: 39 });
  assert.deepEqual(await connection.call(procedures.connectGetHostname, undefined), { value: 'h' });
});

test('at most the given number of calls is under way, and the others follow', async () => {
  await open({ maxInFlightCalls: 2 });
  const calls = held(procedures.connectGetUri);
  const answers = Array.from({ length: 5 }, () => connection.call(procedures.connectGetUri, undefined));
  for (let answered = 0; answered < 5; answered++) {
    await eventually(() => assert.equal(calls.length, Math.min(5, answered + 2)));
    const call = calls[answered];
    assert.ok(call);
    daemon.peer.reply(call, uri);
  }
  assert.equal((await Promise.all(answers)).length, 5);
});

test('more waiting calls than the limit are refused at once', async () => {
  await open({ maxInFlightCalls: 1, maxQueuedCalls: 2 });
  held(procedures.connectGetUri);
  const waiting = [0, 1, 2].map(() => connection.call(procedures.connectGetUri, undefined));
  await assert.rejects(connection.call(procedures.connectGetUri, undefined), failsWith('TOO_MANY_CALLS'));
  connection.close();
  for (const { status } of await Promise.allSettled(waiting)) assert.equal(status, 'rejected');
});

test('a call without an answer ends at its deadline; its late reply is ignored and its place is free again', async () => {
  await open({ maxInFlightCalls: 2 });
  const calls = held(procedures.connectGetUri);
  const late = connection.call(procedures.connectGetUri, undefined);
  await eventually(() => assert.equal(calls.length, 1));
  clock.advance(1_000);
  await assert.rejects(late, failsWith('CALL_TIMEOUT'));
  daemon.peer.reply(calls[0] as Packet, uri);
  daemon.on(procedures.connectGetHostname, () => ({ value: 'h' }));
  assert.deepEqual(await connection.call(procedures.connectGetHostname, undefined), { value: 'h' });
  assert.equal(connection.isOpen, true);
  assert.equal(clock.pending, 0);
});

test('when every place is held by a call that was given up, the connection ends', async () => {
  await open({ maxInFlightCalls: 2 });
  const calls = held(procedures.connectGetUri);
  const late = [0, 1].map(() => connection.call(procedures.connectGetUri, undefined));
  const waiting = connection.call(procedures.connectGetUri, undefined, { timeoutMs: 60_000 });
  const lost = assert.rejects(waiting, failsWith('CONNECTION_LOST'));
  await eventually(() => assert.equal(calls.length, 2));
  clock.advance(1_000);
  for (const call of late) await assert.rejects(call, failsWith('CALL_TIMEOUT', 'CONNECTION_LOST'));
  await lost;
  assert.equal((await connection.closed).cause instanceof Error, true);
});

test('a signal ends the wait with its reason as cause, before and after the call was sent', async () => {
  await open();
  held(procedures.connectGetUri);
  const controller = new AbortController();
  const call = connection.call(procedures.connectGetUri, undefined, { signal: controller.signal });
  const reason = new Error('no longer wanted');
  controller.abort(reason);
  await assert.rejects(call, { code: 'CALL_ABORTED', cause: reason });
  const aborted = connection.call(procedures.connectGetUri, undefined, { signal: controller.signal });
  await assert.rejects(aborted, { code: 'CALL_ABORTED', cause: reason });
});

test('the end of the socket rejects every call, sent or waiting, and later ones', async () => {
  await open({ maxInFlightCalls: 1 });
  const calls = held(procedures.connectGetUri);
  const results = Promise.allSettled([0, 1, 2].map(() => connection.call(procedures.connectGetUri, undefined)));
  await eventually(() => assert.equal(calls.length, 1));
  daemon.peer.socket.destroy();
  for (const result of await results) {
    assert.ok(result.status === 'rejected' && isLibvirtError(result.reason, 'CONNECTION_LOST'));
  }
  await assert.rejects(connection.call(procedures.connectGetUri, undefined), failsWith('CONNECTION_LOST'));
  assert.equal((await connection.closed).cause instanceof Error, true);
  assert.equal(clock.pending, 0);
});

test('arguments that cannot be sent fail alone and send nothing', async () => {
  await open({ maxPacketBytes: 1_000 });
  const badUuid = { ...domain, uuid: 'x' };
  await assert.rejects(connection.call(procedures.domainSuspend, { domain: badUuid }), failsWith('INVALID_ARGUMENT'));
  const longXml = { xml: 'x'.repeat(2_000), flags: 0 };
  await assert.rejects(connection.call(procedures.domainDefineXml, longXml), failsWith('INVALID_ARGUMENT'));
  assert.deepEqual(daemon.calls, []);
  assert.equal(connection.isOpen, true);
});

test('a reply that cannot be read fails its call; the connection goes on', async () => {
  await open();
  daemon.onRaw(procedures.connectGetUri.number, () => Buffer.from('7fffffff', 'hex'));
  await assert.rejects(connection.call(procedures.connectGetUri, undefined), failsWith('PROTOCOL_VIOLATION'));
  daemon.onRaw(procedures.connectGetUri.number, () => Buffer.concat([uri, Buffer.alloc(4)]));
  await assert.rejects(connection.call(procedures.connectGetUri, undefined), failsWith('PROTOCOL_VIOLATION'));
  daemon.onRaw(procedures.connectGetUri.number, (_args, peer, call) => {
    peer.send({ ...call, type: PacketType.REPLY, status: PacketStatus.ERROR, payload: Buffer.from('00', 'hex') });
    return undefined;
  });
  await assert.rejects(connection.call(procedures.connectGetUri, undefined), failsWith('PROTOCOL_VIOLATION'));
  assert.equal(connection.isOpen, true);
});

const violations: readonly (readonly [string, (call: Packet) => Partial<Packet>])[] = [
  ['a reply for another procedure', (call) => ({ ...call, type: PacketType.REPLY, procedure: 59 })],
  ['a reply for another program', (call) => ({ ...call, type: PacketType.REPLY, program: Program.QEMU })],
  ['a reply with an unknown status', (call) => ({ ...call, type: PacketType.REPLY, status: 7 })],
  ['a call from the daemon', (call) => ({ ...call, type: PacketType.CALL })],
  ['a reply with file descriptors', (call) => ({ ...call, type: 5 })],
  ['an unknown packet type', (call) => ({ ...call, type: 99 })],
  ['a keepalive call', () => ({ program: Program.KEEPALIVE, procedure: 1, type: PacketType.CALL })],
];

for (const [what, packet] of violations) {
  test(`${what} ends the connection, and every call fails`, async () => {
    await open();
    daemon.onRaw(procedures.connectGetUri.number, (_args, peer, call) => {
      peer.send(packet(call));
      return undefined;
    });
    await assert.rejects(
      connection.call(procedures.connectGetUri, undefined),
      failsWith('CONNECTION_LOST', 'PROTOCOL_VIOLATION'),
    );
    const { cause } = await connection.closed;
    assert.ok(isLibvirtError(cause, 'PROTOCOL_VIOLATION'));
  });
}

test('packets that mean nothing are counted and ignored', async () => {
  await open();
  const { peer } = daemon;
  peer.send({ type: PacketType.REPLY, serial: 4711 });
  peer.send({ type: PacketType.STREAM, serial: 4711, status: PacketStatus.CONTINUE, payload: Buffer.alloc(10) });
  peer.send({ type: PacketType.STREAM_HOLE, serial: 4711 });
  peer.send({ program: Program.KEEPALIVE, procedure: 9, type: PacketType.MESSAGE });
  await eventually(() => assert.equal(ignored.length, 4));
  assert.equal(connection.isOpen, true);
});

test('each ping is answered with a pong; a daemon that pings and does not read cannot fill this process', async () => {
  await open({ maxUnsentBytes: 10_000 });
  const { peer } = daemon;
  const ping = { program: Program.KEEPALIVE, procedure: 1, type: PacketType.MESSAGE };
  peer.send(ping);
  await eventually(() =>
    assert.deepEqual(
      peer.packets.map(({ program, procedure }) => [program, procedure]),
      [[Program.KEEPALIVE, 2]],
    ),
  );
  peer.socket.pause();
  for (let i = 0; i < 50_000; i++) peer.send(ping);
  const calls = held(procedures.connectGetUri);
  peer.send({ type: PacketType.REPLY, serial: 4711 });
  await eventually(() => assert.equal(ignored.length, 1));
  peer.socket.resume();
  const answer = connection.call(procedures.connectGetUri, undefined);
  await eventually(() => assert.equal(calls.length, 1));
  assert.ok(peer.packets.length < 50_000, String(peer.packets.length));
  peer.reply(calls[0] as Packet, uri);
  await answer;
});

test('a daemon that hangs is found by its unanswered pings', async () => {
  await open();
  connection.startKeepalive({ intervalMs: 100, count: 3 });
  held(procedures.connectGetUri);
  const call = connection.call(procedures.connectGetUri, undefined);
  const lost = assert.rejects(call, failsWith('CONNECTION_LOST'));
  clock.advance(400);
  await lost;
  assert.equal(clock.pending, 0);
});

const mimeReply = Buffer.from('00000000', 'hex');
const screenshot = { domain, screen: 0, flags: 0 };

/** A stream that sends `chunks` at once, in the same write as its reply. */
function streamOf(chunks: readonly Buffer[], end = true): void {
  daemon.onRaw(procedures.domainScreenshot.number, (_args, peer, call) => {
    peer.socket.cork();
    peer.reply(call, mimeReply);
    for (const chunk of chunks) peer.sendStream(call, PacketStatus.CONTINUE, chunk);
    if (end) peer.sendStream(call, PacketStatus.CONTINUE);
    peer.socket.uncork();
    return undefined;
  });
}

/** Answers the client's finish as libvirt does. */
async function answerFinish(): Promise<void> {
  const { peer } = daemon;
  const finish = () =>
    peer.packets.find(({ type, status }) => type === PacketType.STREAM && status === PacketStatus.OK);
  await eventually(() => assert.ok(finish()));
  peer.sendStream(finish() as Packet, PacketStatus.OK);
}

test('a stream gives its bytes in order and ends with a finish that is answered', async () => {
  await open();
  streamOf([Buffer.from('one '), Buffer.from('two')]);
  const { stream } = await connection.openStream(procedures.domainScreenshot, screenshot);
  const data = collectStream(stream, { maxBytes: 100, timeoutMs: 5_000 });
  await answerFinish();
  assert.equal((await data).toString(), 'one two');
});

/** libvirtd's stream runs in another thread than its calls: seen with screenshots of a real guest. */
test('bytes of a stream that overtake the reply of its call are kept, the end too', async () => {
  await open();
  daemon.onRaw(procedures.domainScreenshot.number, (_args, peer, call) => {
    peer.sendStream(call, PacketStatus.CONTINUE, Buffer.from('all'));
    peer.sendStream(call, PacketStatus.CONTINUE);
    peer.reply(call, mimeReply);
    return undefined;
  });
  const { stream } = await connection.openStream(procedures.domainScreenshot, screenshot);
  const data = collectStream(stream, { maxBytes: 100, timeoutMs: 5_000 });
  await answerFinish();
  assert.equal((await data).toString(), 'all');
});

for (const [packets, size] of [
  [20, 10],
  [3, 2_000_000],
] as const) {
  test(`${packets} packets of ${size} stream bytes before the reply of their call end the connection`, async () => {
    await open();
    daemon.onRaw(procedures.domainScreenshot.number, (_args, peer, call) => {
      for (let sent = 0; sent < packets; sent++) peer.sendStream(call, PacketStatus.CONTINUE, Buffer.alloc(size));
      return undefined;
    });
    await assert.rejects(connection.openStream(procedures.domainScreenshot, screenshot), failsWith('CONNECTION_LOST'));
  });
}

test('a stream that the daemon fails gives the error after its bytes', async () => {
  await open();
  streamOf([Buffer.from('part')], false);
  const { stream } = await connection.openStream(procedures.domainScreenshot, screenshot);
  const call = {
    program: Program.REMOTE,
    version: 1,
    procedure: 211,
    type: 0,
    serial: 1,
    status: 0,
    payload: Buffer.alloc(0),
  };
  daemon.peer.sendStream(call, PacketStatus.ERROR, errorPayload(38, 'disk is gone'));
  const seen: string[] = [];
  const reading = (async () => {
    for await (const chunk of stream) seen.push(chunk.toString());
  })();
  await assert.rejects(reading, { code: 'SYSTEM_ERROR', message: 'disk is gone' });
  assert.deepEqual(seen, ['part']);
});

test('a stream longer than its reader allows is aborted', async () => {
  await open();
  streamOf([Buffer.alloc(60), Buffer.alloc(60)]);
  const { stream } = await connection.openStream(procedures.domainScreenshot, screenshot);
  await assert.rejects(collectStream(stream, { maxBytes: 100, timeoutMs: 5_000 }), failsWith('STREAM_TOO_LONG'));
  await eventually(() =>
    assert.deepEqual(
      daemon.peer.packets.map(({ status }) => status),
      [PacketStatus.ERROR],
    ),
  );
});

test('a stream that does not end is aborted at its deadline', async () => {
  await open();
  streamOf([Buffer.alloc(60)], false);
  const { stream } = await connection.openStream(procedures.domainScreenshot, screenshot);
  await assert.rejects(collectStream(stream, { maxBytes: 100, timeoutMs: 30 }), failsWith('CALL_TIMEOUT'));
});

test('a stream of a lost connection fails', async () => {
  await open();
  streamOf([Buffer.from('part')], false);
  const { stream } = await connection.openStream(procedures.domainScreenshot, screenshot);
  const data = collectStream(stream, { maxBytes: 100, timeoutMs: 5_000 });
  daemon.peer.socket.destroy();
  await assert.rejects(data, failsWith('CONNECTION_LOST'));
});

test('a stream whose opener gave up is aborted when its reply comes', async () => {
  await open();
  const calls = held(procedures.domainScreenshot);
  const controller = new AbortController();
  const opening = connection.openStream(procedures.domainScreenshot, screenshot, { signal: controller.signal });
  await eventually(() => assert.equal(calls.length, 1));
  controller.abort();
  await assert.rejects(opening, failsWith('CALL_ABORTED'));
  daemon.peer.reply(calls[0] as Packet, mimeReply);
  await eventually(() =>
    assert.deepEqual(
      daemon.peer.packets.map(({ status }) => status),
      [PacketStatus.ERROR],
    ),
  );
});

test('a reader that does not read stops the daemon, not this process', async () => {
  await open({ streamHighWaterBytes: 100_000 });
  const chunk = Buffer.alloc(50_000);
  streamOf(Array.from({ length: 200 }, () => chunk));
  const { stream } = await connection.openStream(procedures.domainScreenshot, screenshot);
  const { socket } = daemon.peer;
  const drained = new Promise((resolve) => socket.once('drain', resolve)).then(() => 'drained');
  const state = await Promise.race([drained, new Promise((resolve) => setTimeout(resolve, 200, 'held'))]);
  assert.equal(state, 'held');
  assert.ok(socket.writableLength > 8_000_000, String(socket.writableLength));
  const data = collectStream(stream, { maxBytes: 20_000_000, timeoutMs: 10_000 });
  await answerFinish();
  assert.equal((await data).length, 10_000_000);
});

test('what is written to a stream is cut into packets that every daemon takes', async () => {
  await open();
  streamOf([], false);
  const { stream } = await connection.openStream(procedures.domainScreenshot, screenshot);
  await stream.write(Buffer.alloc(300_000, 1));
  await eventually(() =>
    assert.deepEqual(
      daemon.peer.packets.map(({ status, payload }) => [status, payload.length]),
      [
        [PacketStatus.CONTINUE, 262_120],
        [PacketStatus.CONTINUE, 37_880],
      ],
    ),
  );
  stream.abort();
  await assert.rejects(stream.write(Buffer.alloc(1)), failsWith('CALL_ABORTED'));
});
