import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Packet, PacketStatus, PacketType } from '../../../src/libvirt/frame.ts';
import { Program, procedures } from '../../../src/libvirt/procedures.ts';
import { collectStream } from '../../../src/libvirt/stream.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { errorPayload } from './fake-daemon.ts';
import { eachTestHasRpcBench, failsWith, type RpcBench } from './rpc-bench.ts';

const domain = { name: 'd', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };

let rpc: RpcBench;
eachTestHasRpcBench((bench) => {
  rpc = bench;
});

const mimeReply = Buffer.from('00000000', 'hex');
const screenshot = { domain, screen: 0, flags: 0 };

/** A stream that sends `chunks` at once, in the same write as its reply. */
function streamOf(chunks: readonly Buffer[], end = true): void {
  rpc.daemon.onRaw(procedures.domainScreenshot.number, (_args, peer, call) => {
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
  const { peer } = rpc.daemon;
  const finish = () =>
    peer.packets.find(({ type, status }) => type === PacketType.STREAM && status === PacketStatus.OK);
  await eventually(() => assert.ok(finish()));
  peer.sendStream(finish() as Packet, PacketStatus.OK);
}

test('a stream gives its bytes in order and ends with a finish that is answered', async () => {
  await rpc.open();
  streamOf([Buffer.from('one '), Buffer.from('two')]);
  const { stream } = await rpc.connection.openStream(procedures.domainScreenshot, screenshot);
  const data = collectStream(stream, { maxBytes: 100, timeoutMs: 5_000 });
  await answerFinish();
  assert.equal((await data).toString(), 'one two');
});

/** libvirtd's stream runs in another thread than its calls: seen with screenshots of a real guest. */
test('bytes of a stream that overtake the reply of its call are kept, the end too', async () => {
  await rpc.open();
  rpc.daemon.onRaw(procedures.domainScreenshot.number, (_args, peer, call) => {
    peer.sendStream(call, PacketStatus.CONTINUE, Buffer.from('all'));
    peer.sendStream(call, PacketStatus.CONTINUE);
    peer.reply(call, mimeReply);
    return undefined;
  });
  const { stream } = await rpc.connection.openStream(procedures.domainScreenshot, screenshot);
  const data = collectStream(stream, { maxBytes: 100, timeoutMs: 5_000 });
  await answerFinish();
  assert.equal((await data).toString(), 'all');
});

for (const [packets, size] of [
  [20, 10],
  [3, 2_000_000],
] as const) {
  test(`${packets} packets of ${size} stream bytes before the reply of their call end the connection`, async () => {
    await rpc.open();
    rpc.daemon.onRaw(procedures.domainScreenshot.number, (_args, peer, call) => {
      for (let sent = 0; sent < packets; sent++) peer.sendStream(call, PacketStatus.CONTINUE, Buffer.alloc(size));
      return undefined;
    });
    await assert.rejects(
      rpc.connection.openStream(procedures.domainScreenshot, screenshot),
      failsWith('CONNECTION_LOST'),
    );
  });
}

test('a stream that the daemon fails gives the error after its bytes', async () => {
  await rpc.open();
  streamOf([Buffer.from('part')], false);
  const { stream } = await rpc.connection.openStream(procedures.domainScreenshot, screenshot);
  const call = {
    program: Program.REMOTE,
    version: 1,
    procedure: 211,
    type: 0,
    serial: 1,
    status: 0,
    payload: Buffer.alloc(0),
  };
  rpc.daemon.peer.sendStream(call, PacketStatus.ERROR, errorPayload(38, 'disk is gone'));
  const seen: string[] = [];
  const reading = (async () => {
    for await (const chunk of stream) seen.push(chunk.toString());
  })();
  await assert.rejects(reading, { code: 'SYSTEM_ERROR', message: 'disk is gone' });
  assert.deepEqual(seen, ['part']);
});

test('a stream longer than its reader allows is aborted', async () => {
  await rpc.open();
  streamOf([Buffer.alloc(60), Buffer.alloc(60)]);
  const { stream } = await rpc.connection.openStream(procedures.domainScreenshot, screenshot);
  await assert.rejects(collectStream(stream, { maxBytes: 100, timeoutMs: 5_000 }), failsWith('STREAM_TOO_LONG'));
  await eventually(() =>
    assert.deepEqual(
      rpc.daemon.peer.packets.map(({ status }) => status),
      [PacketStatus.ERROR],
    ),
  );
});

test('a stream that does not end is aborted at its deadline', async () => {
  await rpc.open();
  streamOf([Buffer.alloc(60)], false);
  const { stream } = await rpc.connection.openStream(procedures.domainScreenshot, screenshot);
  await assert.rejects(collectStream(stream, { maxBytes: 100, timeoutMs: 30 }), failsWith('CALL_TIMEOUT'));
});

test('a stream of a lost connection fails', async () => {
  await rpc.open();
  streamOf([Buffer.from('part')], false);
  const { stream } = await rpc.connection.openStream(procedures.domainScreenshot, screenshot);
  const data = collectStream(stream, { maxBytes: 100, timeoutMs: 5_000 });
  rpc.daemon.peer.socket.destroy();
  await assert.rejects(data, failsWith('CONNECTION_LOST'));
});

test('a stream whose opener gave up is aborted when its reply comes', async () => {
  await rpc.open();
  const calls = rpc.held(procedures.domainScreenshot);
  const controller = new AbortController();
  const opening = rpc.connection.openStream(procedures.domainScreenshot, screenshot, { signal: controller.signal });
  await eventually(() => assert.equal(calls.length, 1));
  controller.abort();
  await assert.rejects(opening, failsWith('CALL_ABORTED'));
  rpc.daemon.peer.reply(calls[0] as Packet, mimeReply);
  await eventually(() =>
    assert.deepEqual(
      rpc.daemon.peer.packets.map(({ status }) => status),
      [PacketStatus.ERROR],
    ),
  );
});

test('a reader that does not read stops the daemon, not this process', async () => {
  await rpc.open({ streamHighWaterBytes: 100_000 });
  const chunk = Buffer.alloc(50_000);
  streamOf(Array.from({ length: 200 }, () => chunk));
  const { stream } = await rpc.connection.openStream(procedures.domainScreenshot, screenshot);
  const { socket } = rpc.daemon.peer;
  let isDrained = false;
  socket.once('drain', () => {
    isDrained = true;
  });
  await stays(() => assert.equal(isDrained, false), 200);
  assert.ok(socket.writableLength > 8_000_000, String(socket.writableLength));
  const data = collectStream(stream, { maxBytes: 20_000_000, timeoutMs: 10_000 });
  await answerFinish();
  assert.equal((await data).length, 10_000_000);
});

test('what is written to a stream is cut into packets that every daemon takes', async () => {
  await rpc.open();
  streamOf([], false);
  const { stream } = await rpc.connection.openStream(procedures.domainScreenshot, screenshot);
  await stream.write(Buffer.alloc(300_000, 1));
  await eventually(() =>
    assert.deepEqual(
      rpc.daemon.peer.packets.map(({ status, payload }) => [status, payload.length]),
      [
        [PacketStatus.CONTINUE, 262_120],
        [PacketStatus.CONTINUE, 37_880],
      ],
    ),
  );
  stream.abort();
  await assert.rejects(stream.write(Buffer.alloc(1)), failsWith('CALL_ABORTED'));
});
