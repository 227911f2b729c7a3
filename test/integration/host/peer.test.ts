import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { before, suite, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { bundleAsProgram } from '../../../scripts/bundle.mjs';
import { type GetSockOpt, isProcessAlive, peerOf, startedMs } from '../../../src/host/peer.ts';
import type { ReusedPid } from '../../fixtures/reused-pid-main.ts';

const run = promisify(execFile);
const needsRoot = process.getuid?.() === 0 ? false : 'only root makes a pid namespace';

/** A connection of this process to itself. */
async function connected(t: TestContext): Promise<Socket> {
  const dir = mkdtempSync(path.join(tmpdir(), 'peer-'));
  const server = createServer();
  server.listen(path.join(dir, 's'));
  await once(server, 'listening');
  const socket = connect(path.join(dir, 's'));
  await once(socket, 'connect');
  t.after(() => {
    socket.destroy();
    server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return socket;
}

/** A kernel that answers a question about a pidfd with this error, and all others with this process. */
const failingWith =
  (error: number): GetSockOpt =>
  (_fd, _level, name, value) => {
    if (name === 77) return -error;
    value.writeInt32LE(process.pid, 0);
    return 0;
  };

test('the peer of a socket is known with its start, and no descriptor stays open', async (t) => {
  const socket = await connected(t);
  await peerOf(socket);
  const open = readdirSync('/proc/self/fd').length;
  const peer = await peerOf(socket);
  assert.equal(readdirSync('/proc/self/fd').length, open);
  assert.equal(peer.pid, process.pid);
  assert.equal(isProcessAlive(peer), true);
  assert.ok(Math.abs(startedMs(peer) - (Date.now() - process.uptime() * 1000)) < 5_000);
});

test('a kernel without SO_PEERPIDFD names a pid only', async (t) => {
  const peer = await peerOf(await connected(t), failingWith(92));
  assert.equal(peer.pid, process.pid);
  assert.equal(peer.isProven, false);
});

for (const [error, code] of [
  [3, 'CLOSED'],
  [61, 'CLOSED'],
  [22, 'CLOSED'],
  [24, 'NOT_TOLD'],
] as const) {
  test(`a kernel that answers with error ${error} says nothing of who it is: ${code}`, async (t) => {
    await assert.rejects(peerOf(await connected(t), failingWith(error)), { code });
  });
}

suite('a process that has the pid of a listener that ended', { skip: needsRoot }, () => {
  let said: ReusedPid;
  before(async () => {
    // Within the repository: native libraries are found from there.
    const dir = mkdtempSync(path.resolve('.build', 'reused-pid-'));
    const program = path.join(dir, 'main.mjs');
    try {
      await bundleAsProgram('test/fixtures/reused-pid-main.ts', program);
      const within = ['--pid', '--fork', '--kill-child=KILL', '--mount-proc'];
      const args = [...within, process.execPath, program, 'reuse', path.join(dir, 'socket')];
      const { stdout } = await run('unshare', args, { timeout: 60_000 });
      said = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  test('is really there, and the listener was known before', () => {
    assert.equal(said.reusedPid, said.listenerPid);
    assert.equal(said.before.pid, said.listenerPid);
  });

  test('is not taken for it', () => {
    assert.deepEqual(said.after, { error: 'CLOSED' });
  });

  test('is younger than the listener was where the kernel names a pid only', () => {
    const { pid, startTime = '', isProven } = said.afterOnOldKernel;
    assert.deepEqual([pid, isProven], [said.listenerPid, false]);
    assert.ok(Number(startTime) > Number(said.before.startTime));
  });
});
