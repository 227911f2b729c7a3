import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { silentLogger } from '../../../src/base/index.ts';
import { loadKubeAccess } from '../../../src/kube/index.ts';
import { ApiProgram } from '../../../src/standalone/index.ts';
import { AgentStandIn } from '../../fixtures/agent-stand-in.ts';
import { ApiClient } from '../../fixtures/api-client.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { UserNetworkPod } from '../../fixtures/user-network-pod.ts';

const pods = '/api/v1/namespaces/default/pods';
/** Of the pod; the node is at 127.0.0.1. */
const podIP = '127.0.0.2';

describe('ports of pods by the standalone node’s API', () => {
  let agent: AgentStandIn;
  let program: ApiProgram;
  let launcher: UserNetworkPod;
  const vmiUid = randomUUID();
  let token: string;
  let server: URL;
  let port: number;
  const connections = new Set<Socket>();
  const children = new Set<ChildProcess>();
  const guest = createServer({ allowHalfOpen: true }, (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
    socket.on('error', () => undefined);
    socket.pipe(socket);
  });

  before(async () => {
    agent = await AgentStandIn.start();
    const options = { paths: agent.paths, host: '127.0.0.1', port: 0, nodeName: 'one', nodes: 1 };
    program = new ApiProgram(options, { log: silentLogger });
    await program.start();
    const access = await loadKubeAccess({ kubeconfig: agent.paths.kubeconfig });
    server = new URL(access.server);
    token = String((await access.credentials.current()).headers.authorization);
    await once(guest.listen(0, podIP), 'listening');
    port = (guest.address() as AddressInfo).port;
    await pod('own', { phase: 'Running', podIP, hostIP: '127.0.0.1' });
    const onNode = { phase: 'Running', podIP: '127.0.0.1', hostIP: '127.0.0.1' };
    await pod('users', onNode);
    const uid = await pod('user', onNode, { 'kubevirt.io': 'virt-launcher', 'kubevirt.io/created-by': vmiUid });
    launcher = await UserNetworkPod.start(agent.paths, uid, vmiUid);
    launcher.qemu.guest.set(22, 'echoes');
    await pod('waiting', { phase: 'Pending' });
  });
  after(async () => {
    for (const child of children) child.kill('SIGKILL');
    await launcher.stop();
    await program.stop();
    await agent.stop();
    guest.close();
  });

  async function pod(name: string, status: object, labels = {}): Promise<string> {
    const admin = ApiClient.fromKubeconfig(agent.paths.kubeconfig);
    const kubelet = ApiClient.fromKubeconfig(agent.paths.kubeconfigs.node);
    const spec = { nodeName: 'one', containers: [{ name: 'compute', image: 'i' }] };
    await admin.post(pods, { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels }, spec });
    const patched = await kubelet.patch(`${pods}/${name}/status`, 'merge', { status });
    assert.equal(patched.status, 200, patched.text);
    return patched.body.metadata.uid;
  }

  interface Forward {
    readonly localPort: number;
    readonly lines: readonly string[];
    readonly child: ChildProcess;
  }

  /** By the stock kubectl; its older way is the only one of kubectl before 1.30. */
  async function forward(name: string, remote: number, isOld: boolean): Promise<Forward> {
    const env = { ...process.env, KUBECONFIG: agent.paths.kubeconfig, KUBECTL_PORT_FORWARD_WEBSOCKETS: String(!isOld) };
    const child = spawn('kubectl', ['port-forward', `pod/${name}`, `0:${remote}`, '--address', '127.0.0.1'], { env });
    children.add(child);
    const lines: string[] = [];
    for (const stream of [child.stdout, child.stderr]) createInterface(stream).on('line', (line) => lines.push(line));
    const found = () => /Forwarding from 127\.0\.0\.1:(\d+)/.exec(lines.join('\n'))?.[1];
    await eventually(() => assert.ok(found() ?? child.exitCode !== null, lines.join('\n')), 20_000);
    const localPort = Number(found() ?? 0);
    return { localPort, lines, child };
  }

  async function echoed(localPort: number, sent: Buffer): Promise<Buffer> {
    const socket = connect({ host: '127.0.0.1', port: localPort });
    socket.end(sent);
    return Buffer.concat((await socket.toArray()) as Buffer[]);
  }

  for (const isOld of [false, true]) {
    const way = isOld ? 'SPDY' : 'a websocket';
    test(`kubectl port-forward carries bytes both ways by ${way}, several connections at once, and their ends`, async () => {
      const { localPort, child } = await forward('own', port, isOld);
      const sent = Buffer.alloc(3 * 1024 * 1024, 'abcdefg');
      const heard = await Promise.all([1, 2, 3].map(() => echoed(localPort, sent)));
      for (const each of heard) assert.ok(each.equals(sent), `${each.length} of ${sent.length} bytes`);
      await eventually(() => assert.equal(connections.size, 0));
      child.kill();
    });

    test(`all that a server says before it ends the connection arrives by ${way}, though its client says nothing`, async () => {
      const said = Buffer.alloc(24 * 1024 * 1024, 'abcdefg');
      const talker = createServer((socket) => {
        socket.on('error', () => undefined);
        socket.end(said);
      });
      await once(talker.listen(0, podIP), 'listening');
      const { localPort, child } = await forward('own', (talker.address() as AddressInfo).port, isOld);
      for (let turn = 0; turn < 3; turn++) {
        const heard = Buffer.concat((await connect({ host: '127.0.0.1', port: localPort }).toArray()) as Buffer[]);
        assert.ok(heard.equals(said), `${heard.length} of ${said.length} bytes`);
      }
      talker.close();
      child.kill();
    });

    test(`a port on which nothing listens is told to kubectl by ${way}`, async () => {
      const { localPort, lines, child } = await forward('own', 1, isOld);
      connect({ host: '127.0.0.1', port: localPort }).on('error', () => undefined);
      await eventually(() => assert.match(lines.join('\n'), /port 1 of the guest \(127\.0\.0\.2\).*ECONNREFUSED/));
      child.kill();
    });

    test(`a client that is killed lets the guest's connection go, by ${way}`, async () => {
      const { localPort, child } = await forward('own', port, isOld);
      const socket = connect({ host: '127.0.0.1', port: localPort });
      socket.on('error', () => undefined);
      socket.write('x');
      await once(socket, 'data');
      assert.equal(connections.size, 1);
      child.kill('SIGKILL');
      await eventually(() => assert.equal(connections.size, 0));
    });
  }

  test('kubectl port-forward reaches a guest with user networking by its launcher, with its ends', async () => {
    const { localPort, child } = await forward('user', 22, false);
    const sent = Buffer.alloc(1024 * 1024, 'abcdefg');
    const heard = await echoed(localPort, sent);
    assert.ok(heard.equals(sent), `${heard.length} of ${sent.length} bytes`);
    child.kill();
  });

  for (const [name, expected] of [
    ['users', /it has no address of its own \(yet\), and no guest/],
    ['waiting', /pod is not running|it is Pending, not Running/],
    ['nobody', /pods "nobody" not found/],
  ] as const) {
    test(`kubectl is told why the ports of pod ${name} cannot be reached`, async () => {
      const { lines } = await forward(name, 22, true);
      await eventually(() => assert.match(lines.join('\n'), expected));
    });
  }

  /** A connection after the upgrade to SPDY. */
  async function upgraded(
    headers: readonly string[] = ['Upgrade: SPDY/3.1', 'X-Stream-Protocol-Version: portforward.k8s.io'],
  ) {
    const socket: TLSSocket = connectTls({
      host: server.hostname,
      port: Number(server.port),
      rejectUnauthorized: false,
    });
    socket.on('error', () => undefined);
    await once(socket, 'secureConnect');
    const lines = ['POST /api/v1/namespaces/default/pods/own/portforward HTTP/1.1', `Host: ${server.host}`];
    const all = [...lines, `Authorization: ${token}`, 'Connection: Upgrade', ...headers];
    socket.write(`${all.join('\r\n')}\r\n\r\n`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    return { socket, answer: String(answer) };
  }

  test('an upgrade to anything else is refused in words', async () => {
    const { answer } = await upgraded(['Upgrade: h2c']);
    assert.match(answer, /^HTTP\/1\.1 400 [\s\S]*as kubectl does$/);
  });

  for (const [what, bytes] of [
    ['bytes that are no frames', Buffer.alloc(64, 0xff)],
    [
      'headers that cannot be unpacked',
      Buffer.from('8003000100000012000000010000000000006e6f206865616465727321', 'hex'),
    ],
    ['a frame that is too large', Buffer.from('80030001ffffffff', 'hex')],
    ['a stream that is too short', Buffer.from('8003000100000002ffff', 'hex')],
  ] as const) {
    test(`${what}: that session ends, the server goes on`, async () => {
      const { socket, answer } = await upgraded();
      assert.match(answer, /^HTTP\/1\.1 101 /);
      const closed = once(socket, 'close');
      socket.resume();
      socket.write(bytes);
      await closed;
      assert.equal((await ApiClient.fromKubeconfig(agent.paths.kubeconfig).get(`${pods}/own`)).status, 200);
    });
  }
});
