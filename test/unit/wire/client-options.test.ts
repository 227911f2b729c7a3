import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { it } from 'node:test';
import { Client, credentials, Server } from '@grpc/grpc-js';
import { clientOptions, serverOptions, serveUnix, unixTarget } from '../../../src/wire/index.ts';

it('each client has a connection of its own, also on the same path, and all of them one timer', async (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), 'wire-'));
  const server = await serveUnix(new Server(serverOptions()), path.join(directory, 'socket'));
  const intervals = t.mock.method(globalThis, 'setInterval');
  const { target } = unixTarget(path.join(directory, 'socket'));
  const clients = Array.from({ length: 20 }, () => new Client(target, credentials.createInsecure(), clientOptions()));
  t.after(async () => {
    for (const client of clients) client.close();
    await server.close();
    rmSync(directory, { recursive: true });
  });
  await Promise.all(
    clients.map((client) => {
      return new Promise<void>((resolve, reject) => {
        client.waitForReady(Date.now() + 10_000, (error) => (error ? reject(error) : resolve()));
      });
    }),
  );
  assert.equal(server.connections, 20);
  assert.equal(intervals.mock.callCount(), 1);
});

it('a client that is closed leaves no connection behind', async (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), 'wire-'));
  const server = await serveUnix(new Server(serverOptions()), path.join(directory, 'socket'));
  t.after(async () => {
    await server.close();
    rmSync(directory, { recursive: true });
  });
  const { target } = unixTarget(path.join(directory, 'socket'));
  const client = new Client(target, credentials.createInsecure(), clientOptions());
  await new Promise<void>((resolve, reject) => {
    client.waitForReady(Date.now() + 10_000, (error) => (error ? reject(error) : resolve()));
  });
  assert.equal(server.connections, 1);
  client.close();
  const end = Date.now() + 5_000;
  while (server.connections > 0 && Date.now() < end) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(server.connections, 0);
});
