import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { askLivez } from '../../../src/standalone/supervisor/health-watch.ts';
import { Program } from '../../../src/standalone/supervisor/program.ts';
import { eventually } from '../../fixtures/eventually.ts';

/** Serves on a socket; any request but `/livez` blocks its loop for the milliseconds that its path says. */
const source = `
const [, socket] = process.argv;
require('node:fs').rmSync(socket, { force: true });
require('node:http').createServer((request, response) => {
  const endMs = Date.now() + (request.url === '/livez' ? 0 : Number(request.url.slice(1)));
  while (Date.now() < endMs);
  response.end('ok');
}).listen(socket);
`;

describe('a program of the node that hangs', () => {
  let dir: string;
  let socketPath: string;
  let program: Program;

  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'program-health-'));
    socketPath = path.join(dir, 'socket');
  });
  afterEach(() => program.stop());
  after(() => rm(dir, { recursive: true, force: true }));

  const make = (code: string) =>
    new Program(
      {
        name: 'hanging',
        argv: [process.execPath, '-e', code, socketPath],
        env: process.env,
        logFile: path.join(dir, 'log'),
        pidFile: path.join(dir, 'pid'),
        stopTimeoutMs: 500,
        health: { ask: askLivez({ socketPath }), periodMs: 100, timeoutMs: 1_000, failures: 3 },
      },
      { log: silentLogger },
    );
  const running = () => {
    assert.equal(program.state.kind, 'running');
    return program.state as { pid: number; restarts: number };
  };
  const isAnswering = () => askLivez({ socketPath })(AbortSignal.timeout(5_000)).catch(() => false);
  const untilItAnswers = () => eventually(async () => assert.ok(await isAnswering()), 20_000);
  const untilRestarted = (pid: number) =>
    eventually(async () => {
      assert.notEqual(running().pid, pid);
      assert.ok(await isAnswering());
    }, 30_000);

  test('is killed when it is stopped, and started again', async () => {
    program = make(source);
    await program.start();
    await untilItAnswers();
    const { pid } = running();
    // Time to answer the supervisor, too: what never has is let alone.
    await eventually(async () => assert.ok(program.hasAnswered), 20_000);
    process.kill(pid, 'SIGSTOP');
    await untilRestarted(pid);
    assert.equal(running().restarts, 1);
    const written = async () => Number((await readFile(path.join(dir, 'pid'), 'utf8')).split(' ')[0]);
    await eventually(async () => assert.equal(await written(), running().pid), 20_000);
  });

  test('is killed when its loop is blocked for ever, and let alone when it is blocked for a while', async () => {
    program = make(source);
    await program.start();
    await eventually(async () => assert.ok(program.hasAnswered), 20_000);
    const { pid } = running();
    await block(1_500);
    assert.equal(running().pid, pid, 'a pause is no reason');
    void block(3_600_000).catch(() => undefined);
    await untilRestarted(pid);
  });

  test('is let alone when it has nothing to answer with', async () => {
    program = make('setInterval(() => undefined, 1_000)');
    await program.start();
    const { pid } = running();
    await assert.rejects(eventually(async () => assert.notEqual(running().pid, pid), 5_000));
  });

  /** Resolves with the answer. */
  function block(ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const asking = request({ socketPath, path: `/${ms}`, agent: false }, (response) => {
        response.resume().once('end', resolve);
      });
      asking.once('error', reject).end();
    });
  }
});

describe('whether a program serves', () => {
  const servers: Server[] = [];
  const dirs: string[] = [];
  after(async () => {
    for (const server of servers) await new Promise((resolve) => server.close(resolve));
    for (const dir of dirs) await rm(dir, { recursive: true, force: true });
  });
  const socketFile = async () => {
    const dir = await mkdtemp(path.join(tmpdir(), 'health-'));
    dirs.push(dir);
    return path.join(dir, 'socket');
  };
  const ask = (where: Parameters<typeof askLivez>[0], ms = 10_000) => askLivez(where)(AbortSignal.timeout(ms));

  test('is no when nobody listens, and when nothing comes in time', async () => {
    const socketPath = await socketFile();
    const silent = createServer((socket) => socket.on('error', () => undefined).resume()).listen(socketPath);
    servers.push(silent);
    await once(silent, 'listening');
    assert.equal(await ask({ socketPath }, 200), false);
    const refusing = createServer().listen(0, '127.0.0.1');
    await once(refusing, 'listening');
    const { port } = refusing.address() as AddressInfo;
    await new Promise((resolve) => refusing.close(resolve));
    assert.equal(await ask({ host: '127.0.0.1', port }), false);
  });

  test('is not known when it could not be asked: the error is of this side', async () => {
    await assert.rejects(ask({ socketPath: await socketFile() }), { code: 'ENOENT' });
  });

  test('is no when a stopped program’s queue is full, but not before it had its time', async () => {
    const socketPath = await socketFile();
    const code =
      "require('node:net').createServer().listen({ path: process.argv[1], backlog: 1 }, () => console.log('up'))";
    const child = spawn(process.execPath, ['-e', code, socketPath], { stdio: ['ignore', 'pipe', 'inherit'] });
    const waiting: Socket[] = [];
    try {
      await once(child.stdout, 'data');
      child.kill('SIGSTOP');
      const codes: unknown[] = [];
      for (let each = 0; each < 5; each++) {
        const socket = connect(socketPath);
        socket.on('error', (error: NodeJS.ErrnoException) => codes.push(error.code));
        waiting.push(socket);
      }
      await eventually(async () => assert.ok(codes.includes('EAGAIN'), String(codes)), 10_000);
      const startMs = performance.now();
      assert.equal(await ask({ socketPath }, 500), false);
      assert.ok(performance.now() - startMs > 400);
    } finally {
      for (const socket of waiting) socket.destroy();
      child.kill('SIGKILL');
    }
  });
});
