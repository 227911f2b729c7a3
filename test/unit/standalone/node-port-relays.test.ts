import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import type { GuestTarget } from '../../../src/standalone/guest-dial.ts';
import { NodePortRelays } from '../../../src/standalone/services/node-port-relays.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { freePort } from '../../fixtures/free-port.ts';

const target = (port: number): GuestTarget => ({ reach: { kind: 'address', address: '127.0.0.1' }, port });
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/** Says this, and repeats what it hears until the other side ends. */
async function guest(word: string): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.write(word);
    socket.pipe(socket);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  stops.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

function relaysWith(): NodePortRelays {
  const dial = async ({ port }: GuestTarget): Promise<Socket> => {
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    await once(socket, 'connect');
    return socket;
  };
  const relays = new NodePortRelays({ dial: { dial }, log: silentLogger });
  stops.unshift(() => relays.stop());
  return relays;
}

async function heardAt(port: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.end('!');
  return String(Buffer.concat(await socket.toArray()));
}

test('a node port carries bytes both ways, and follows its guests', async () => {
  const [one, two, port] = [await guest('one'), await guest('two'), await freePort()];
  const relays = relaysWith();
  await relays.set([{ port, targets: [target(one)] }]);
  assert.ok(relays.has(port));
  assert.equal(await heardAt(port), 'one!');
  await relays.set([{ port, targets: [target(two)] }]);
  assert.equal(await heardAt(port), 'two!');
});

test('a guest that does not answer is passed over, and without any the connection is reset', async () => {
  const [one, closed, port] = [await guest('one'), await freePort(), await freePort()];
  const relays = relaysWith();
  await relays.set([{ port, targets: [target(closed), target(one)] }]);
  for (let times = 0; times < 8; times++) assert.equal(await heardAt(port), 'one!');
  await relays.set([{ port, targets: [] }]);
  await assert.rejects(heardAt(port), { code: 'ECONNRESET' });
});

test('a port that is not asked for any more is given back, and connections of before go on', async () => {
  const [one, port] = [await guest('one'), await freePort()];
  const relays = relaysWith();
  await relays.set([{ port, targets: [target(one)] }]);
  const socket = connect({ host: '127.0.0.1', port });
  assert.equal(String((await once(socket, 'data'))[0]), 'one');
  await relays.set([]);
  assert.equal(relays.has(port), false);
  await eventually(() => assert.rejects(heardAt(port), { code: 'ECONNREFUSED' }));
  socket.write('on');
  assert.equal(String((await once(socket, 'data'))[0]), 'on');
  await relays.stop();
  await once(socket, 'close');
});

test('a port that another program has is asked for again', async () => {
  const [one, port] = [await guest('one'), await freePort()];
  const other = createServer().listen(port, '127.0.0.1');
  await once(other, 'listening');
  const relays = relaysWith();
  await relays.set([{ port, targets: [target(one)] }]);
  assert.equal(relays.has(port), false);
  other.close();
  await once(other, 'close');
  await relays.set([{ port, targets: [target(one)] }]);
  assert.equal(await heardAt(port), 'one!');
});
