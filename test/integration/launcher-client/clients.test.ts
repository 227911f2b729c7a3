import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { isProcessAlive } from '../../../src/host/index.ts';
import {
  LauncherClients,
  type LauncherClientsOptions,
  LauncherError,
  type LauncherErrorCode,
  type LauncherTarget,
  vmiRequest,
} from '../../../src/launcher-client/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { type LauncherProcess, launcherProgram } from '../../fixtures/launcher-process.ts';
import { ScriptedLauncher, scriptedDomain, socketFileOf } from '../../fixtures/scripted-launcher.ts';

const key = 'default/vm1';
const uid = 'vmi-uid-1';
const pod = 'pod-uid-1';

let podsDir: string;
let hookCalls: string[];
let cleanups: (() => void | Promise<void>)[];

beforeEach(() => {
  podsDir = mkdtempSync(path.join(tmpdir(), 'pods-'));
  hookCalls = [];
  cleanups = [];
});

afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  rmSync(podsDir, { recursive: true, force: true });
});

function clientsOf(options: Partial<LauncherClientsOptions> = {}): LauncherClients {
  const hooks = {
    register: async ({ socketFile }: { socketFile: string }) => void hookCalls.push(`register ${socketFile}`),
    attached: async () => void hookCalls.push('attached'),
    released: async (_key: string, releasedUid: string) => void hookCalls.push(`released ${releasedUid}`),
  };
  const clients = new LauncherClients({ podsDir, nodeName: 'node1', ...options }, { hooks });
  cleanups.push(() => clients.stop());
  return clients;
}

async function launcherOf(podUid = pod, versions?: readonly number[] | 'none'): Promise<ScriptedLauncher> {
  const launcher = await ScriptedLauncher.start({
    socketFile: socketFileOf(podsDir, podUid),
    ...(versions && { versions }),
  });
  cleanups.push(() => launcher.stop());
  return launcher;
}

function targetOf(activePods: Record<string, string> = { [pod]: 'node1' }): LauncherTarget {
  return { key, uid, activePods, nonRoot: false };
}

function hasCode(code: LauncherErrorCode, message?: string) {
  return (error: unknown) => {
    assert.ok(error instanceof LauncherError, String(error));
    assert.equal(error.code, code, error.message);
    if (message !== undefined) assert.equal(error.message, message);
    return true;
  };
}

/** Listens and treats connections as told; for launchers that do not speak gRPC. */
async function rawServer(onConnection: (socket: Socket) => void): Promise<Server> {
  const socketFile = socketFileOf(podsDir, pod);
  mkdirSync(path.dirname(socketFile), { recursive: true });
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(socketFile, resolve));
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return server;
}

