import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { JsonSocket } from '../../../src/http/index.ts';

test('clients that say nothing keep others out for seconds, not for the half minute that Node.js looks away', async (t) => {
  const dir = await mkdtemp(path.join(tmpdir(), 'json-socket-'));
  const socketFile = path.join(dir, 's');
  const deps = { answer: () => ({ httpStatus: 200, body: {} }), refuse: () => ({ httpStatus: 400, body: {} }) };
  const options = { name: 'explain server', socketFile, pid: process.pid, other: 'another one' };
  const server = new JsonSocket(options, { ...deps, log: silentLogger, clock: systemClock });
  await server.start();
  t.after(async () => {
    await server.stop();
    await rm(dir, { recursive: true });
  });
  const silent = Array.from({ length: 16 }, () => createConnection(socketFile).resume());
  const signal = AbortSignal.timeout(20_000);
  await Promise.all(silent.map((socket) => once(socket, 'close', { signal })));
  const client = createConnection(socketFile);
  client.end('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  const [answer] = await once(client, 'data', { signal });
  assert.match(String(answer), /^HTTP\/1\.1 200 /);
});
