import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { aware } from './client.ts';
import { type ConsoleBench, startBench } from './console-bench.ts';
import { heldBytes } from './memory.ts';

const limitBytes = 65_536;
const remembering = { options: { scrollbackBytes: limitBytes } };
const ours = { protocols: [aware] };

/** Bytes that tell their place. */
function pattern(from: number, length: number): Buffer {
  return Buffer.from(Array.from({ length }, (_, at) => ((from + at) * 7919) >> 5));
}

async function lineWith(bench: ConsoleBench, bytes: Buffer) {
  const first = await bench.attach('', ours).opened();
  const guest = await bench.guest.connection();
  guest.write(bytes);
  await eventually(() => assert.equal(first.bytes, bytes.length));
  return { first, guest };
}

test('an aware newcomer gets what the line remembers, to the byte, and then what comes', async (t) => {
  const bench = await startBench(t, remembering);
  const { guest } = await lineWith(bench, pattern(0, 100_000));
  const second = await bench.attach('?access=view', ours).opened();
  const attached = await second.notice('attached');
  assert.deepEqual([attached.offset, attached.replayed, attached.lost], [100_000 - limitBytes, limitBytes, 0]);
  guest.write(pattern(100_000, 500));
  await eventually(() => assert.equal(second.bytes, limitBytes + 500));
  assert.deepEqual(second.received, pattern(100_000 - limitBytes, limitBytes + 500));
});

test('a plain newcomer gets nothing of the past', async (t) => {
  const bench = await startBench(t, remembering);
  const { guest, first } = await lineWith(bench, pattern(0, 1000));
  const second = await bench.attach().opened();
  await first.notice('role');
  guest.write('now');
  await second.gets('now');
  assert.equal(second.text, 'now');
});

test('a client that comes back goes on at the byte it asked for, if it is still remembered', async (t) => {
  const bench = await startBench(t, remembering);
  const { first } = await lineWith(bench, pattern(0, 90_000));
  const { line } = await first.notice('attached');
  first.stop();
  const cases = [
    { from: 89_000, offset: 89_000, lost: 0 },
    { from: 90_000, offset: 90_000, lost: 0 },
    { from: 20_000, offset: 90_000 - limitBytes, lost: 90_000 - limitBytes - 20_000 },
    { from: 90_001, offset: 90_000 - limitBytes, lost: 0 },
  ];
  for (const { from, offset, lost } of cases) {
    const again = await bench.attach(`?line=${line}&from=${from}`, ours).opened();
    const attached = await again.notice('attached');
    assert.deepEqual(
      [attached.offset, attached.replayed, attached.lost],
      [offset, 90_000 - offset, lost],
      String(from),
    );
    await eventually(() => assert.deepEqual(again.received, pattern(offset, 90_000 - offset)));
    again.stop();
  }
  const other = await bench.attach('?line=another&from=89000', ours).opened();
  assert.equal((await other.notice('attached')).offset, 90_000 - limitBytes);
});

test('a client that is cut in the middle of a flood again and again gets every byte once', async (t) => {
  const bench = await startBench(t, remembering);
  const total = 8_000_000;
  let client = await bench.attach('', ours).opened();
  const { line, offset } = await client.notice('attached');
  assert.equal(offset, 0);
  const guest = await bench.guest.connection();
  const flood = pattern(0, total);
  void (async () => {
    // In steps that the line remembers, as a flood with nobody there is read on.
    for (let at = 0; at < total; at += 50_000) {
      await eventually(() => assert.ok(known >= at - 10_000));
      guest.write(flood.subarray(at, at + 50_000));
    }
  })();
  const pieces: Buffer[] = [];
  let known = 0;
  client.websocket.on('message', onMessage);
  function onMessage(data: Buffer, isBinary: boolean): void {
    if (!isBinary) return;
    pieces.push(data);
    known += data.length;
  }
  for (let cut = 1; cut <= 20; cut++) {
    await eventually(() => assert.ok(known >= Math.min(total, cut * 300_000)));
    client.websocket.off('message', onMessage);
    client.stop();
    client = bench.attach(`?line=${line}&from=${known}`, ours);
    client.websocket.on('message', onMessage);
    await client.opened();
    assert.equal((await client.notice('attached')).lost, 0);
  }
  await eventually(() => assert.equal(known, total));
  assert.ok(Buffer.concat(pieces).equals(flood));
});

test('a line stays open for a minute after its last aware client, reads on, and is closed then', async (t) => {
  const clock = new FakeClock();
  const bench = await startBench(t, { clock });
  const { first, guest } = await lineWith(bench, pattern(0, 100));
  const { line } = await first.notice('attached');
  first.websocket.close();
  await first.closed;
  await eventually(() => assert.deepEqual(bench.server.sessions(), []));
  guest.write(pattern(100, 500));
  clock.advance(59_999);
  const again = await bench.attach(`?line=${line}&from=100`, ours).opened();
  await eventually(() => assert.deepEqual(again.received, pattern(100, 500)));
  again.websocket.close();
  await again.closed;
  await eventually(() => assert.deepEqual(bench.server.sessions(), []));
  assert.equal(guest.destroyed, false);
  clock.advance(60_000);
  await eventually(() => assert.equal(guest.destroyed, true));
  const later = await bench.attach(`?line=${line}&from=600`, ours).opened();
  const attached = await later.notice('attached');
  assert.notEqual(attached.line, line);
  assert.deepEqual([attached.offset, attached.replayed, attached.lost], [0, 0, 0]);
});