describe('connecting to a launcher', () => {
  it('registers, asks for versions, attaches, and calls with the VMI as JSON', async () => {
    const launcher = await launcherOf();
    const connection = await clientsOf().connect(targetOf());
    const vmi = {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: { name: 'vm1' },
      spec: { domain: {} },
      unknown: 1,
    };
    await connection.call('syncVirtualMachine', vmiRequest(vmi, { MemBalloonStatsPeriod: 10 }));
    assert.deepEqual(hookCalls, [`register ${launcher.socketFile}`, 'attached']);
    const [call] = launcher.calls;
    const request = call?.request as { vmi: { vmiJson: Buffer }; options: { MemBalloonStatsPeriod: number } };
    assert.equal(call?.rpc, 'syncVirtualMachine');
    assert.deepEqual(JSON.parse(request.vmi.vmiJson.toString()), vmi);
    assert.equal(request.options.MemBalloonStatsPeriod, 10);
  });

  it('makes one connection for callers at the same time, and gives it again later', async () => {
    await launcherOf();
    const clients = clientsOf();
    const [first, second] = await Promise.all([clients.connect(targetOf()), clients.connect(targetOf())]);
    assert.equal(first, second);
    assert.equal(await clients.connect(targetOf()), first);
    assert.equal(hookCalls.length, 2);
  });

  it('knows the process behind the socket', async () => {
    await launcherOf();
    const { peer } = await clientsOf().connect(targetOf());
    assert.equal(peer.pid, process.pid);
    assert.equal(isProcessAlive(peer), true);
    assert.equal(isProcessAlive({ pid: peer.pid, startTime: '1' }), false);
  });

  it('works when the socket path is longer than a socket address', async () => {
    podsDir = path.join(podsDir, 'x'.repeat(60));
    const launcher = await launcherOf();
    assert.ok(launcher.socketFile.length > 107);
    const connection = await clientsOf().connectVerified(targetOf());
    assert.equal(launcher.count('ping'), 1);
    assert.equal(connection.connected, true);
  });

  it('refuses a launcher without a common protocol version', async () => {
    await launcherOf(pod, [2, 3]);
    await assert.rejects(clientsOf().connect(targetOf()), hasCode('INCOMPATIBLE'));
  });

  it('refuses a launcher without version service', async () => {
    await launcherOf(pod, 'none');
    await assert.rejects(clientsOf().connect(targetOf()), hasCode('INCOMPATIBLE'));
  });

  it('gives up on one that accepts and never answers, and connects to others meanwhile', async () => {
    await rawServer(() => undefined);
    await launcherOf('pod-2');
    const clients = clientsOf({ limits: { dialTimeoutMs: 300, infoTimeoutMs: 300, peerTimeoutMs: 300 } });
    const hung = assert.rejects(clients.connect(targetOf()), hasCode('TIMEOUT'));
    await clients.connectVerified({ ...targetOf({ 'pod-2': 'node1' }), key: 'default/vm2', uid: 'uid-2' });
    await hung;
  });

  it('gives up on one that answers with garbage', async () => {
    await rawServer((socket) => socket.end(Buffer.from('HTTP/1.1 200 OK\r\n\r\nhello\0\xff'.repeat(100), 'latin1')));
    const clients = clientsOf({ limits: { dialTimeoutMs: 300, infoTimeoutMs: 300, peerTimeoutMs: 300 } });
    await assert.rejects(clients.connect(targetOf()), hasCode('TIMEOUT'));
  });

  it('lets a caller go when its signal fires', async () => {
    await rawServer(() => undefined);
    const clients = clientsOf();
    const abort = new AbortController();
    const connecting = assert.rejects(clients.connect(targetOf(), abort.signal), hasCode('ABORTED'));
    abort.abort();
    await connecting;
  });

  it('closes the connection again when a hook fails, and tries anew the next time', async () => {
    const launcher = await launcherOf();
    let failures = 1;
    const hooks = {
      register: async () => undefined,
      attached: async () => {
        if (failures-- > 0) throw new Error('no pipe');
      },
      released: async () => undefined,
    };
    const clients = new LauncherClients({ podsDir, nodeName: '' }, { hooks });
    cleanups.push(() => clients.stop());
    await assert.rejects(clients.connect(targetOf()), /no pipe/);
    assert.equal(clients.peek(uid), undefined);
    await clients.connectVerified(targetOf());
    assert.equal(launcher.count('ping'), 1);
  });
});

