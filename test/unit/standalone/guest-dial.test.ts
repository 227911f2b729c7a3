import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { GuestDial } from '../../../src/standalone/guest-dial.ts';

test('what is sent to a guest that says no more itself arrives, as with nc -l -N < /dev/null', async (t) => {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.end('bye');
    void text(socket).then((heard) => server.emit('heard', heard));
  });
  t.after(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const dial = new GuestDial(async () => undefined);
  const guest = await dial.dial({ reach: { kind: 'address', address: '127.0.0.1' }, port }, new PassThrough());
  const said: Buffer[] = [];
  guest.on('data', (piece: Buffer) => said.push(piece));
  await once(guest, 'end');
  assert.equal(String(Buffer.concat(said)), 'bye');
  const heard = once(server, 'heard');
  guest.write('a'.repeat(100_000));
  guest.end('end');
  assert.equal((await heard)[0].length, 100_003);
});
