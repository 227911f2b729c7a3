import assert from 'node:assert/strict';
import { mkdir, symlink } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { encodeWith } from '../../../src/libvirt/codec.ts';
import type { LibvirtEvent } from '../../../src/libvirt/events.ts';
import { type Packet, PacketType } from '../../../src/libvirt/frame.ts';
import { driverUri, isLibvirtError, LibvirtClient, type LibvirtConnectOptions } from '../../../src/libvirt/index.ts';
import { Program, procedures } from '../../../src/libvirt/procedures.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { errorPayload, FakeDaemon } from './fake-daemon.ts';

let daemon: FakeDaemon;
let client: LibvirtClient | undefined;
let ignored: string[];
let thrown: unknown[];
const domain = { name: 'd', uuid: '6695eb01-f6a4-8304-79aa-97f2502e193f', id: 1 };
const other = { ...domain, name: 'o', uuid: '00000000-0000-4000-8000-000000000001' };
const started: LibvirtEvent<'lifecycle'> = { kind: 'lifecycle', domain, event: 2, detail: 0 };

async function connect(options: Partial<LibvirtConnectOptions> = {}): Promise<LibvirtClient> {
  client = await LibvirtClient.connect(
    { socketPath: daemon.socketPath, uri: 'test:///default', ...options },
    { onIgnored: (reason) => ignored.push(reason), onCallbackError: (_kind, error) => thrown.push(error) },
  );
  return client;
}

beforeEach(async () => {
  daemon = await FakeDaemon.start();
  ignored = [];
  thrown = [];
});

afterEach(async () => {
  await client?.close();
  client = undefined;
  await daemon.remove();
});

test('a connection opens in the order of libvirt: authentication, keepalive, name', async () => {
  const names: (string | undefined)[] = [];
  daemon.on(procedures.connectOpen, ({ name }) => {
    names.push(name);
  });
  await connect({ uri: 'qemu+unix:///session?socket=/x/y' });
  assert.deepEqual(daemon.calls, [66, 60, 1]);
  assert.deepEqual(names, ['qemu:///session']);
});

test('without keepalive the daemon is not asked for it', async () => {
  await connect({ keepalive: false });
  assert.deepEqual(daemon.calls, [66, 1]);
});

test('transport and query are not part of the name for the daemon', () => {
  assert.equal(driverUri('qemu+unix:///session?socket=/a/b'), 'qemu:///session');
  assert.equal(driverUri('qemu:///system'), 'qemu:///system');
  assert.equal(driverUri('test:///default'), 'test:///default');
});

test('SASL is refused with advice, and the socket is closed', async () => {
  daemon.on(procedures.authList, () => ({ types: [1] }));
  await assert.rejects(
    connect(),
    (error) => isLibvirtError(error, 'AUTH_REFUSED') && error.message.includes('auth_unix_rw'),
  );
  await eventually(() => assert.equal(daemon.peer.socket.destroyed, true));
});

test('polkit is asked, and its refusal is AUTH_REFUSED with its words', async () => {
  daemon.on(procedures.authList, () => ({ types: [2] }));
  daemon.on(procedures.authPolkit, () => ({ complete: 1 }));
  await connect();
  daemon.onRaw(procedures.authPolkit.number, (_args, peer, call) => {
    peer.send({ ...call, type: PacketType.REPLY, status: 1, payload: errorPayload(45, 'not allowed here') });
    return undefined;
  });
  await assert.rejects(
    connect(),
    (error) => isLibvirtError(error, 'AUTH_REFUSED') && error.message.includes('not allowed here'),
  );
});

test('a daemon that accepts and never answers is CONNECT_FAILED within the limit', async () => {
  daemon.onRaw(procedures.authList.number, () => undefined);
  await assert.rejects(connect({ connectTimeoutMs: 50 }), (error) => isLibvirtError(error, 'CONNECT_FAILED'));
});

test('a socket path longer than the kernel takes is reached all the same', async () => {
  const deep = path.join(daemon.directory, 'x'.repeat(60), 'y'.repeat(60));
  await mkdir(deep, { recursive: true });
  await symlink(daemon.socketPath, path.join(deep, 'sock'));
  const reached = await connect({ socketPath: path.join(deep, 'sock') });
  assert.equal(reached.isOpen, true);
});

test('an event that overtakes the reply of its registration is delivered, before later ones', async () => {
  const seen: number[] = [];
  daemon.onRaw(procedures.registerEvent.number, (_args, peer, call) => {
    peer.sendEvent(7, { ...started, detail: 0 });
    peer.sendEvent(8, { ...started, detail: 99 });
    peer.reply(call, encodeWith(procedures.registerEvent.reply, { callbackId: 7 }));
    peer.sendEvent(7, { ...started, detail: 1 });
    return undefined;
  });
  const open = await connect();
  await open.subscribe('lifecycle', ({ detail }) => seen.push(detail));
  daemon.peer.sendEvent(7, { ...started, detail: 2 });
  await eventually(() => assert.deepEqual(seen, [0, 1, 2]));
});