describe('finding the socket of a VMI', () => {
  it('ignores pods of other nodes', async () => {
    await launcherOf();
    const text = `No command socket found for vmi ${uid}`;
    await assert.rejects(clientsOf().connect(targetOf({ [pod]: 'node2' })), hasCode('NO_SOCKET', text));
  });

  it('counts every pod when the node name is not known', async () => {
    await launcherOf();
    await clientsOf({ nodeName: '' }).connect(targetOf({ [pod]: 'node2' }));
  });

  it('refuses two sockets that are listened on', async () => {
    await launcherOf('pod-a');
    await launcherOf('pod-b');
    const text = `Found multiple sockets for vmi ${key}. waiting for only one to exist`;
    const both = targetOf({ 'pod-a': 'node1', 'pod-b': 'node1' });
    await assert.rejects(clientsOf().connect(both), hasCode('MULTIPLE_SOCKETS', text));
    assert.equal((await clientsOf().state(both)).kind, 'unclear');
  });

  it('skips a leftover socket of an ended pod', async () => {
    const ended = await launcherOf('pod-a');
    await ended.stop();
    const launcher = await launcherOf('pod-b');
    await clientsOf().connectVerified(targetOf({ 'pod-a': 'node1', 'pod-b': 'node1' }));
    assert.equal(launcher.count('ping'), 1);
  });

  it('does not follow a link in place of the socket', async () => {
    const foreign = await launcherOf('pod-of-someone-else');
    const socketFile = socketFileOf(podsDir, pod);
    mkdirSync(path.dirname(socketFile), { recursive: true });
    symlinkSync(foreign.socketFile, socketFile);
    await assert.rejects(clientsOf().connect(targetOf()), hasCode('NO_SOCKET'));
    assert.deepEqual(foreign.calls, []);
  });

  it('does not follow a link in place of a directory on the way', async () => {
    await launcherOf('pod-of-someone-else');
    symlinkSync(path.join(podsDir, 'pod-of-someone-else'), path.join(podsDir, pod));
    await assert.rejects(clientsOf().connect(targetOf()), hasCode('NO_SOCKET'));
  });

  it('does not take a pod UID that leaves the pods directory', async () => {
    await launcherOf();
    await assert.rejects(
      clientsOf().connect(targetOf({ '../': 'node1', '': 'node1', '..': 'node1' })),
      hasCode('NO_SOCKET'),
    );
  });

  it('does not dial a file that is no socket', async () => {
    const socketFile = socketFileOf(podsDir, pod);
    mkdirSync(path.dirname(socketFile), { recursive: true });
    writeFileSync(socketFile, '');
    await assert.rejects(clientsOf().connect(targetOf()), hasCode('NO_SOCKET'));
  });

  it('uses a remembered socket when the VMI has no pods any more', async () => {
    const launcher = await launcherOf();
    await clientsOf().connectVerified({ ...targetOf({}), socketFile: launcher.socketFile });
    assert.equal(launcher.count('ping'), 1);
  });
});

describe('state of a launcher without calling it', () => {
  const stateKind = async (clients: LauncherClients, target = targetOf()) => (await clients.state(target)).kind;

  it('is dead when no pod directory is there', async () => {
    assert.deepEqual(await clientsOf().state(targetOf()), { kind: 'dead', reason: 'the launcher pod is gone' });
  });

  it('is not ready while the pod has no socket, and dead after three minutes', async () => {
    mkdirSync(path.dirname(socketFileOf(podsDir, pod)), { recursive: true });
    assert.equal(await stateKind(clientsOf()), 'not-ready');
    assert.equal(await stateKind(clientsOf({ initTimeoutMs: 0 })), 'dead');
  });

  it('a launcher that makes its socket is told at once, without another look', async () => {
    mkdirSync(path.dirname(socketFileOf(podsDir, pod)), { recursive: true });
    const clients = clientsOf();
    const told = new Promise<string>((resolve) => clients.onChange(resolve));
    assert.equal(await stateKind(clients), 'not-ready');
    await launcherOf();
    assert.equal(await told, key);
    assert.equal(await stateKind(clients), 'ready');
  });

  it('a VMI that is cleaned up before its socket came is not watched any more', async () => {
    mkdirSync(path.dirname(socketFileOf(podsDir, pod)), { recursive: true });
    const clients = clientsOf();
    const told: string[] = [];
    assert.equal(await stateKind(clients), 'not-ready');
    await clients.close(key, uid);
    clients.onChange((changed) => told.push(changed));
    await launcherOf();
    const other = clientsOf();
    assert.equal(await stateKind(other), 'ready');
    assert.deepEqual(told, []);
  });

  it('is ready with a listener, and connected after connect', async () => {
    await launcherOf();
    const clients = clientsOf();
    assert.deepEqual(await clients.state(targetOf()), { kind: 'ready', connected: false });
    await clients.connect(targetOf());
    assert.deepEqual(await clients.state(targetOf()), { kind: 'ready', connected: true });
  });

  it('is dead when it is marked unresponsive, even by a link that leads nowhere', async () => {
    const launcher = await launcherOf();
    const clients = clientsOf();
    symlinkSync('/nowhere', path.join(path.dirname(launcher.socketFile), 'launcher-unresponsive'));
    assert.equal(await stateKind(clients), 'dead');
  });

  it('marks for upstream, and a mark that is there already is success', async () => {
    const { socketFile } = await launcherOf();
    const clients = clientsOf();
    clients.markUnresponsive(socketFile);
    clients.markUnresponsive(socketFile);
    assert.ok(existsSync(path.join(path.dirname(socketFile), 'launcher-unresponsive')));
    assert.equal(await stateKind(clients), 'dead');
  });

  it('is dead when the socket file was left behind by a launcher that ended', async () => {
    const launcher = await launcherOf();
    await launcher.stop();
    assert.ok(existsSync(launcher.socketFile));
    assert.equal(await stateKind(clientsOf()), 'dead');
  });
});

