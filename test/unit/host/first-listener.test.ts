import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { listenerOf } from '../../../src/host/index.ts';

/** A file of its own: the native library is loaded once per process. */
test('a listener that closes each connection at once, as upstream’s container-disk does, is known at the first try', async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), 'listener-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const socketPath = path.join(dir, 'disk_0.sock');
  const server = createServer((socket) => socket.destroy()).listen(socketPath);
  t.after(() => server.close());
  await once(server, 'listening');
  assert.equal((await listenerOf(socketPath, 30_000)).pid, process.pid);
});
