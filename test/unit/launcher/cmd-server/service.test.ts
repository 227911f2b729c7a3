import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { CommandServer } from '../../../../src/launcher/cmd-server/server.ts';
import { podPaths } from '../../../../src/launcher/daemon/pod-paths.ts';
import { parseLauncherFlags } from '../../../../src/launcher/flags.ts';
import { LauncherParts } from '../../../../src/launcher/launcher-parts.ts';
import { LauncherLife } from '../../../../src/launcher/lifecycle/index.ts';
import { cmd } from '../../../../src/wire/index.ts';
import { CmdCaller, vmiRequest } from '../../../fixtures/cmd-caller.ts';
import { launcherArgs, launcherVmi, launcherVmiUid } from '../../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

let dir: string;
let hypervisor: MemoryHypervisor;
let server: CommandServer;
let parts: LauncherParts;
let caller: CmdCaller;

before(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'svc-'));
  const parsed = parseLauncherFlags([...launcherArgs, '--run-as-nonroot', '--vm-stats-collector']);
  const flags = parsed.kind === 'options' ? parsed.options : assert.fail();
  const identity = { namespace: 'default', name: 'small', uid: launcherVmiUid };
  const paths = podPaths(flags, 'default_small', dir);
  hypervisor = new MemoryHypervisor();
  parts = new LauncherParts(
    { flags, identity, paths, cpuSet: [0, 1] },
    {
      hypervisor,
      network: undefined,
      prepare: async () => '<domain><name>default_small</name></domain>',
      life: new LauncherLife({ log: silentLogger }),
      findSriovDevices: async () => ({}),
      findMedia: async () => new Map(),

      tracking: { imageOf: async () => undefined, forget: async () => undefined },
      signalProcess: () => undefined,
      onTargetPodCleanup: () => undefined,
      log: silentLogger,
      clock: systemClock,
    },
  );
  hypervisor.onEvent((event) => parts.handleEvent(event));
  server = new CommandServer(
    { initSocket: paths.initSocket, socket: paths.commandSocket, checkTimeoutMs: 5000 },
    parts.service,
  );
  await server.start();
  parts.start();
  await server.markReady();
  caller = new CmdCaller(paths.commandSocket);
});
after(async () => {
  caller.close();
  await parts.stop();
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

test('all 36 calls of the service have a handler', () => {
  const wanted = Object.keys(cmd.CmdService).sort();
  assert.equal(wanted.length, 36);
  assert.deepEqual(Object.keys(parts.service).sort(), wanted);
});

interface RawAnswer {
  /** gRPC status code. */
  readonly status: number;
  readonly bytes: Buffer | undefined;
}

/** Raw bytes as the request of a call. */
function callRaw(definition: (typeof cmd.CmdService)[keyof typeof cmd.CmdService], bytes: Buffer): Promise<RawAnswer> {
  return new Promise((resolve) => {
    const { path: method } = definition;
    caller.client.makeUnaryRequest(
      method,
      (value: Buffer) => value,
      (value: Buffer) => value,
      bytes,
      (error, answer) => resolve({ status: error?.code ?? 0, bytes: answer }),
    );
  });
}

test('every call with an empty request answers; with garbage it fails; none breaks the server', async () => {
  for (const [name, definition] of Object.entries(cmd.CmdService)) {
    const mayFail = ['exec', 'guestPing'].includes(name) ? 2 : 0;
    assert.equal((await callRaw(definition, Buffer.alloc(0))).status, mayFail, name);
    const { status } = await callRaw(definition, Buffer.from('ffffffffff0f', 'hex'));
    assert.ok([0, 2, 13].includes(status), name);
  }
  assert.equal((await caller.call(caller.client.ping, {})).success, true);
});

test('each of the 36 calls is built, and a failure says why', async () => {
  const answers = await Promise.all(
    Object.entries(cmd.CmdService).map(async ([name, definition]) => {
      const { status, bytes } = await callRaw(definition, Buffer.alloc(0));
      if (!bytes) return { name, status };
      const answer = definition.responseDeserialize(bytes) as Partial<cmd.Response> & { response?: cmd.Response };
      const { success = false, message = '' } = answer.response ?? answer;
      return { name, status, success, message };
    }),
  );
  const failed = answers.filter((answer) => !('success' in answer));
  assert.deepEqual([...new Set(failed.map(({ status }) => status))], [2]);
  const wordless = answers.filter((answer) => 'success' in answer && !answer.success && answer.message === '');
  assert.deepEqual(wordless, [], 'a failure says why');
  const unsupported = answers.filter((answer) => /not supported/.test(answer.message ?? ''));
  assert.deepEqual(unsupported, []);
});

test('garbage on the init socket and on the ready socket costs only its connection', async () => {
  const sockets = { initSocket: path.join(dir, 'second/init-sock'), socket: path.join(dir, 'second/ready-sock') };
  const second = new CommandServer({ ...sockets, checkTimeoutMs: 5000 }, parts.service);
  await second.start();
  for (const garbage of garbageOfAllKinds()) await sendRaw(sockets.initSocket, garbage);
  await second.markReady();
  for (const garbage of garbageOfAllKinds()) await sendRaw(sockets.socket, garbage);
  const peer = new CmdCaller(sockets.socket);
  assert.equal((await peer.call(peer.client.ping, {})).success, true);
  peer.close();
  await second.stop();
});

/** The same each time: the head of a frame that random bytes may happen to be lets the server wait for the rest of it. */
function noise(bytes: number): Buffer {
  return createHash('shake256', { outputLength: bytes }).update('noise').digest();
}

function garbageOfAllKinds(): Buffer[] {
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  return [
    Buffer.alloc(0),
    noise(64 * 1024),
    Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
    preface.subarray(0, 10),
    Buffer.concat([preface, noise(4096)]),
    // A frame that says it is 16 MiB long.
    Buffer.concat([preface, Buffer.from('ffffff000000000000', 'hex')]),
  ];
}

/** Sends and waits until the other side has hung up. */
async function sendRaw(socketFile: string, bytes: Buffer): Promise<void> {
  const socket = net.connect(socketFile);
  socket.on('error', () => undefined);
  const closed = once(socket, 'close');
  socket.end(bytes);
  socket.resume();
  await closed;
}

test('a nil VMI is refused in words', async () => {
  const { client } = caller;
  for (const method of [client.syncVirtualMachine, client.killVirtualMachine, client.unfreezeVirtualMachine]) {
    const answer = await caller.call(method, { vmi: undefined, options: undefined });
    assert.deepEqual(answer, { success: false, message: 'the request carries no usable VMI: it is empty' });
  }
});

test('VM statistics fill what was asked for, and one failing part spoils no other', async () => {
  await caller.sync(launcherVmi());
  hypervisor.agentAnswers = ({ execute }) => {
    if (execute === 'guest-get-time') throw new Error('no clock');
    return { answer: execute };
  };
  const request = cmd.VMStatsRequest.create({ domainStats: {}, guestGetTime: {}, guestGetOsInfo: {} });
  const answer = await caller.call(caller.client.getVmStats, request);
  assert.deepEqual(answer.response, { success: false, message: 'agent data guest-get-time: no clock' });
  assert.equal(JSON.parse(answer.domainStats?.domainStats ?? '').Name, 'default_small');
  assert.deepEqual(answer.guestGetOsInfo, { success: true, message: '{"answer":"guest-get-osinfo"}' });
  assert.equal(answer.guestGetLoad, undefined);
  assert.equal(answer.guestAgentVersion?.success, true);
});

test('a screen too large for a message is refused in words', async () => {
  hypervisor.screenshot = async () => ({ mime: 'image/x-portable-pixmap', data: Buffer.alloc(5 * 1024 * 1024) });
  const answer = await caller.call(caller.client.getScreenshot, vmiRequest(launcherVmi()));
  assert.equal(answer.response?.success, false);
  assert.match(answer.response?.message ?? '', /too large for one message/);
});
