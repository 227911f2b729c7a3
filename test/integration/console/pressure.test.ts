import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type net from 'node:net';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { aware, type Client } from './client.ts';
import { type ConsoleBench, startBench } from './console-bench.ts';
import { heldBytes } from './memory.ts';

const megabyte = 1_000_000;
/** A piece of the flood, different in each round. */
const piece = (round: number) => Buffer.alloc(megabyte, `${round}: a line of the flood\r\n`);
const flood = (rounds: number) => Array.from({ length: rounds }, (_, round) => piece(round));

/** Writes as the reader allows. */
async function pour(connection: net.Socket, pieces: readonly Buffer[]): Promise<void> {
  for (const one of pieces) {
    await new Promise<void>((resolve, reject) => {
      connection.write(one, (error) => (error ? reject(error) : resolve()));
    });
  }
}

/** Takes the place of what a client remembers, for floods. */
function hashed(client: Client): { readonly digest: () => string } {
  const hash = createHash('sha256');
  client.websocket.removeAllListeners('message');
  client.websocket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) return;
    client.bytes += data.length;
    hash.update(data);
  });
  return { digest: () => hash.digest('hex') };
}

const digestOf = (pieces: readonly Buffer[]) =>
  pieces.reduce((hash, one) => hash.update(one), createHash('sha256')).digest('hex');

const ofRole = (bench: ConsoleBench, wanted: string) => bench.server.sessions().find(({ role }) => role === wanted);

/** Waits until `value` stays the same for a while. */
async function settled(value: () => number): Promise<number> {
  let last = -1;
  let same = 0;
  await eventually(() => {
    same = value() === last ? same + 1 : 0;
    last = value();
    assert.ok(same > 15);
  });
  return last;
}

for (const kind of ['console', 'vnc'] as const) {
  test(`a writer of a ${kind} that does not read makes the guest wait, and gets all of 100 MB when it does`, async (t) => {
    const bench = await startBench(t);
    const client = await bench.attach('', { kind }).opened();
    const { digest } = hashed(client);
    const connection = await bench.guest.connection();
    const pieces = flood(100);
    client.websocket.pause();
    const before = heldBytes();
    let poured = 0;
    const pouring = pieces.reduce(async (done, one) => {
      await done;
      await pour(connection, [one]);
      poured += one.length;
    }, Promise.resolve());
    await settled(() => poured);
    assert.ok(poured < 20 * megabyte, `${poured} bytes are somewhere`);
    assert.ok(heldBytes() - before < 4 * megabyte);
    assert.ok((bench.server.sessions()[0]?.bufferedBytes ?? 0) < 140_000);
    client.websocket.resume();
    await pouring;
    await eventually(() => assert.equal(client.bytes, 100 * megabyte), 60_000);
    assert.equal(digest(), digestOf(pieces));
  });
}

/** A writer that reads all, and a viewer that does not read. */
async function withSlowViewer(t: TestContext, protocols: readonly string[]) {
  const clock = new FakeClock();
  const bench = await startBench(t, { clock });
  const writer = await bench.attach().opened();
  const viewer = await bench.attach('?access=view', { protocols }).opened();
  await eventually(() => assert.equal(bench.server.sessions().length, 2));
  const connection = await bench.guest.connection();
  connection.write('start');
  await viewer.gets('start');
  viewer.websocket.pause();
  return { clock, bench, writer, viewer, connection };
}

for (const protocols of [[], [aware]]) {
  test(`a viewer that does not read slows nobody, is held in 320 KiB, and gets 4002 after ten seconds: ${protocols}`, async (t) => {
    const { clock, bench, writer, viewer, connection } = await withSlowViewer(t, protocols);
    const { digest } = hashed(writer);
    const pieces = flood(60);
    await pour(connection, pieces);
    await eventually(() => assert.equal(writer.bytes, 60 * megabyte + 5), 60_000);
    assert.equal(digest(), digestOf(pieces));
    assert.ok((ofRole(bench, 'viewer')?.bufferedBytes ?? 0) < 330_000);
    clock.advance(9_999);
    assert.equal(bench.server.sessions().length, 2);
    clock.advance(1);
    assert.equal(bench.server.sessions().length, 1);
    viewer.websocket.resume();
    assert.deepEqual(await viewer.closed, { code: 4002, reason: 'too slow: the console was not read for too long' });
    writer.send('on');
  });
}

