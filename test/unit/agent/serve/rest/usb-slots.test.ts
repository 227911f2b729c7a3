import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { UsbSlots } from '../../../../../src/agent/serve/rest/usb-slots.ts';
import { StreamRefusal } from '../../../../../src/console/index.ts';

async function closed(socket: Socket): Promise<void> {
  const end = once(socket, 'close');
  socket.destroy();
  await end;
}

test('the lowest free channel is given, and is free again when its socket has closed', async () => {
  const slots = new UsbSlots();
  const given: number[] = [];
  const take = () =>
    slots.connect('uid-1', async (slot) => {
      given.push(slot);
      return new Socket();
    });
  const sockets = [await take(), await take(), await take()];
  assert.deepEqual(given, [0, 1, 2]);
  await closed(sockets[1] ?? new Socket());
  sockets.push(await take());
  assert.deepEqual(given, [0, 1, 2, 1]);
  for (const socket of sockets) if (!socket.destroyed) await closed(socket);
  assert.equal(slots.size, 0);
});

test('when all four are in use the next one is refused with 503 and no text, another VMI is not', async () => {
  const slots = new UsbSlots();
  const make = async () => new Socket();
  const sockets = await Promise.all(Array.from({ length: 4 }, () => slots.connect('uid-1', make)));
  await assert.rejects(slots.connect('uid-1', make), (error: unknown) => {
    assert.ok(error instanceof StreamRefusal);
    assert.deepEqual([error.httpStatus, error.message], [503, '']);
    return true;
  });
  sockets.push(await slots.connect('uid-2', make));
  assert.equal(slots.size, 5);
  for (const socket of sockets) await closed(socket);
  assert.equal(slots.size, 0);
});

test('a channel that does not answer is passed over; when none answers the first one’s error is told', async () => {
  const slots = new UsbSlots();
  const socket = await slots.connect('uid-1', async (slot) => {
    if (slot < 2) throw new Error(`channel ${slot} is busy`);
    return new Socket();
  });
  assert.equal(slots.size, 1);
  await closed(socket);
  const refusing = async (slot: number) => {
    throw new Error(`channel ${slot} is busy`);
  };
  await assert.rejects(slots.connect('uid-1', refusing), /channel 0 is busy/);
  assert.equal(slots.size, 0);
});

test('a socket that closed before it was handed over holds no channel', async () => {
  const slots = new UsbSlots();
  await slots.connect('uid-1', async () => {
    const socket = new Socket();
    await closed(socket);
    return socket;
  });
  assert.equal(slots.size, 0);
});
