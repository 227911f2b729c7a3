import assert from 'node:assert/strict';
import { existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { isProcessAlive } from '../../../src/host/index.ts';
import { LauncherClients, vmiRequest } from '../../../src/launcher-client/index.ts';
import { socketFileOf } from '../../fixtures/scripted-launcher.ts';
import { type ClientsBench, eachTestHasClientsBench, hasCode, key, pod, targetOf, uid } from './clients-bench.ts';

let bench: ClientsBench;
eachTestHasClientsBench((each) => {
  bench = each;
});

describe('connecting to a launcher', () => {
  it('lets subscribers prepare, asks for versions, lets subscribers use it, and calls with the VMI as JSON', async () => {
    const launcher = await bench.launcherOf();
    const connection = await bench.clientsOf().connect(targetOf());
    const vmi = {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: { name: 'vm1' },
      spec: { domain: {} },
      unknown: 1,
    };
    await connection.call('syncVirtualMachine', vmiRequest(vmi, { MemBalloonStatsPeriod: 10 }));
    assert.deepEqual(bench.published, [`connecting ${launcher.socketFile}`, 'connected']);
    const [call] = launcher.calls;
    const request = call?.request as { vmi: { vmiJson: Buffer }; options: { MemBalloonStatsPeriod: number } };
    assert.equal(call?.rpc, 'syncVirtualMachine');
    assert.deepEqual(JSON.parse(request.vmi.vmiJson.toString()), vmi);
    assert.equal(request.options.MemBalloonStatsPeriod, 10);
  });

  it('makes one connection for callers at the same time, and gives it again later', async () => {
    await bench.launcherOf();
    const clients = bench.clientsOf();
    const [first, second] = await Promise.all([clients.connect(targetOf()), clients.connect(targetOf())]);
    assert.equal(first, second);
    assert.equal(await clients.connect(targetOf()), first);
    assert.equal(bench.published.length, 2);
  });

  it('knows the process behind the socket', async () => {
    await bench.launcherOf();
    const { peer } = await bench.clientsOf().connect(targetOf());
    assert.equal(peer.pid, process.pid);
    assert.equal(isProcessAlive(peer), true);
    assert.equal(isProcessAlive({ pid: peer.pid, startTime: '1' }), false);
  });

  it('works when the socket path is longer than a socket address', async () => {
    bench.podsDir = path.join(bench.podsDir, 'x'.repeat(60));
    const launcher = await bench.launcherOf();
    assert.ok(launcher.socketFile.length > 107);
    const connection = await bench.clientsOf().connectVerified(targetOf());
    assert.equal(launcher.count('ping'), 1);
    assert.equal(connection.connected, true);
  });

  it('refuses a launcher without a common protocol version', async () => {
    await bench.launcherOf(pod, [2, 3]);
    await assert.rejects(bench.clientsOf().connect(targetOf()), hasCode('INCOMPATIBLE'));
  });

  it('refuses a launcher without version service', async () => {
    await bench.launcherOf(pod, 'none');
    await assert.rejects(bench.clientsOf().connect(targetOf()), hasCode('INCOMPATIBLE'));
  });

  it('gives up on one that accepts and never answers, and connects to others meanwhile', async () => {
    await bench.rawServer(() => undefined);
    await bench.launcherOf('pod-2');
    const clients = bench.clientsOf({ limits: { dialTimeoutMs: 300, infoTimeoutMs: 300, peerTimeoutMs: 300 } });
    const hung = assert.rejects(clients.connect(targetOf()), hasCode('TIMEOUT'));
    await clients.connectVerified({ ...targetOf({ 'pod-2': 'node1' }), key: 'default/vm2', uid: 'uid-2' });
    await hung;
  });

  it('gives up on one that answers with garbage', async () => {
    await bench.rawServer((socket) =>
      socket.end(Buffer.from('HTTP/1.1 200 OK\r\n\r\nhello\0\xff'.repeat(100), 'latin1')),
    );
    const clients = bench.clientsOf({ limits: { dialTimeoutMs: 300, infoTimeoutMs: 300, peerTimeoutMs: 300 } });
    await assert.rejects(clients.connect(targetOf()), hasCode('TIMEOUT'));
  });

  it('lets a caller go when its signal fires', async () => {
    await bench.rawServer(() => undefined);
    const clients = bench.clientsOf();
    const abort = new AbortController();
    const connecting = assert.rejects(clients.connect(targetOf(), abort.signal), hasCode('ABORTED'));
    abort.abort();
    await connecting;
  });

  it('closes the connection again when a subscriber fails, and tries anew the next time', async () => {
    const launcher = await bench.launcherOf();
    let failures = 1;
    const clients = new LauncherClients({ podsDir: bench.podsDir, nodeName: '' });
    clients.subscribe({
      onConnecting: async () => undefined,
      onConnected: async () => {
        if (failures-- > 0) throw new Error('no pipe');
      },
      onBroken: () => undefined,
      onDraining: async () => undefined,
    });
    bench.cleanups.push(() => clients.stop());
    await assert.rejects(clients.connect(targetOf()), /no pipe/);
    assert.equal(clients.peek(uid), undefined);
    await clients.connectVerified(targetOf());
    assert.equal(launcher.count('ping'), 1);
  });
});

describe('finding the socket of a VMI', () => {
  it('ignores pods of other nodes', async () => {
    await bench.launcherOf();
    const text = `No command socket found for vmi ${uid}`;
    await assert.rejects(bench.clientsOf().connect(targetOf({ [pod]: 'node2' })), hasCode('NO_SOCKET', text));
  });

  it('counts every pod when the node name is not known', async () => {
    await bench.launcherOf();
    await bench.clientsOf({ nodeName: '' }).connect(targetOf({ [pod]: 'node2' }));
  });

  it('refuses two sockets that are listened on', async () => {
    await bench.launcherOf('pod-a');
    await bench.launcherOf('pod-b');
    const text = `Found multiple sockets for vmi ${key}. waiting for only one to exist`;
    const both = targetOf({ 'pod-a': 'node1', 'pod-b': 'node1' });
    await assert.rejects(bench.clientsOf().connect(both), hasCode('MULTIPLE_SOCKETS', text));
    assert.equal((await bench.clientsOf().state(both)).kind, 'unclear');
  });

  it('of two that are listened on, the other is found as soon as one has ended', async () => {
    const one = await bench.launcherOf('pod-a');
    const other = await bench.launcherOf('pod-b');
    const both = targetOf({ 'pod-a': 'node1', 'pod-b': 'node1' });
    const clients = bench.clientsOf();
    assert.equal((await clients.state(both)).kind, 'unclear');
    await one.stop();
    assert.equal((await clients.state(both)).kind, 'ready');
    await clients.connectVerified(both);
    assert.equal(other.count('ping'), 1);
  });

  it('skips a leftover socket of an ended pod', async () => {
    const ended = await bench.launcherOf('pod-a');
    await ended.stop();
    const launcher = await bench.launcherOf('pod-b');
    await bench.clientsOf().connectVerified(targetOf({ 'pod-a': 'node1', 'pod-b': 'node1' }));
    assert.equal(launcher.count('ping'), 1);
  });

  it('does not follow a link in place of the socket', async () => {
    const foreign = await bench.launcherOf('pod-of-someone-else');
    const socketFile = socketFileOf(bench.podsDir, pod);
    mkdirSync(path.dirname(socketFile), { recursive: true });
    symlinkSync(foreign.socketFile, socketFile);
    await assert.rejects(bench.clientsOf().connect(targetOf()), hasCode('NO_SOCKET'));
    assert.deepEqual(foreign.calls, []);
  });

  it('does not follow a link in place of a directory on the way', async () => {
    await bench.launcherOf('pod-of-someone-else');
    symlinkSync(path.join(bench.podsDir, 'pod-of-someone-else'), path.join(bench.podsDir, pod));
    await assert.rejects(bench.clientsOf().connect(targetOf()), hasCode('NO_SOCKET'));
  });

  it('does not take a pod UID that leaves the pods directory', async () => {
    await bench.launcherOf();
    await assert.rejects(
      bench.clientsOf().connect(targetOf({ '../': 'node1', '': 'node1', '..': 'node1' })),
      hasCode('NO_SOCKET'),
    );
  });

  it('does not dial a file that is no socket', async () => {
    const socketFile = socketFileOf(bench.podsDir, pod);
    mkdirSync(path.dirname(socketFile), { recursive: true });
    writeFileSync(socketFile, '');
    await assert.rejects(bench.clientsOf().connect(targetOf()), hasCode('NO_SOCKET'));
  });

  it('uses a remembered socket when the VMI has no pods any more', async () => {
    const launcher = await bench.launcherOf();
    await bench.clientsOf().connectVerified({ ...targetOf({}), socketFile: launcher.socketFile });
    assert.equal(launcher.count('ping'), 1);
  });
});

describe('state of a launcher without calling it', () => {
  const stateKind = async (clients: LauncherClients, target = targetOf()) => (await clients.state(target)).kind;

  it('is dead when no pod directory is there', async () => {
    mkdirSync(path.join(bench.podsDir, 'another-pod'));
    assert.deepEqual(await bench.clientsOf().state(targetOf()), { kind: 'dead', reason: 'the launcher pod is gone' });
  });

  it('is not ready while the pod has no socket, and dead after three minutes', async () => {
    mkdirSync(path.dirname(socketFileOf(bench.podsDir, pod)), { recursive: true });
    assert.equal(await stateKind(bench.clientsOf()), 'not-ready');
    assert.equal(await stateKind(bench.clientsOf({ initTimeoutMs: 0 })), 'dead');
  });

  it('a launcher that makes its socket is told at once, without another look', async () => {
    mkdirSync(path.dirname(socketFileOf(bench.podsDir, pod)), { recursive: true });
    const clients = bench.clientsOf();
    const reported = new Promise<string>((resolve) => clients.onChange(resolve));
    assert.equal(await stateKind(clients), 'not-ready');
    await bench.launcherOf();
    assert.equal(await reported, key);
    assert.equal(await stateKind(clients), 'ready');
  });

  it('a launcher that was only looked at leaves nothing behind, one whose socket is waited for does until it came', async () => {
    const clients = bench.clientsOf();
    mkdirSync(path.join(bench.podsDir, 'another-pod'));
    assert.equal(await stateKind(clients), 'dead');
    assert.equal(clients.size, 0);
    mkdirSync(path.dirname(socketFileOf(bench.podsDir, pod)), { recursive: true });
    assert.equal(await stateKind(clients), 'not-ready');
    assert.equal(clients.size, 1);
    await bench.launcherOf();
    assert.equal(await stateKind(clients), 'ready');
    assert.equal(clients.size, 0);
    await clients.connect(targetOf());
    assert.equal(await stateKind(clients), 'ready');
    assert.equal(clients.size, 1);
    await clients.close(key, uid);
    assert.equal(clients.size, 0);
  });

  it('a VMI that is cleaned up before its socket came is not watched any more', async () => {
    mkdirSync(path.dirname(socketFileOf(bench.podsDir, pod)), { recursive: true });
    const clients = bench.clientsOf();
    const reported: string[] = [];
    assert.equal(await stateKind(clients), 'not-ready');
    await clients.close(key, uid);
    clients.onChange((changed) => reported.push(changed));
    await bench.launcherOf();
    const other = bench.clientsOf();
    assert.equal(await stateKind(other), 'ready');
    assert.deepEqual(reported, []);
  });

  it('is ready with a listener, and connected after connect', async () => {
    await bench.launcherOf();
    const clients = bench.clientsOf();
    assert.deepEqual(await clients.state(targetOf()), { kind: 'ready', connected: false });
    await clients.connect(targetOf());
    assert.deepEqual(await clients.state(targetOf()), { kind: 'ready', connected: true });
  });

  it('a mark of upstream’s that it is unresponsive proves nothing while it listens', async () => {
    const launcher = await bench.launcherOf();
    const clients = bench.clientsOf();
    symlinkSync('/nowhere', path.join(path.dirname(launcher.socketFile), 'launcher-unresponsive'));
    assert.equal(await stateKind(clients), 'ready');
    await clients.connect(targetOf());
    assert.equal(await stateKind(clients), 'ready');
  });

  it('marks for upstream, and a mark that is there already is success', async () => {
    const { socketFile } = await bench.launcherOf();
    const clients = bench.clientsOf();
    clients.markUnresponsive(socketFile);
    clients.markUnresponsive(socketFile);
    assert.ok(existsSync(path.join(path.dirname(socketFile), 'launcher-unresponsive')));
  });

  it('is not ready, and not dead, while a socket that was just made has no listener yet', async () => {
    const launcher = await bench.launcherOf();
    await launcher.stop();
    assert.ok(existsSync(launcher.socketFile));
    assert.equal(await stateKind(bench.clientsOf()), 'not-ready');
  });

  it('is dead when nobody has listened on its socket for long', async () => {
    const launcher = await bench.launcherOf();
    await launcher.stop();
    assert.equal(await stateKind(bench.clientsOf({ refusedMs: 0 })), 'dead');
  });

  it('proves nothing while the pods’ directory is empty: its mount may be missing', async () => {
    const { socketFile } = await bench.launcherOf();
    renameSync(path.join(bench.podsDir, pod), `${bench.podsDir}.away`);
    bench.cleanups.push(() => renameSync(`${bench.podsDir}.away`, path.join(bench.podsDir, pod)));
    assert.equal(await stateKind(bench.clientsOf()), 'unclear');
    assert.equal(await stateKind(bench.clientsOf(), { ...targetOf({}), socketFile }), 'unclear');
  });

  it('is unclear when a remembered process runs and its socket is gone, dead when another process has its pid', async () => {
    mkdirSync(path.dirname(socketFileOf(bench.podsDir, pod)), { recursive: true });
    mkdirSync(path.join(bench.podsDir, 'another-pod'));
    const { peer } = await connectionOf('pod-2');
    const remembered = { socketFile: socketFileOf(bench.podsDir, pod), process: peer };
    const reused = { ...remembered, process: { pid: peer.pid, startTime: '1' } };
    assert.equal(await stateKind(bench.clientsOf(), { ...targetOf(), ...remembered }), 'unclear');
    assert.equal(await stateKind(bench.clientsOf(), { ...targetOf({}), ...remembered }), 'unclear');
    assert.equal(await stateKind(bench.clientsOf(), { ...targetOf({}), ...reused }), 'dead');
  });

  it('a remembered socket of an earlier pod does not hide that the present pod is not ready yet', async () => {
    mkdirSync(path.dirname(socketFileOf(bench.podsDir, pod)), { recursive: true });
    const socketFile = socketFileOf(bench.podsDir, 'earlier-pod');
    assert.equal(await stateKind(bench.clientsOf(), { ...targetOf(), socketFile }), 'not-ready');
  });

  async function connectionOf(podUid: string) {
    await bench.launcherOf(podUid);
    return bench.clientsOf().connect(targetOf({ [podUid]: 'node1' }));
  }
});
