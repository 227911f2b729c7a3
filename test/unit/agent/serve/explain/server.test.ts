import assert from 'node:assert/strict';
import { lstat, mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { ExplainServer } from '../../../../../src/agent/serve/explain/index.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

type Answer = ConstructorParameters<typeof ExplainServer>[1]['service']['answer'];

const error = { apiVersion: 'why.virt-handler/v1', kind: 'Error', code: 'NOT_FOUND', message: 'nothing' } as const;
const nothing: Answer = async () => ({ httpStatus: 404, body: error });

interface Bench {
  readonly dir: string;
  readonly clock: FakeClock;
  create(pid?: number, answer?: Answer): ExplainServer;
}

async function explainBench(t: TestContext, sub = ''): Promise<Bench> {
  const root = await mkdtemp(path.join(tmpdir(), 'why-'));
  const dir = path.join(root, sub);
  const clock = new FakeClock();
  const servers: ExplainServer[] = [];
  t.after(async () => {
    for (const server of servers) await server.stop();
    await rm(root, { recursive: true });
  });
  return {
    dir,
    clock,
    create: (pid = 1, answer = nothing) => {
      const server = new ExplainServer({ privateDir: dir, pid }, { service: { answer }, log: silentLogger, clock });
      servers.push(server);
      return server;
    },
  };
}

function statusOf(socketPath: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, path: '/why', agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    call.on('error', reject);
    call.end();
  });
}

test('the directory is made, the socket is for its owner only, and no draft is left beside it', async (t) => {
  const { dir, create } = await explainBench(t, 'deep/private');
  const server = create();
  await server.start();
  assert.equal(await statusOf(server.socketFile), 404);
  assert.equal((await lstat(server.socketFile)).mode & 0o777, 0o600);
  assert.deepEqual(await readdir(dir), ['virt-handler.sock']);
  await server.stop();
  assert.deepEqual(await readdir(dir), []);
});

test('a question that fails is answered with 500 and words', async (t) => {
  const { create } = await explainBench(t);
  const server = create(1, () => Promise.reject(new Error('bug')));
  await server.start();
  assert.equal(await statusOf(server.socketFile), 500);
});

for (const [what, put] of [
  ['a file', (file: string) => writeFile(file, 'precious')],
  ['a directory', (file: string) => mkdir(file)],
  ['a link', (file: string) => symlink('/etc/passwd', file)],
] as const) {
  test(`${what} in the way is left as it is, and the socket comes when it is gone`, async (t) => {
    const { dir, clock, create } = await explainBench(t);
    const server = create();
    await put(server.socketFile);
    const { ino } = await lstat(server.socketFile);
    await server.start();
    assert.equal((await lstat(server.socketFile)).ino, ino);
    assert.deepEqual(await readdir(dir), ['virt-handler.sock']);
    await rm(server.socketFile, { recursive: true });
    clock.advance(10_000);
    await opened(server);
  });
}

/** Resolves when the server's own attempt, which nobody waits for, has made its socket. */
async function opened(server: ExplainServer): Promise<void> {
  for (let turn = 0; turn < 2_000; turn++) {
    const isOpen = await statusOf(server.socketFile).then(
      () => true,
      () => false,
    );
    if (isOpen) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error(`no socket at ${server.socketFile}`);
}

test('a path too long for a socket is no reason for the agent not to start', async (t) => {
  const { create } = await explainBench(t, 'x'.repeat(100));
  const server = create();
  await server.start();
  await assert.rejects(statusOf(server.socketFile));
});

test('a live agent keeps its socket from another, which takes over when it has left', async (t) => {
  const { clock, create } = await explainBench(t);
  const [first, second] = [create(1), create(2, async () => ({ httpStatus: 200, body: error }))];
  await first.start();
  await second.start();
  assert.equal(await statusOf(first.socketFile), 404);
  await first.stop();
  clock.advance(10_000);
  await opened(second);
  assert.equal(await statusOf(second.socketFile), 200);
});

test('an agent that was replaced does not take away the socket of its successor', async (t) => {
  const { create } = await explainBench(t);
  const [first, second] = [create(1), create(2)];
  await first.start();
  await rm(first.socketFile);
  await second.start();
  await first.stop();
  assert.equal(await statusOf(second.socketFile), 404);
});

test('a socket that nobody listens on is replaced', async (t) => {
  const { dir, create } = await explainBench(t);
  const server = create();
  // Bound under another name and moved: closing it leaves the file, as a killed agent does.
  const dead = createServer();
  const draft = path.join(dir, 'dead');
  await new Promise<void>((resolve) => dead.listen(draft, resolve));
  await rename(draft, server.socketFile);
  await new Promise((resolve) => dead.close(resolve));
  await server.start();
  assert.equal(await statusOf(server.socketFile), 404);
});
