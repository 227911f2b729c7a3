import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLibvirtError } from '../../../src/libvirt/error.ts';
import { type Packet, PacketStatus, PacketType } from '../../../src/libvirt/frame.ts';
import { Program, procedures } from '../../../src/libvirt/procedures.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { eachTestHasRpcBench, failsWith, type RpcBench } from './rpc-bench.ts';

const domain = { name: 'd', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };
const uri = Buffer.from('0000000361626300', 'hex');

let rpc: RpcBench;
eachTestHasRpcBench((bench) => {
  rpc = bench;
});

test('serials count from 1, and replies find their calls in any order', async () => {
  await rpc.open();
  const calls = rpc.held(procedures.connectGetUri);
  const answers = [0, 1, 2].map(() => rpc.connection.call(procedures.connectGetUri, undefined));
  await eventually(() => assert.equal(calls.length, 3));
  assert.deepEqual(
    calls.map(({ serial }) => serial),
    [1, 2, 3],
  );
  for (const call of calls.reverse()) {
    rpc.daemon.peer.reply(call, Buffer.from(`0000000${call.serial}61616161`, 'hex'));
  }
  assert.deepEqual(await Promise.all(answers), [{ value: 'a' }, { value: 'aa' }, { value: 'aaa' }]);
});

test('an error reply is the error of its call only', async () => {
  await rpc.open();
  rpc.daemon.on(procedures.connectGetHostname, () => ({ value: 'h' }));
  await assert.rejects(rpc.connection.call(procedures.connectGetUri, undefined), { code: 'RPC', libvirtCode: 39 });
  assert.deepEqual(await rpc.connection.call(procedures.connectGetHostname, undefined), { value: 'h' });
});

test('at most the given number of calls is under way, and the others follow', async () => {
  await rpc.open({ maxInFlightCalls: 2 });
  const calls = rpc.held(procedures.connectGetUri);
  const answers = Array.from({ length: 5 }, () => rpc.connection.call(procedures.connectGetUri, undefined));
  for (let answered = 0; answered < 5; answered++) {
    await eventually(() => assert.equal(calls.length, Math.min(5, answered + 2)));
    const call = calls[answered];
    assert.ok(call);
    rpc.daemon.peer.reply(call, uri);
  }
  assert.equal((await Promise.all(answers)).length, 5);
});

test('more waiting calls than the limit are refused at once', async () => {
  await rpc.open({ maxInFlightCalls: 1, maxQueuedCalls: 2 });
  rpc.held(procedures.connectGetUri);
  const waiting = [0, 1, 2].map(() => rpc.connection.call(procedures.connectGetUri, undefined));
  await assert.rejects(rpc.connection.call(procedures.connectGetUri, undefined), failsWith('TOO_MANY_CALLS'));
  rpc.connection.close();
  for (const { status } of await Promise.allSettled(waiting)) assert.equal(status, 'rejected');
});

test('a call without an answer ends at its deadline; its late reply is ignored and its place is free again', async () => {
  await rpc.open({ maxInFlightCalls: 2 });
  const calls = rpc.held(procedures.connectGetUri);
  const late = rpc.connection.call(procedures.connectGetUri, undefined);
  await eventually(() => assert.equal(calls.length, 1));
  rpc.clock.advance(1_000);
  await assert.rejects(late, failsWith('CALL_TIMEOUT'));
  rpc.daemon.peer.reply(calls[0] as Packet, uri);
  rpc.daemon.on(procedures.connectGetHostname, () => ({ value: 'h' }));
  assert.deepEqual(await rpc.connection.call(procedures.connectGetHostname, undefined), { value: 'h' });
  assert.equal(rpc.connection.isOpen, true);
  assert.equal(rpc.clock.timers, 0);
});

test('when every place is held by a call that was given up, the connection ends', async () => {
  await rpc.open({ maxInFlightCalls: 2 });
  const calls = rpc.held(procedures.connectGetUri);
  const late = [0, 1].map(() => rpc.connection.call(procedures.connectGetUri, undefined));
  const waiting = rpc.connection.call(procedures.connectGetUri, undefined, { timeoutMs: 60_000 });
  const lost = assert.rejects(waiting, failsWith('CONNECTION_LOST'));
  await eventually(() => assert.equal(calls.length, 2));
  rpc.clock.advance(1_000);
  for (const call of late) await assert.rejects(call, failsWith('CALL_TIMEOUT', 'CONNECTION_LOST'));
  await lost;
  assert.equal((await rpc.connection.closed).cause instanceof Error, true);
});

test('a signal ends the wait with its reason as cause, before and after the call was sent', async () => {
  await rpc.open();
  rpc.held(procedures.connectGetUri);
  const controller = new AbortController();
  const call = rpc.connection.call(procedures.connectGetUri, undefined, { signal: controller.signal });
  const reason = new Error('no longer wanted');
  controller.abort(reason);
  await assert.rejects(call, { code: 'CALL_ABORTED', cause: reason });
  const aborted = rpc.connection.call(procedures.connectGetUri, undefined, { signal: controller.signal });
  await assert.rejects(aborted, { code: 'CALL_ABORTED', cause: reason });
});

