import assert from 'node:assert/strict';
import { createServer, get } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, test } from 'node:test';
import { VmStatsApi } from '../../../../../src/agent/serve/metrics/vm-stats-api.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import { eventually } from '../../../../fixtures/eventually.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

const nodeName = 'node1';
const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

const vmi = vmiOf('Running', { metadata: { labels: { 'kubevirt.io/nodeName': nodeName } } });
const vmis = { keys: () => ['default/vm1'].values(), get: () => vmi, onChange: () => () => undefined } as never;

/** Each answer has `length` characters of one VM. */
async function serve(length: number) {
  const clock = new FakeClock();
  const collector = {
    collect: async () => new Map([['default/vm1', `{"error":"${'x'.repeat(length)}"}`]]),
  };
  const api = new VmStatsApi({ nodeName }, { isAllowed: () => true, vmis, collector, clock, log: silentLogger });
  const server = createServer((request, response) => api.handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stops.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return { clock, port: (server.address() as AddressInfo).port };
}

/** Sends a question, and does not read. */
function silent(port: number): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.pause();
  socket.write('GET /v1/vmstats?domainStats=true HTTP/1.1\r\nHost: x\r\n\r\n');
  stops.push(() => socket.destroy());
  return socket;
}

function ask(port: number) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const path = '/v1/vmstats?domainStats=true';
    const call = get({ host: '127.0.0.1', port, path, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() }));
    });
    call.once('error', reject);
  });
}

test('whoever does not read what it asked for is hung up on after half a minute, and its answer is forgotten', async () => {
  const { clock, port } = await serve(32 * 1024 * 1024);
  const socket = silent(port);
  await new Promise((resolve) => socket.once('readable', resolve));
  await eventually(() => assert.equal(clock.timers, 1));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  clock.advance(30_000);
  assert.equal(clock.timers, 0);
  socket.resume();
  await closed;
});

test('an answer that is read leaves no timer', async () => {
  const { clock, port } = await serve(10);
  assert.deepEqual(JSON.parse((await ask(port)).body), { 'default/vm1': { error: 'x'.repeat(10) } });
  await eventually(() => assert.equal(clock.timers, 0));
});

test('three answers are held at a time, and a further question is refused with words', async () => {
  const { clock, port } = await serve(32 * 1024 * 1024);
  for (let count = 1; count <= 3; count++) {
    const socket = silent(port);
    await new Promise((resolve) => socket.once('readable', resolve));
  }
  await eventually(() => assert.equal(clock.timers, 3));
  const { status, body } = await ask(port);
  assert.equal(status, 503);
  assert.match(body, /try again later/);
  clock.advance(30_000);
  await eventually(async () => assert.equal((await ask(port)).status, 200));
});