test('a plain session does not shorten the minute of an aware one, and adds nothing to it', async (t) => {
  const clock = new FakeClock();
  const bench = await startBench(t, { clock });
  const { first, guest } = await lineWith(bench, pattern(0, 100));
  const left = async (client: typeof first) => {
    client.websocket.close();
    await client.closed;
    await eventually(() => assert.deepEqual(bench.server.sessions(), []));
  };
  await left(first);
  clock.advance(40_000);
  await left(await bench.attach().opened());
  clock.advance(19_999);
  assert.equal(guest.destroyed, false);
  clock.advance(1);
  await eventually(() => assert.equal(guest.destroyed, true));
});

test('a line with nobody there is read on without growing, however much the guest says', async (t) => {
  const bench = await startBench(t, remembering);
  const { first, guest } = await lineWith(bench, Buffer.from('x'));
  const { line } = await first.notice('attached');
  first.stop();
  await eventually(() => assert.deepEqual(bench.server.sessions(), []));
  const before = heldBytes();
  const chunk = pattern(0, 1_000_000);
  for (let round = 0; round < 100; round++) {
    await new Promise<void>((resolve) => {
      guest.write(chunk, () => resolve());
    });
  }
  assert.ok(heldBytes() - before < 4_000_000);
  const again = await bench.attach(`?line=${line}&from=1`, ours).opened();
  await eventually(() => assert.deepEqual(again.received.subarray(-limitBytes), chunk.subarray(-limitBytes)));
});

test('a newcomer of ours gets what the guest wrote since its boot, a plain one what comes, and a line outlives the server', async (t) => {
  const log = { line: 'log-1', end: 1_000_000, bytes: pattern(990_000, 10_000) };
  const past = async () => log;
  const bench = await startBench(t, { past });
  const plain = await bench.attach('?access=view').opened();
  const first = await bench.attach('', ours).opened();
  const attached = await first.notice('attached');
  assert.deepEqual([attached.line, attached.offset, attached.replayed, attached.lost], ['log-1', 990_000, 10_000, 0]);
  const guest = await bench.guest.connection();
  guest.write(pattern(1_000_000, 500));
  await eventually(() => assert.deepEqual(first.received, pattern(990_000, 10_500)));
  await eventually(() => assert.deepEqual(plain.received, pattern(1_000_000, 500)));

  const later = { line: 'log-1', end: 1_000_700, bytes: pattern(900_700, 100_000) };
  const next = await startBench(t, { past: async () => later });
  const again = await next.attach('?line=log-1&from=1000500', ours).opened();
  const resumed = await again.notice('attached');
  assert.deepEqual([resumed.line, resumed.offset, resumed.replayed, resumed.lost], ['log-1', 1_000_500, 200, 0]);
  await eventually(() => assert.deepEqual(again.received, pattern(1_000_500, 200)));
});

test('a console that is opened in a flood meets its past at the byte, also of what QEMU logged before it took the connection', async (t) => {
  const line = 'log-flood';
  // QEMU's log as it grows: the reader of the past finds more each time, and the stream begins somewhere in between.
  const ends = [50_000, 51_000, 95_000];
  let reads = 0;
  const past = async () => {
    const end = ends[Math.min(reads++, ends.length - 1)] ?? 0;
    return { line, end, bytes: counted(end > 60_000 ? end - 60_000 : end - 20_000, end) };
  };
  const bench = await startBench(t, { past });
  const client = await bench.attach('', ours).opened();
  assert.equal((await client.notice('attached')).offset, 31_000);
  const guest = await bench.guest.connection();
  guest.write(counted(55_000, 58_000));
  guest.write(counted(58_000, 90_000));
  await eventually(() => assert.equal(client.received.length, 90_000 - 31_000));
  assert.ok(client.received.equals(counted(31_000, 90_000)));
});

test('what a guest says before it ends is shown, although its place is still looked for', async (t) => {
  const log = { line: 'log-end', end: 10, bytes: Buffer.from('0123456789') };
  const bench = await startBench(t, { past: async () => log });
  const client = await bench.attach('', ours).opened();
  (await bench.guest.connection()).end('last words');
  await eventually(() => assert.equal(client.text, '0123456789last words'));
});

test('a log that cannot be read, or does not answer, takes no console from anybody', async (t) => {
  const clock = new FakeClock();
  const bench = await startBench(t, { past: () => new Promise(() => undefined), clock });
  const opening = bench.attach('', ours).opened();
  await eventually(() => assert.ok(clock.timers > 0));
  clock.advance(2_000);
  await bench.guest.connection();
  await eventually(() => assert.ok(clock.timers > 0));
  clock.advance(2_000);
  assert.equal((await (await opening).notice('attached')).offset, 0);
  const broken = await startBench(t, { past: () => Promise.reject(new Error('no such file')) });
  const client = await broken.attach('', ours).opened();
  assert.equal((await client.notice('attached')).replayed, 0);
});

/** Part of an endless text in which no stretch of 32 bytes comes twice. */
function counted(from: number, to: number): Buffer {
  const text = Array.from({ length: Math.ceil(to / 10) + 1 }, (_, index) => `${String(index).padStart(8, ' ')}\r\n`);
  return Buffer.from(text.join('')).subarray(from, to);
}