describe('error mapping', () => {
  async function connected() {
    const launcher = await launcherOf();
    return { launcher, connection: await clientsOf().connect(targetOf()) };
  }

  it('turns success=false into the text that conditions carry, quoted as Go does', async () => {
    const { launcher, connection } = await connected();
    launcher.fail('syncVirtualMachine', 'EFI OVMF rom missing: "x"\n');
    const text = 'server error. command SyncVMI failed: "EFI OVMF rom missing: \\"x\\"\\n"';
    await assert.rejects(
      connection.call('syncVirtualMachine', vmiRequest({} as never)),
      hasCode('COMMAND_FAILED', text),
    );
  });

  it('tells an rpc that an old launcher lacks', async () => {
    const { launcher, connection } = await connected();
    launcher.on('getQemuVersion', () => {
      throw Object.assign(new Error('no such method'), { code: 12 });
    });
    const text = 'rpc error: code = Unimplemented desc = no such method';
    await assert.rejects(connection.call('getQemuVersion', {}), hasCode('UNIMPLEMENTED', text));
  });

  it('names the command and the status of any other failure', async () => {
    const { launcher, connection } = await connected();
    launcher.on('getUsers', () => {
      throw Object.assign(new Error('agent'), { code: 2 });
    });
    const text = 'unknown error encountered sending command GetUsers: rpc error: code = Unknown desc = agent';
    await assert.rejects(connection.call('getUsers', {}), hasCode('RPC_FAILED', text));
  });

  it('treats a cancelled call as disconnected', async () => {
    const { launcher, connection } = await connected();
    launcher.on('killVirtualMachine', () => {
      throw Object.assign(new Error('context canceled'), { code: 1 });
    });
    const text = 'rpc error: code = Canceled desc = context canceled';
    await assert.rejects(connection.call('killVirtualMachine', vmiRequest({} as never)), hasCode('DISCONNECTED', text));
  });

  it('leaves answers of exec, guestPing and redefineCheckpoint to the caller', async () => {
    const { launcher, connection } = await connected();
    launcher.on('redefineCheckpoint', () => ({
      response: { success: false, message: 'bad' },
      checkpointInvalid: true,
    }));
    const answer = await connection.call('redefineCheckpoint', { vmi: undefined, checkpoint: Buffer.alloc(0) });
    assert.equal(answer.checkpointInvalid, true);
  });

  it('refuses an answer above 4 MiB', async () => {
    const { launcher, connection } = await connected();
    launcher.on('getScreenshot', () => ({
      response: { success: true, message: '' },
      data: Buffer.alloc(5 * 1024 * 1024),
    }));
    await assert.rejects(connection.call('getScreenshot', vmiRequest({} as never)), hasCode('TOO_LARGE'));
    await connection.ping();
  });

  it('refuses a domain that is not JSON, too large or nested without end', async () => {
    const { launcher, connection } = await connected();
    for (const domain of ['{', '[]', `{"a":"${'x'.repeat(1024 * 1024)}"}`, '['.repeat(100_000), '{"ObjectMeta":7}']) {
      launcher.domain = domain;
      await assert.rejects(connection.getDomain(), hasCode('BAD_ANSWER'), domain.slice(0, 20));
    }
    launcher.domain = scriptedDomain(key, uid);
    assert.equal((await connection.getDomain())?.Status.Status, 'Running');
  });

  it('gives up a call when the signal fires, and says so', async () => {
    const { launcher, connection } = await connected();
    launcher.hang('getDomain');
    const abort = new AbortController();
    const call = assert.rejects(connection.getDomain(abort.signal), hasCode('ABORTED'));
    await eventually(() => assert.equal(launcher.count('getDomain'), 1));
    abort.abort();
    await call;
  });
});

