import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { aware } from './client.ts';
import { startBench } from './console-bench.ts';
import { clientFrame, RawClient, upgradeText } from './raw.ts';

test('bytes go both ways, and end with the session, for a plain client', async (t) => {
  const { attach, guest, server } = await startBench(t);
  const client = await attach().opened();
  assert.equal(client.websocket.protocol, 'plain.kubevirt.io');
  const line = await guest.connection();
  line.write('login: ');
  await client.gets('login: ');
  client.send('root\r');
  await eventually(() => assert.equal(line.read()?.toString(), 'root\r'));
  client.websocket.close(1000);
  assert.equal((await client.closed).code, 1000);
  await eventually(() => assert.equal(line.destroyed, true));
  assert.deepEqual(server.sessions(), []);
});

test('a newcomer takes over: the plain client before it is closed with 4001 and told why', async (t) => {
  const { attach, guest, server } = await startBench(t);
  const first = await attach().opened();
  const line = await guest.connection();
  const second = await attach().opened();
  assert.deepEqual(await first.closed, { code: 4001, reason: 'another session has taken over the console' });
  line.write('hello');
  await second.gets('hello');
  assert.equal(guest.connections.length, 1, 'the line to the guest stays');
  assert.equal(server.sessions().length, 1);
});

test('an aware client that is taken over becomes a viewer, is told, and can take the console back', async (t) => {
  const { attach, guest } = await startBench(t);
  const first = await attach('', { protocols: [aware] }).opened();
  assert.deepEqual(await first.notice('attached'), {
    ...first.notices[0],
    role: 'writer',
    offset: 0,
    replayed: 0,
    lost: 0,
  });
  const line = await guest.connection();
  const second = await attach('', { protocols: [aware] }).opened();
  await first.notice('role', ({ role }) => role === 'viewer');
  await second.notice('viewers', ({ count }) => count === 1);
  first.send('from the first');
  second.send('from the second');
  await eventually(() => assert.equal(line.read()?.toString(), 'from the second'));
  first.websocket.send(JSON.stringify({ kind: 'take' }));
  await first.notice('role', ({ role }) => role === 'writer');
  await second.notice('role', ({ role }) => role === 'viewer');
  line.write('to both');
  await first.gets('to both');
  await second.gets('to both');
});

test('any number of viewers read along and what they type goes nowhere', async (t) => {
  const { attach, guest, server } = await startBench(t);
  const writer = await attach().opened();
  const line = await guest.connection();
  const viewers = await Promise.all(
    Array.from({ length: 20 }, (_, at) => attach('?access=view', { protocols: at % 2 ? [aware] : [] }).opened()),
  );
  await eventually(() => assert.equal(server.sessions().filter(({ role }) => role === 'viewer').length, 20));
  await Promise.all(
    viewers.filter(({ websocket }) => websocket.protocol === aware).map((viewer) => viewer.notice('attached')),
  );
  for (const viewer of viewers) viewer.send('from a viewer');
  line.write('for all');
  for (const client of [writer, ...viewers]) await client.gets('for all');
  writer.send('from the writer');
  await eventually(() => assert.equal(line.read()?.toString(), 'from the writer'));
});

test('viewers alone are enough to read, and stay when the writer goes', async (t) => {
  const { attach, guest } = await startBench(t);
  const viewer = await attach('?access=view').opened();
  const line = await guest.connection();
  line.write('one');
  await viewer.gets('one');
  const writer = await attach().opened();
  writer.websocket.close();
  await writer.closed;
  line.write('two');
  await viewer.gets('two');
  viewer.websocket.close();
  await eventually(() => assert.equal(line.destroyed, true));
});

