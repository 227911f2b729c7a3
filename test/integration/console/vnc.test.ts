import assert from 'node:assert/strict';
import type net from 'node:net';
import { test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { aware } from './client.ts';
import { startBench } from './console-bench.ts';

const vnc = { kind: 'vnc' } as const;
const awareVnc = { kind: 'vnc', protocols: [aware] } as const;
const version = Buffer.from('RFB 003.008\n');
const exclusive = Buffer.concat([version, Buffer.from([1, 0])]);
const shared = Buffer.concat([version, Buffer.from([1, 1])]);
const keyDown = Buffer.from([4, 1, 0, 0, 0, 0, 0, 97]);
const keyUp = Buffer.from([4, 0, 0, 0, 0, 0, 0, 97]);
const update = Buffer.from([3, 1, 0, 0, 0, 0, 2, 128, 1, 224]);

/** What a guest was sent. */
function inputOf(connection: net.Socket): () => Buffer {
  const chunks: Buffer[] = [];
  connection.on('data', (chunk: Buffer) => chunks.push(chunk));
  return () => Buffer.concat(chunks);
}

test('each session of a screen has its own connection, and asks QEMU to share whatever its client says', async (t) => {
  const { attach, guest } = await startBench(t);
  const writer = await attach('', vnc).opened();
  const first = inputOf(await guest.connection(1));
  writer.websocket.send(Buffer.concat([exclusive, keyDown]));
  await eventually(() => assert.deepEqual(first(), Buffer.concat([shared, keyDown])));
  const viewer = await attach('?access=view', vnc).opened();
  const second = inputOf(await guest.connection(2));
  viewer.websocket.send(Buffer.concat([exclusive, keyDown, update]));
  await eventually(() => assert.deepEqual(second(), Buffer.concat([shared, update])));
  (await guest.connection(2)).write('pixels');
  await viewer.gets('pixels');
  assert.equal(writer.text, '');
});

test('who takes a screen over ends a plain writer and its connection with 4001', async (t) => {
  const { attach, guest, server } = await startBench(t);
  const first = await attach('', vnc).opened();
  const connection = await guest.connection(1);
  connection.resume();
  await attach('', vnc).opened();
  assert.deepEqual(await first.closed, { code: 4001, reason: 'another session has taken over the screen' });
  await eventually(() => assert.equal(connection.destroyed, true));
  assert.equal(server.sessions().length, 1);
});

test('an aware writer that is taken over lets go of its keys, sees on, and can take the screen back', async (t) => {
  const { attach, guest } = await startBench(t);
  const first = await attach('', awareVnc).opened();
  const connection = await guest.connection(1);
  const input = inputOf(connection);
  first.websocket.send(Buffer.concat([exclusive, keyDown]));
  await eventually(() => assert.deepEqual(input(), Buffer.concat([shared, keyDown])));
  const second = await attach('', awareVnc).opened();
  await first.notice('role', ({ role }) => role === 'viewer');
  await second.notice('viewers', ({ count }) => count === 1);
  await eventually(() => assert.deepEqual(input(), Buffer.concat([shared, keyDown, keyUp])));
  first.websocket.send(Buffer.concat([keyDown, update]));
  await eventually(() => assert.deepEqual(input(), Buffer.concat([shared, keyDown, keyUp, update])));
  first.websocket.send(JSON.stringify({ kind: 'take' }));
  await second.notice('role', ({ role }) => role === 'viewer');
  first.websocket.send(keyDown);
  await eventually(() => assert.deepEqual(input().subarray(-18), Buffer.concat([update, keyDown])));
});

test('a viewer that cannot be followed is ended in words and the writer goes on', async (t) => {
  const { attach, guest } = await startBench(t);
  const writer = await attach('', vnc).opened();
  const viewer = await attach('?access=view', vnc).opened();
  const input = inputOf(await guest.connection(2));
  viewer.websocket.send(Buffer.concat([exclusive, update, Buffer.from([99, 1, 2, 3])]));
  const { code, reason } = await viewer.closed;
  assert.equal(code, 1003);
  assert.match(reason, /message type 99/);
  assert.deepEqual(input(), Buffer.concat([shared, update]));
  (await guest.connection(1)).write('on');
  await writer.gets('on');
});

test('who came to a screen for looking only cannot take it over', async (t) => {
  const { attach, guest } = await startBench(t);
  const looker = await attach('?access=view-only', awareVnc).opened();
  const input = inputOf(await guest.connection(1));
  looker.websocket.send(JSON.stringify({ kind: 'take' }));
  await looker.notice('role', ({ role }) => role === 'viewer');
  looker.websocket.send(Buffer.concat([exclusive, keyDown, update]));
  await eventually(() => assert.deepEqual(input(), Buffer.concat([shared, update])));
});

test('a screen that is closed by the guest ends its own session only', async (t) => {
  const { attach, guest } = await startBench(t);
  const first = await attach('', awareVnc).opened();
  const second = await attach('?access=view', awareVnc).opened();
  (await guest.connection(2)).end('last pixels');
  assert.deepEqual(await second.closed, { code: 1000, reason: 'the virtual machine closed its screen' });
  assert.equal(second.text, 'last pixels');
  await first.notice('viewers', ({ count }) => count === 0);
});

test('sessions of USB redirection do not know of each other, and their bytes are left alone', async (t) => {
  const { attach, guest, server } = await startBench(t);
  const bytes = Buffer.from([0, 1, 2, 3, 255, 99, 4, 1]);
  for (const place of [1, 2, 3, 4]) {
    const client = await attach('?access=take-if-free', { kind: 'usbredir' }).opened();
    const input = inputOf(await guest.connection(place));
    client.websocket.send(bytes);
    await eventually(() => assert.deepEqual(input(), bytes));
  }
  assert.equal(server.sessions().length, 4);
});