test('subscribers of one kind and domain share one registration, which ends with the last of them', async () => {
  const open = await connect();
  const unsubscribe = await Promise.all([0, 1].map(() => open.subscribe('lifecycle', () => undefined)));
  await open.subscribe('lifecycle', () => undefined, { domain });
  await open.subscribe('lifecycle', () => undefined, { domain: other });
  const registrations = () => daemon.calls.filter((procedure) => procedure === 316).length;
  assert.equal(registrations(), 3);
  await unsubscribe[0]?.();
  assert.equal(daemon.calls.includes(317), false);
  await unsubscribe[1]?.();
  await unsubscribe[1]?.();
  assert.equal(daemon.calls.filter((procedure) => procedure === 317).length, 1);
  await open.subscribe('lifecycle', () => undefined);
  assert.equal(registrations(), 4);
});

test('a subscriber that throws is reported and stops nobody', async () => {
  const seen: string[] = [];
  const open = await connect();
  const fault = new Error('subscriber fault');
  await open.subscribe('lifecycle', () => {
    throw fault;
  });
  await open.subscribe('lifecycle', ({ domain: { name } }) => seen.push(name));
  daemon.peer.sendEvent(0, started);
  await eventually(() => assert.deepEqual(seen, ['d']));
  assert.deepEqual(thrown, [fault]);
});

test('an event kind that the daemon does not know fails only that subscription', async () => {
  const open = await connect();
  daemon.onRaw(procedures.registerEvent.number, (_args, peer, call) => {
    peer.send({ ...call, type: PacketType.REPLY, status: 1, payload: errorPayload(1, 'unsupported event ID 26') });
    return undefined;
  });
  await assert.rejects(
    open.subscribe('memoryDeviceSizeChange', () => undefined),
    { code: 'INTERNAL_ERROR' },
  );
  daemon.on(procedures.registerEvent, () => ({ callbackId: 0 }));
  await open.subscribe('lifecycle', () => undefined);
});

test('events that nobody reads, that are unknown or broken are counted and ignored', async () => {
  const open = await connect();
  await open.subscribe('lifecycle', () => undefined);
  const { peer } = daemon;
  peer.sendEvent(5, started);
  const message: Partial<Packet> = { type: PacketType.MESSAGE, serial: 1 };
  peer.send({ ...message, procedure: 453, payload: Buffer.alloc(4) });
  peer.send({ ...message, procedure: 318, payload: Buffer.alloc(7, 255) });
  peer.send({ ...message, program: Program.QEMU, procedure: 6, payload: Buffer.alloc(4) });
  await eventually(() =>
    assert.deepEqual(ignored, ['event without subscriber', 'unknown event', 'unreadable event', 'unknown event']),
  );
  assert.equal(open.isOpen, true);
});

test('close rejects what is under way, resolves closed without a cause, and may be repeated', async () => {
  const open = await connect();
  daemon.onRaw(procedures.connectGetUri.number, () => undefined);
  const pending = assert.rejects(open.getUri(), (error) => isLibvirtError(error, 'CONNECTION_LOST'));
  await open.close();
  await open.close();
  await pending;
  assert.deepEqual(await open.closed, {});
  assert.equal(open.isOpen, false);
});

test('disk errors are asked for only when there are some, and for as many as there are', async () => {
  const asked: number[] = [];
  let count = 0;
  daemon.on(procedures.domainGetDiskErrors, ({ maxErrors }) => {
    asked.push(maxErrors);
    return { errors: maxErrors > 0 ? [{ disk: 'vda', error: 2 }] : [], count };
  });
  const open = await connect();
  assert.deepEqual(await open.getDiskErrors(domain), []);
  count = 1;
  assert.deepEqual(await open.getDiskErrors(domain), [{ disk: 'vda', error: 2 }]);
  assert.deepEqual(asked, [0, 0, 1]);
});

test('vCPU pinning is cut into one map for each vCPU', async () => {
  const node = { model: 'm', memoryKiB: 1n, cpus: 12, mhz: 1, nodes: 1, sockets: 1, cores: 12, threads: 1 };
  daemon.on(procedures.nodeGetInfo, () => node);
  daemon.on(procedures.domainGetInfo, () => ({ state: 1, maxMemoryKiB: 1n, memoryKiB: 1n, vcpus: 2, cpuTimeNs: 0n }));
  daemon.on(procedures.domainGetVcpuPinInfo, ({ maps, mapBytes }) => {
    assert.deepEqual([maps, mapBytes], [2, 2]);
    return { cpumaps: Buffer.from([0b1, 0b1000, 0b10, 0]), count: 2 };
  });
  const open = await connect();
  assert.deepEqual(await open.getVcpuPinInfo(domain), [[0, 11], [1]]);
});

test('the wait for an agent command is longer than the agent may take', async () => {
  daemon.onRaw(procedures.agentCommand.number, () => undefined);
  const open = await connect({ callTimeoutMs: 10 });
  const slow = open.agentCommand(domain, '{}', 60);
  await assert.rejects(open.getUri(), { code: 'RPC' });
  const quick = open.agentCommand(domain, '{}', 60, 0, { timeoutMs: 10 });
  await assert.rejects(quick, { code: 'CALL_TIMEOUT' });
  let ended: string | undefined;
  const outcome = slow.catch(({ code }: { code: string }) => {
    ended = code;
  });
  await stays(() => assert.equal(ended, undefined), 50);
  await open.close();
  await outcome;
  assert.equal(ended, 'CONNECTION_LOST');
});
