import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { aware } from './client.ts';
import { startStage } from './stage.ts';

test('bytes go both ways, and end with the session, for a plain client', async (t) => {
  const { attach, guest, server } = await startStage(t);
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
  const { attach, guest, server } = await startStage(t);
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
  const { attach, guest } = await startStage(t);
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