describe('the end of a launcher', () => {
  let program: Awaited<ReturnType<typeof launcherProgram>>;
  let launcher: LauncherProcess;

  before(async () => {
    program = await launcherProgram();
  });
  after(() => program.dispose());
  beforeEach(async () => {
    launcher = await program.start(socketFileOf(podsDir, pod));
  });
  afterEach(() => launcher.kill());

  it('is noticed by the connection, proven by its process, and frees the entry', async () => {
    const clients = clientsOf();
    const connection = await clients.connect(targetOf());
    assert.equal(connection.peer.pid, launcher.pid);
    const down = new Promise<string>((resolve) => clients.onDown(resolve));
    const killedMs = performance.now();
    await launcher.kill();
    assert.equal(await down, uid);
    const known = { uid, socketFile: connection.target.socketFile };
    assert.deepEqual(await clients.inspect(known), { kind: 'dead', proof: `process ${launcher.pid} ended` });
    assert.ok(performance.now() - killedMs < 5_000);
    assert.equal(clients.peek(uid), undefined);
  });

  it('makes a call that was under way DISCONNECTED: success for kill and delete', async () => {
    const connection = await clientsOf().connect(targetOf());
    launcher.signal('SIGSTOP');
    const call = assert.rejects(connection.ping(), hasCode('DISCONNECTED'));
    await launcher.kill();
    await call;
  });

  it('is not concluded from silence', async () => {
    const clients = clientsOf();
    const connection = await clients.connect(targetOf());
    launcher.signal('SIGSTOP');
    const known = { uid, socketFile: connection.target.socketFile };
    assert.equal((await clients.inspect(known)).kind, 'alive');
    const call = connection.getDomain(AbortSignal.timeout(200));
    await assert.rejects(call, hasCode('ABORTED'));
    launcher.signal('SIGCONT');
    await connection.ping();
  });

  it('is not concluded from a queue of connections that is full', async () => {
    const clients = clientsOf();
    const socketFile = socketFileOf(podsDir, pod);
    launcher.signal('SIGSTOP');
    const waiting: Socket[] = [];
    cleanups.push(() => {
      for (const socket of waiting) socket.destroy();
    });
    for (let full = false; !full; ) {
      const socket = connect(socketFile);
      waiting.push(socket);
      full = await new Promise((resolve) => {
        socket.once('connect', () => resolve(false)).once('error', () => resolve(true));
      });
    }
    const hung = { kind: 'unknown', reason: 'its socket is hung' };
    assert.deepEqual(await clients.inspect({ uid, socketFile }), hung);
    assert.deepEqual(await clients.inspect({ uid, socketFile, process: { pid: launcher.pid, startTime: '1' } }), hung);
    await assert.rejects(clients.connect(targetOf()), hasCode('TIMEOUT'));
  });

  it('drops the entry when another process answers at the path, and never talks to it on the old one', async () => {
    const clients = clientsOf();
    const old = await clients.connect(targetOf());
    await launcher.kill();
    rmSync(old.target.socketFile);
    const next = await launcherOf();
    await eventually(async () => {
      const connection = await clients.connect(targetOf());
      assert.notEqual(connection, old);
      assert.equal(connection.peer.pid, process.pid);
    });
    await assert.rejects(old.ping(), hasCode('CLOSED'));
    assert.equal(next.count('ping'), 0);
  });

  it('is not proven by a socket that is gone while its process runs', async () => {
    const clients = clientsOf();
    const { target, peer } = await clients.connect(targetOf());
    clients.stop();
    renameSync(target.socketFile, `${target.socketFile}.moved`);
    const verdict = await clientsOf().inspect({ uid, socketFile: target.socketFile, process: peer });
    assert.equal(verdict.kind, 'unknown');
  });

  it('is not proven by an empty pods directory: its mount may be missing', async () => {
    const elsewhere = mkdtempSync(path.join(tmpdir(), 'pods-'));
    cleanups.push(() => rmSync(elsewhere, { recursive: true }));
    const clients = clientsOf({ podsDir: elsewhere });
    const verdict = await clients.inspect({ uid, socketFile: socketFileOf(elsewhere, pod) });
    assert.equal(verdict.kind, 'unknown');
  });

  it('close is safe without an entry, and tells the hooks', async () => {
    const clients = clientsOf();
    await clients.close(key, 'never-seen');
    const connection = await clients.connect(targetOf());
    await clients.close(key, uid);
    assert.equal(connection.closed, true);
    assert.ok(hookCalls.includes(`released ${uid}`) && hookCalls.includes('released never-seen'));
  });
});