test('an aware viewer that reads again in time is told how much it has lost, and goes on', async (t) => {
  const { clock, bench, writer, viewer, connection } = await withSlowViewer(t, [aware]);
  const pieces = flood(20);
  await pour(connection, pieces);
  await eventually(() => assert.equal(writer.bytes, 20 * megabyte + 5), 60_000);
  clock.advance(9_000);
  viewer.websocket.resume();
  const notice = await viewer.notice('attached', ({ lost }) => (lost ?? 0) > 0);
  await eventually(() => assert.equal(viewer.bytes + (notice.lost ?? 0), 20 * megabyte + 5));
  const tail = viewer.received.subarray(-(notice.replayed ?? 0));
  assert.equal((notice.offset ?? 0) + tail.length, 20 * megabyte + 5);
  assert.deepEqual(tail, Buffer.concat(pieces).subarray(-tail.length));
  clock.advance(60_000);
  assert.equal(bench.server.sessions().length, 2, 'its ten seconds are over');
});

test('a plain viewer that has lost bytes cannot be told, and is ended when it reads again', async (t) => {
  const { writer, viewer, connection } = await withSlowViewer(t, []);
  await pour(connection, flood(20));
  await eventually(() => assert.equal(writer.bytes, 20 * megabyte + 5), 60_000);
  viewer.websocket.resume();
  const { code, reason } = await viewer.closed;
  assert.equal(code, 4002);
  assert.match(reason, /^too slow: \d+ bytes of the console are lost$/);
});

test('a guest that does not read makes the client wait, and gets every byte when it does', async (t) => {
  const bench = await startBench(t);
  const client = await bench.attach().opened();
  const connection = await bench.guest.connection();
  const before = heldBytes();
  const pieces = Array.from({ length: 400 }, (_, at) => Buffer.alloc(100_000, `${at},`));
  for (const one of pieces) client.websocket.send(one, { mask: true });
  await settled(() => client.websocket.bufferedAmount);
  assert.ok(client.websocket.bufferedAmount > 20 * megabyte, 'the rest waits with the client');
  // The client's own frames are 40 MB.
  assert.ok(heldBytes() - before < 90 * megabyte);
  const hash = createHash('sha256');
  connection.on('data', (chunk: Buffer) => hash.update(chunk));
  await eventually(() => assert.equal(connection.bytesRead, 40 * megabyte), 60_000);
  assert.equal(hash.digest('hex'), digestOf(pieces));
});

test('a writer that reads nothing can be taken over, and what it held up goes on', async (t) => {
  const bench = await startBench(t);
  const stuck = await bench.attach().opened();
  const connection = await bench.guest.connection();
  stuck.websocket.pause();
  const pouring = pour(connection, flood(30));
  await settled(() => connection.writableLength + connection.bytesWritten);
  const next = await bench.attach().opened();
  await pouring;
  await eventually(() => assert.ok(next.bytes > 10 * megabyte), 60_000);
});

test('a client whose input is held up can be taken over, and its successor types', async (t) => {
  const bench = await startBench(t);
  const stuck = await bench.attach('', { protocols: [aware] }).opened();
  const connection = await bench.guest.connection();
  for (let at = 0; at < 100; at++) stuck.websocket.send(Buffer.alloc(100_000, 'x'));
  await settled(() => stuck.websocket.bufferedAmount);
  const next = await bench.attach().opened();
  await stuck.notice('role', ({ role }) => role === 'viewer');
  next.send('the end');
  let last = '';
  connection.on('data', (chunk: Buffer) => {
    last = (last + chunk.toString()).slice(-7);
  });
  await eventually(() => assert.equal(last, 'the end'));
  await eventually(() => assert.equal(stuck.websocket.bufferedAmount, 0), 30_000);
});