test('text is ignored, and fragments are put together, for a plain client', async (t) => {
  const { port, guest } = await startBench(t);
  const client = await RawClient.connect(port);
  client.socket.write(upgradeText());
  const line = await guest.connection();
  const text = [clientFrame(1, Buffer.from('{"kind":"take"}')), clientFrame(1, Buffer.from([0xff, 0xfe]))];
  const parts = [clientFrame(2, Buffer.from('ab'), false), clientFrame(0, Buffer.from('cd'), false)];
  const ping = clientFrame(9, Buffer.from('between'));
  client.socket.write(Buffer.concat([...text, ...parts, ping, clientFrame(0, Buffer.from('ef'))]));
  let typed = '';
  await eventually(() => {
    typed += line.read()?.toString() ?? '';
    assert.equal(typed, 'abcdef');
  });
  await client.gets('\u008a\u0007between');
  client.socket.write(clientFrame(8, Buffer.concat([Buffer.from([0x0f, 0xa0]), Buffer.from('bye')])));
  await client.gets('\u0088\u0005\u000f\u00a0bye');
  await client.closed();
});

test('a message of more than its limit ends with 1009, before it was taken in', async (t) => {
  const { attach, guest, server } = await startBench(t);
  const client = await attach().opened();
  const line = await guest.connection();
  let taken = 0;
  line.on('data', (chunk: Buffer) => {
    taken += chunk.length;
  });
  client.websocket.send(Buffer.alloc(1_048_576));
  await eventually(() => assert.equal(taken, 1_048_576));
  client.websocket.send(Buffer.alloc(1_048_577));
  assert.equal((await client.closed).code, 1009);
  assert.equal(taken, 1_048_576);
  assert.deepEqual(server.sessions(), []);
});

test('broken frames end with 1002', async (t) => {
  const { port, server } = await startBench(t);
  for (const bytes of [
    '\u0082\u0001a',
    '\u00f2\u0080....',
    '\u0083\u0080....',
    '\u0080\u0080....',
    '\u0009\u0080....',
  ]) {
    const client = await RawClient.connect(port);
    client.socket.write(Buffer.concat([Buffer.from(upgradeText()), Buffer.from(bytes, 'latin1')]));
    await client.gets('\u0088\u0002\u0003\u00ea');
    client.socket.end();
    await client.closed();
  }
  await eventually(() => assert.deepEqual(server.sessions(), []));
});

test('an aware client that sends no JSON is told so, and newer kinds of messages are let pass', async (t) => {
  const { attach } = await startBench(t);
  const client = await attach('', { protocols: [aware] }).opened();
  client.websocket.send('{"kind":"of a later version"}');
  client.websocket.send('take');
  assert.deepEqual(await client.closed, { code: 1003, reason: 'text messages are JSON objects with a kind' });
  const other = await attach('', { protocols: [aware] }).opened();
  other.websocket.send(JSON.stringify({ kind: 'take', pad: 'x'.repeat(5000) }));
  assert.equal((await other.closed).code, 1009);
});

test('each VMI has its own line', async (t) => {
  const { attach, guest } = await startBench(t);
  const one = await attach('', { uid: 'one' }).opened();
  const first = await guest.connection(1);
  const two = await attach('', { uid: 'two' }).opened();
  const second = await guest.connection(2);
  first.write('for one');
  second.write('for two');
  await one.gets('for one');
  await two.gets('for two');
  assert.equal(one.text + two.text, 'for onefor two');
});

test('who came for looking only never becomes the writer, and is told so', async (t) => {
  const { attach, guest } = await startBench(t);
  const looker = await attach('?access=view-only', { protocols: [aware] }).opened();
  const line = await guest.connection();
  await looker.notice('attached', ({ role }) => role === 'viewer');
  looker.websocket.send(JSON.stringify({ kind: 'take' }));
  await looker.notice('role', ({ reason }) => reason === 'you may look on, and no more');
  looker.send('from who looks');
  const writer = await attach('', { protocols: [aware] }).opened();
  looker.websocket.send(JSON.stringify({ kind: 'take' }));
  await eventually(() => assert.equal(looker.notices.filter(({ kind }) => kind === 'role').length, 2));
  writer.send('from the writer');
  await eventually(() => assert.equal(line.read()?.toString(), 'from the writer'));
  line.write('for both');
  await looker.gets('for both');
});