test('the end of the socket rejects every call, sent or waiting, and later ones', async () => {
  await rpc.open({ maxInFlightCalls: 1 });
  const calls = rpc.held(procedures.connectGetUri);
  const results = Promise.allSettled([0, 1, 2].map(() => rpc.connection.call(procedures.connectGetUri, undefined)));
  await eventually(() => assert.equal(calls.length, 1));
  rpc.daemon.peer.socket.destroy();
  for (const result of await results) {
    assert.ok(result.status === 'rejected' && isLibvirtError(result.reason, 'CONNECTION_LOST'));
  }
  await assert.rejects(rpc.connection.call(procedures.connectGetUri, undefined), failsWith('CONNECTION_LOST'));
  assert.equal((await rpc.connection.closed).cause instanceof Error, true);
  assert.equal(rpc.clock.timers, 0);
});

test('arguments that cannot be sent fail alone and send nothing', async () => {
  await rpc.open({ maxPacketBytes: 1_000 });
  const badUuid = { ...domain, uuid: 'x' };
  await assert.rejects(
    rpc.connection.call(procedures.domainSuspend, { domain: badUuid }),
    failsWith('INVALID_ARGUMENT'),
  );
  const longXml = { xml: 'x'.repeat(2_000), flags: 0 };
  await assert.rejects(rpc.connection.call(procedures.domainDefineXml, longXml), failsWith('INVALID_ARGUMENT'));
  assert.deepEqual(rpc.daemon.calls, []);
  assert.equal(rpc.connection.isOpen, true);
});

test('a reply that cannot be read fails its call; the connection goes on', async () => {
  await rpc.open();
  rpc.daemon.onRaw(procedures.connectGetUri.number, () => Buffer.from('7fffffff', 'hex'));
  await assert.rejects(rpc.connection.call(procedures.connectGetUri, undefined), failsWith('PROTOCOL_VIOLATION'));
  rpc.daemon.onRaw(procedures.connectGetUri.number, () => Buffer.concat([uri, Buffer.alloc(4)]));
  await assert.rejects(rpc.connection.call(procedures.connectGetUri, undefined), failsWith('PROTOCOL_VIOLATION'));
  rpc.daemon.onRaw(procedures.connectGetUri.number, (_args, peer, call) => {
    peer.send({ ...call, type: PacketType.REPLY, status: PacketStatus.ERROR, payload: Buffer.from('00', 'hex') });
    return undefined;
  });
  await assert.rejects(rpc.connection.call(procedures.connectGetUri, undefined), failsWith('PROTOCOL_VIOLATION'));
  assert.equal(rpc.connection.isOpen, true);
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
    await rpc.open();
    rpc.daemon.onRaw(procedures.connectGetUri.number, (_args, peer, call) => {
      peer.send(packet(call));
      return undefined;
    });
    await assert.rejects(
      rpc.connection.call(procedures.connectGetUri, undefined),
      failsWith('CONNECTION_LOST', 'PROTOCOL_VIOLATION'),
    );
    const { cause } = await rpc.connection.closed;
    assert.ok(isLibvirtError(cause, 'PROTOCOL_VIOLATION'));
  });
}

test('packets that mean nothing are counted and ignored', async () => {
  await rpc.open();
  const { peer } = rpc.daemon;
  peer.send({ type: PacketType.REPLY, serial: 4711 });
  peer.send({ type: PacketType.STREAM, serial: 4711, status: PacketStatus.CONTINUE, payload: Buffer.alloc(10) });
  peer.send({ type: PacketType.STREAM_HOLE, serial: 4711 });
  peer.send({ program: Program.KEEPALIVE, procedure: 9, type: PacketType.MESSAGE });
  await eventually(() => assert.equal(rpc.ignored.length, 4));
  assert.equal(rpc.connection.isOpen, true);
});

test('each ping is answered with a pong; a daemon that pings and does not read cannot fill this process', async () => {
  await rpc.open({ maxUnsentBytes: 10_000 });
  const { peer } = rpc.daemon;
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
  const calls = rpc.held(procedures.connectGetUri);
  peer.send({ type: PacketType.REPLY, serial: 4711 });
  await eventually(() => assert.equal(rpc.ignored.length, 1));
  peer.socket.resume();
  const answer = rpc.connection.call(procedures.connectGetUri, undefined);
  await eventually(() => assert.equal(calls.length, 1));
  assert.ok(peer.packets.length < 50_000, String(peer.packets.length));
  peer.reply(calls[0] as Packet, uri);
  await answer;
});

test('a daemon that hangs is found by its unanswered pings', async () => {
  await rpc.open();
  rpc.connection.startKeepalive({ intervalMs: 100, count: 3 });
  rpc.held(procedures.connectGetUri);
  const call = rpc.connection.call(procedures.connectGetUri, undefined);
  const lost = assert.rejects(call, failsWith('CONNECTION_LOST'));
  rpc.clock.advance(400);
  await lost;
  assert.equal(rpc.clock.timers, 0);
});
