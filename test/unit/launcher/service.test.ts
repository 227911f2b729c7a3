import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { CommandServer } from '../../../src/launcher/cmd-server/server.ts';
import { parseLauncherFlags } from '../../../src/launcher/flags.ts';
import { LauncherParts } from '../../../src/launcher/parts.ts';
import { podPaths } from '../../../src/launcher/pod-paths.ts';
import { cmd } from '../../../src/wire/index.ts';
import { CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { launcherArgs, launcherVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../fixtures/memory-hypervisor.ts';

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
    { flags, identity, paths },
    {
      hypervisor,
      prepare: async () => '<domain><name>default_small</name></domain>',
      onQemuEnded: () => undefined,
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

/** Raw bytes as the request of a call; resolves with the gRPC status code. */
function callRaw(definition: (typeof cmd.CmdService)[keyof typeof cmd.CmdService], bytes: Buffer): Promise<number> {
  return new Promise((resolve) => {
    const { path: method } = definition;
    caller.client.makeUnaryRequest(
      method,
      (value: Buffer) => value,
      (value: Buffer) => value,
      bytes,
      (error) => resolve(error?.code ?? 0),
    );
  });
}

test('every call with an empty request answers; with garbage it fails; none breaks the server', async () => {
  for (const [name, definition] of Object.entries(cmd.CmdService)) {
    const mayFail = ['exec', 'guestPing'].includes(name) ? 2 : 0;
    assert.equal(await callRaw(definition, Buffer.alloc(0)), mayFail, name);
    assert.ok([0, 2, 13].includes(await callRaw(definition, Buffer.from('ffffffffff0f', 'hex'))), name);
  }
  assert.equal((await caller.call(caller.client.ping, {})).success, true);
});

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
