import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import type { OpenConnection } from '../../../src/launcher-client/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { type LauncherProcess, type LauncherProgram, launcherProgram } from '../../fixtures/launcher-process.ts';
import { socketFileOf } from '../../fixtures/scripted-launcher.ts';
import { type ClientsBench, eachTestHasClientsBench, hasCode, key, pod, targetOf, uid } from './clients-bench.ts';

let bench: ClientsBench;
eachTestHasClientsBench((each) => {
  bench = each;
});

describe('the end of a launcher', () => {
  let program: LauncherProgram;
  let launcher: LauncherProcess;

  before(async () => {
    program = await launcherProgram();
  });
  after(() => program.dispose());
  beforeEach(async () => {
    launcher = await program.start(socketFileOf(bench.podsDir, pod));
  });
  afterEach(() => launcher.kill());

  it('is noticed by the connection, proven by its process, and frees the entry', async () => {
    const clients = bench.clientsOf();
    const connection = await clients.connect(targetOf());
    assert.equal(connection.peer.pid, launcher.pid);
    const down = new Promise<string>((resolve) => {
      const nothing = async () => undefined;
      const onBroken = ({ address }: OpenConnection) => resolve(address.uid);
      clients.subscribe({ onConnecting: nothing, onConnected: nothing, onBroken, onDraining: nothing });
    });
    const killedMs = performance.now();
    await launcher.kill();
    assert.equal(await down, uid);
    const known = { key, uid, socketFile: connection.address.socketFile };
    assert.deepEqual(await clients.inspect(known), { kind: 'dead', proof: `process ${launcher.pid} ended` });
    assert.ok(performance.now() - killedMs < 5_000);
    assert.equal(clients.peek(uid), undefined);
  });

  it('makes a call that was under way DISCONNECTED: success for kill and delete', async () => {
    const connection = await bench.clientsOf().connect(targetOf());
    launcher.signal('SIGSTOP');
    const call = assert.rejects(connection.ping(), hasCode('DISCONNECTED'));
    await launcher.kill();
    await call;
  });

  it('is not concluded from silence', async () => {
    const clients = bench.clientsOf();
    const connection = await clients.connect(targetOf());
    launcher.signal('SIGSTOP');
    const known = { key, uid, socketFile: connection.address.socketFile };
    assert.equal((await clients.inspect(known)).kind, 'alive');
    const call = connection.getDomain(AbortSignal.timeout(200));
    await assert.rejects(call, hasCode('ABORTED'));
    launcher.signal('SIGCONT');
    await connection.ping();
  });

  it('is not concluded from a queue of connections that is full', async () => {
    const clients = bench.clientsOf();
    const socketFile = socketFileOf(bench.podsDir, pod);
    launcher.signal('SIGSTOP');
    const waiting: Socket[] = [];
    bench.cleanups.push(() => {
      for (const socket of waiting) socket.destroy();
    });
    for (let full = false; !full; ) {
      const socket = connect(socketFile);
      waiting.push(socket);
      full = await new Promise((resolve) => {
        socket.once('connect', () => resolve(false)).once('error', () => resolve(true));
      });
    }
    const hung = { kind: 'unknown', reason: 'its socket is hung', listening: 'hung' };
    assert.deepEqual(await clients.inspect({ key, uid, socketFile }), hung);
    assert.deepEqual(
      await clients.inspect({ key, uid, socketFile, process: { pid: launcher.pid, startTime: '1' } }),
      hung,
    );
    await assert.rejects(clients.connect(targetOf()), hasCode('TIMEOUT'));
  });

  it('drops the entry when another process answers at the path, and never talks to it on the old one', async () => {
    const clients = bench.clientsOf();
    const old = await clients.connect(targetOf());
    await launcher.kill();
    rmSync(old.address.socketFile);
    const next = await bench.launcherOf();
    await eventually(async () => {
      const connection = await clients.connect(targetOf());
      assert.notEqual(connection, old);
      assert.equal(connection.peer.pid, process.pid);
    });
    await assert.rejects(old.ping(), hasCode('CLOSED'));
    assert.equal(next.count('ping'), 0);
  });

  it('is not concluded when another process has taken its place at the same path: it may have the guest still', async () => {
    const clients = bench.clientsOf();
    const old = await clients.connect(targetOf());
    await launcher.kill();
    rmSync(old.address.socketFile);
    const next = await bench.launcherOf();
    assert.deepEqual(await clients.inspect({ key, uid, socketFile: old.address.socketFile, process: old.peer }), {
      kind: 'alive',
    });
    assert.equal(old.closed, true);
    assert.deepEqual(await clients.state(targetOf()), { kind: 'ready', connected: false });
    await clients.connectVerified(targetOf());
    assert.equal(next.count('ping'), 1);
  });

  it('is proven although another process has its pid by now', async () => {
    const socketFile = socketFileOf(bench.podsDir, pod);
    await launcher.kill();
    const reused = { pid: process.pid, startTime: '1' };
    const verdict = await bench.clientsOf().inspect({ key, uid, socketFile, process: reused });
    assert.deepEqual(verdict, { kind: 'dead', proof: `process ${process.pid} ended` });
  });

  it('is not proven by a socket that is gone while its process runs', async () => {
    const clients = bench.clientsOf();
    const { address, peer } = await clients.connect(targetOf());
    clients.stop();
    renameSync(address.socketFile, `${address.socketFile}.moved`);
    const verdict = await bench.clientsOf().inspect({ key, uid, socketFile: address.socketFile, process: peer });
    assert.equal(verdict.kind, 'unknown');
  });

  it('is not proven by an empty pods directory: its mount may be missing', async () => {
    const elsewhere = mkdtempSync(path.join(tmpdir(), 'pods-'));
    bench.cleanups.push(() => rmSync(elsewhere, { recursive: true }));
    const clients = bench.clientsOf({ podsDir: elsewhere });
    const verdict = await clients.inspect({ key, uid, socketFile: socketFileOf(elsewhere, pod) });
    assert.equal(verdict.kind, 'unknown');
  });

  it('close is safe without an actor, and is published', async () => {
    const clients = bench.clientsOf();
    await clients.close(key, 'never-seen');
    const connection = await clients.connect(targetOf());
    await clients.close(key, uid);
    assert.equal(connection.closed, true);
    assert.ok(bench.published.includes(`draining ${uid}`) && bench.published.includes('draining never-seen'));
  });
});
