import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { LineChannel } from '../../../../src/agent/migration-proxy/line-channel.ts';
import { FakeClock, settle } from '../../../fixtures/fake-clock.ts';

function bench() {
  const socket = new PassThrough();
  const clock = new FakeClock();
  const lines: string[] = [];
  const ends: (string | undefined)[] = [];
  const channel = new LineChannel(socket as unknown as Socket, {
    clock,
    onLine: (line) => lines.push(line),
    onEnd: (reason) => ends.push(reason),
  });
  return { socket, clock, lines, ends, channel };
}

test('lines come as they were sent, in whatever pieces', async () => {
  const { socket, clock, lines } = bench();
  for (const piece of ['{"a"', ':1}\n{"b":', '2}\n{"c":3}\n', '{']) socket.write(piece);
  await settle();
  assert.deepEqual(lines, ['{"a":1}', '{"b":2}', '{"c":3}']);
  assert.equal(clock.timers, 1);
});

test('a line that is not whole in ten seconds ends the connection, one that is never begun does not', async () => {
  const { socket, clock, ends } = bench();
  await clock.pass(60_000);
  assert.deepEqual(ends, []);
  socket.write('{');
  await settle();
  await clock.pass(9_000);
  socket.write('"a"');
  await settle();
  assert.deepEqual(ends, []);
  await clock.pass(1_001);
  assert.deepEqual(ends, ['its message is not whole']);
  assert.equal(clock.timers, 0);
});

for (const end of ['', '\n']) {
  test(`more than a mebibyte without an end is not kept, and ends the connection${end && ', whole or not'}`, async () => {
    const { socket, lines, ends } = bench();
    socket.write(`${'x'.repeat(1024 * 1024 + 1)}${end}`);
    await settle();
    assert.deepEqual([lines, ends], [[], ['its message is too long']]);
  });
}

test('what was ended by the other side has no reason, and nothing is sent any more', async () => {
  const { socket, channel, ends } = bench();
  socket.destroy();
  await settle();
  channel.send({ a: 1 });
  assert.deepEqual([ends, channel.isOpen], [[undefined], false]);
});
