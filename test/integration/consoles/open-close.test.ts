import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readAgentState } from '../../../bench/agent-state.ts';
import { clientFrame, RawWebsocket, type WebsocketPlace } from '../../../bench/raw-websocket.ts';
import { forEach } from '../../../bench/vmis.ts';
import { ensureKubevirtCertificates } from '../../../src/certificates/index.ts';
import { AgentBench, embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { plainProtocol, sessionProtocol } from '../../fixtures/agent-console.ts';
import { eventually } from '../../fixtures/eventually.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'launchers with a /run of their own need root';
const warmUp = 500;
const cycles = 10_000;
const parallel = 8;
const goodbye = Buffer.from('888237fa213d3412', 'hex');

/** What a client does, and how its session ends. Side by side on one guest, so that writers also take each other over. */
const kinds: readonly ((place: WebsocketPlace) => Promise<void>)[] = [
  async function leavesWithoutAWord(place) {
    await (await open(place, 'console', plainProtocol)).close();
  },
  async function saysGoodbye(place) {
    const stream = await open(place, 'console', plainProtocol);
    const closed = new Promise((resolve) => stream.socket.once('close', resolve));
    stream.send(goodbye);
    await closed;
  },
  async function typesAndLeaves(place) {
    const stream = await open(place, 'console', sessionProtocol);
    stream.send(clientFrame(Buffer.from('x')));
    await stream.close();
  },
  async function looksOn(place) {
    await (await open(place, 'console?access=view', sessionProtocol)).close();
  },
  async function watchesTheScreen(place) {
    await (await open(place, 'vnc', plainProtocol)).close();
  },
  async function asksForNobody(place) {
    await assert.rejects(RawWebsocket.open(place, pathOf('nobody', 'console'), plainProtocol), / 404 Not Found/);
  },
];

describe(`${cycles} consoles opened and closed at one agent`, { skip: needsRoot }, () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'cycles-'));
  const guests: Server[] = [];
  let bench: AgentBench;
  let place: WebsocketPlace;

  before(async () => {
    const { server, client, caBundle } = await ensureKubevirtCertificates(path.join(dir, 'ca'));
    const port = await unusedPort();
    const files = ['--tls-cert-file', server.certFile, '--tls-key-file', server.keyFile];
    const flags = ['--console-server-port', `${port}`, '--listen', '127.0.0.1', ...files];
    bench = await AgentBench.start(embeddedLoopApi, { flags });
    await publishAuthority(bench, caBundle);
    const [cert, key] = [client.certFile, client.keyFile].map((file) => readFileSync(file));
    place = { host: '127.0.0.1', port, tls: { ca: caBundle, cert, key, checkServerIdentity: () => undefined } };
    const { launcher, uid } = await bench.play('guest');
    const privateDir = `/proc/${launcher.pid}/root/run/kubevirt-private/${uid}`;
    mkdirSync(privateDir, { recursive: true });
    guests.push(
      await guestAt(`${privateDir}/virt-serial0`, ''),
      await guestAt(`${privateDir}/virt-vnc`, 'RFB 003.008\n'),
    );
    // The agent learns of its authority by a watch.
    await eventually(async () => kinds[0]?.(place));
  });

  after(async () => {
    for (const guest of guests) guest.close();
    await bench?.dispose();
    rmSync(dir, { recursive: true, force: true });
  });

  async function run(count: number): Promise<void> {
    const numbers = Array.from({ length: count }, (_, number) => number);
    await forEach(numbers, parallel, async (number) => kinds[number % kinds.length]?.(place));
  }

  async function held(): Promise<{ readonly files: number; readonly resources: number }> {
    const { resources } = await readAgentState(bench.program.privateDir);
    return {
      files: bench.descriptors().all,
      resources: Object.values(resources).reduce((sum, count) => sum + count, 0),
    };
  }

  test('leave no file, socket, timer or session behind', async () => {
    await run(warmUp);
    const before = await held();
    await run(cycles - warmUp);
    // One line may linger for a client that comes back, and one connection may just be closing.
    await eventually(async () => {
      const now = await held();
      assert.ok(now.files <= before.files + 2, `files: ${before.files}, then ${now.files}`);
      assert.ok(now.resources <= before.resources + 4, `resources: ${before.resources}, then ${now.resources}`);
    }, 30_000);
    const [serial = 0, screen = 0] = await Promise.all(guests.map(clientsOf));
    assert.ok(serial <= 1 && screen === 0, `${serial} clients of the serial line, ${screen} of the screen`);
  });

  test('and the next one works', async () => {
    const stream = await open(place, 'console', plainProtocol);
    stream.send(clientFrame(Buffer.from('hello')));
    await stream.received('hello'.length);
    await stream.close();
  });
});

function pathOf(name: string, route: string): string {
  return `/v1/namespaces/default/virtualmachineinstances/${name}/${route}`;
}

function open(place: WebsocketPlace, route: string, protocol: string): Promise<RawWebsocket> {
  return RawWebsocket.open(place, pathOf('guest', route), protocol);
}

async function publishAuthority({ api }: AgentBench, caBundle: string): Promise<void> {
  await api.admin.post('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kubevirt' } });
  const { status, body } = await api.admin.post('/api/v1/namespaces/kubevirt/configmaps', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'kubevirt-ca' },
    data: { 'ca-bundle': caBundle },
  });
  assert.equal(status, 201, JSON.stringify(body));
}

/** A device of a guest that greets and then repeats what it hears. */
async function guestAt(socketFile: string, greeting: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write(greeting);
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(socketFile, resolve));
  return server;
}

function clientsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );
}

/** Free a moment ago: the agent says so and tries again when it is taken meanwhile. */
async function unusedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
