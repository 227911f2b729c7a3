import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { createWebSocketStream, WebSocket } from 'ws';
import { silentLogger } from '../../../src/base/index.ts';
import { loadKubeAccess } from '../../../src/kube/index.ts';
import { ApiProgram, openGuestPort, sshCall } from '../../../src/standalone/index.ts';
import { AgentStandIn } from '../../fixtures/agent-stand-in.ts';
import { ApiClient } from '../../fixtures/api-client.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { UserNetworkPod } from '../../fixtures/user-network-pod.ts';

const group = '/apis/subresources.kubevirt.io/v1/namespaces/default';
const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
const vms = '/apis/kubevirt.io/v1/namespaces/default/virtualmachines';
const pods = '/api/v1/namespaces/default/pods';
const spec = { domain: { devices: {}, memory: { guest: '64Mi' } } };
/** Of the pod that stands for the launcher's; the node is at 127.0.0.1. */
const podIP = '127.0.0.2';

describe('ports of guests by the standalone node’s API', () => {
  let agent: AgentStandIn;
  let program: ApiProgram;
  let launcher: UserNetworkPod;
  let admin: ApiClient;
  let server: string;
  let token: string;
  let tcpPort: number;
  let udpPort: number;
  const connections = new Set<unknown>();
  const tcp = createServer({ allowHalfOpen: true }, (guest) => {
    connections.add(guest);
    guest.once('close', () => connections.delete(guest));
    guest.on('error', () => undefined);
    guest.pipe(guest);
  });
  const udp = createSocket('udp4', (datagram, { port, address }) => udp.send(`got ${datagram}`, port, address));

  before(async () => {
    agent = await AgentStandIn.start();
    const options = { paths: agent.paths, host: '127.0.0.1', port: 0, nodeName: 'one', nodes: 1 };
    program = new ApiProgram(options, { log: silentLogger });
    await program.start();
    admin = ApiClient.fromKubeconfig(agent.paths.kubeconfig);
    const access = await loadKubeAccess({ kubeconfig: agent.paths.kubeconfig });
    server = access.server;
    token = String((await access.credentials.current()).headers.authorization);
    await once(tcp.listen(0, podIP), 'listening');
    tcpPort = (tcp.address() as AddressInfo).port;
    udp.bind(0, podIP);
    await once(udp, 'listening');
    udpPort = udp.address().port;
    await running('demo', podIP);
    const [podUid, vmiUid] = await running('user', '127.0.0.1');
    launcher = await UserNetworkPod.start(agent.paths, podUid, vmiUid);
    launcher.qemu.guest.set(22, 'echoes');
    await running('elsewhere', '127.0.0.1');
  });
  after(async () => {
    await launcher.stop();
    await program.stop();
    await agent.stop();
    tcp.close();
    udp.close();
  });

  /** A VM with a VMI that runs, and the launcher's pod at an address. The guest says that it is somewhere else. */
  async function running(name: string, address: string): Promise<readonly [podUid: string, vmiUid: string]> {
    const controller = ApiClient.fromKubeconfig(agent.paths.kubeconfigs['virt-controller']);
    const kubelet = ApiClient.fromKubeconfig(agent.paths.kubeconfigs.node);
    const head = { apiVersion: 'kubevirt.io/v1', metadata: { name } };
    await admin.post(vms, {
      ...head,
      kind: 'VirtualMachine',
      spec: { runStrategy: 'Always', template: { spec } },
    });
    const { body: vmi } = await admin.post(vmis, { ...head, kind: 'VirtualMachineInstance', spec });
    const { body: pod } = await controller.post(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: `virt-launcher-${name}`,
        labels: { 'kubevirt.io/created-by': vmi.metadata.uid, 'kubevirt.io': 'virt-launcher' },
      },
      spec: { nodeName: 'one', containers: [{ name: 'compute', image: 'i' }] },
    });
    const podStatus = { phase: 'Running', podIP: address, hostIP: '127.0.0.1' };
    const patched = await kubelet.patch(`${pods}/virt-launcher-${name}/status`, 'merge', { status: podStatus });
    assert.equal(patched.status, 200, patched.text);
    const status = {
      phase: 'Running',
      nodeName: 'one',
      activePods: { [pod.metadata.uid]: 'one' },
      interfaces: [{ name: 'default', ipAddress: '127.0.0.3' }],
    };
    await controller.patch(`${vmis}/${name}`, 'merge', { status });
    return [pod.metadata.uid, vmi.metadata.uid];
  }

  function connect(path: string, headers: Record<string, string> = { authorization: token }): WebSocket {
    const url = `${server.replace('https', 'wss')}${group}/${path}`;
    const socket = new WebSocket(url, ['plain.kubevirt.io'], { headers, rejectUnauthorized: false });
    socket.on('error', () => undefined);
    return socket;
  }

  async function refused(path: string, headers?: Record<string, string>) {
    const [, answer] = (await once(connect(path, headers), 'unexpected-response')) as [unknown, IncomingMessage];
    return { status: answer.statusCode, text: String(await answer.toArray()) };
  }

  test('bytes of TCP pass both ways, by the VMI and by the VM, at the pod’s address', async () => {
    for (const path of [
      `virtualmachineinstances/demo/portforward/${tcpPort}`,
      `virtualmachines/demo/portforward/${tcpPort}/tcp`,
    ]) {
      const socket = connect(path);
      await once(socket, 'open');
      assert.equal(socket.protocol, 'plain.kubevirt.io');
      const stream = createWebSocketStream(socket);
      const sent = Buffer.alloc(3 * 1024 * 1024, 'abcdefg');
      const heard: Buffer[] = [];
      stream.on('data', (piece: Buffer) => heard.push(piece));
      for (let from = 0; from < sent.length; from += 65_536) stream.write(sent.subarray(from, from + 65_536));
      await eventually(() => assert.equal(Buffer.concat(heard).length, sent.length));
      assert.ok(Buffer.concat(heard).equals(sent));
      stream.end();
      await once(socket, 'close');
      await eventually(() => assert.equal(connections.size, 0));
    }
  });

  test('the way that virt-node ssh goes carries the same bytes, and says why there is none', async () => {
    const { signal } = new AbortController();
    const open = (name: string, port: number) =>
      openGuestPort(agent.paths, { namespace: 'default', name }, port, signal);
    const stream = await open('demo', tcpPort);
    stream.write('x');
    assert.equal(String((await once(stream, 'data'))[0]), 'x');
    stream.destroy();
    await assert.rejects(open('demo', 1), { code: 'GUEST_PORT', message: /port 1 of the guest .*ECONNREFUSED/ });
    await assert.rejects(open('nobody', 22), { code: 'NOT_FOUND', message: /"nobody" not found/ });
  });

  test('virt-node ssh to a guest in which no server listens says what to do', async () => {
    const wish = { namespace: 'default', name: 'demo', user: 'root', identity: process.execPath, port: 1, remote: [] };
    const deps = { self: [], report: () => undefined };
    await assert.rejects(sshCall(agent.paths, wish, deps, new AbortController().signal), {
      code: 'GUEST_PORT',
      message: /port 1 of the guest .*is an SSH server installed in the guest.*virt-node console demo/,
    });
  });

  for (const [what, guest, message] of [
    ['is busy', () => undefined, /has not said what it is within 0\.2 s: is the guest busy.*virt-node console demo/],
    [
      'ends it at once',
      (each: Socket) => each.end(),
      /ended the connection without a word: is the guest busy.*console/,
    ],
    ['is another one', (each: Socket) => each.end('220 mail\r\n'), /is no SSH server: is an SSH server installed/],
  ] as const) {
    test(`virt-node ssh to a server that ${what} says so, and what to do`, async (t) => {
      const other = createServer((each) => {
        each.on('error', () => undefined);
        guest(each);
      });
      t.after(() => other.close());
      await once(other.listen(0, podIP), 'listening');
      const { port } = other.address() as AddressInfo;
      const wish = { namespace: 'default', name: 'demo', user: 'root', identity: process.execPath, port, remote: [] };
      const deps = { self: [], report: () => undefined, bannerMs: 200 };
      await assert.rejects(sshCall(agent.paths, wish, deps, t.signal), { code: 'GUEST_PORT', message });
    });
  }

  test('a port of a guest with user networking is joined by its launcher, and no port of the machine stays open', async () => {
    const { signal } = new AbortController();
    const stream = await openGuestPort(agent.paths, { namespace: 'default', name: 'user' }, 22, signal);
    stream.write('through the launcher');
    assert.equal(String((await once(stream, 'data'))[0]), 'through the launcher');
    assert.deepEqual(launcher.qemu.forwards, []);
    stream.destroy();
  });

  test('a message of UDP is a datagram', async () => {
    const socket = connect(`virtualmachineinstances/demo/portforward/${udpPort}/udp`);
    await once(socket, 'open');
    for (const text of ['one', 'two']) {
      const heard = once(socket, 'message');
      socket.send(Buffer.from(text));
      assert.equal(String((await heard)[0]), `got ${text}`);
    }
    socket.close();
    await once(socket, 'close');
  });

  test('what cannot be reached is refused in words', async () => {
    const at = (name: string, below: string) => `virtualmachineinstances/${name}/portforward/${below}`;
    for (const [path, status, message] of [
      [at('demo', '1'), 502, /port 1 of the guest \(127\.0\.0\.2\) does not answer: .*ECONNREFUSED/],
      [at('user', '23'), 502, /port 23 of the guest does not answer: nothing listens there/],
      [
        at('user', '22/udp'),
        409,
        /with user networking ports of TCP are forwarded.*list them in interfaces\[\]\.ports/,
      ],
      [at('elsewhere', '22'), 502, /the launcher of the guest does not run on this machine/],
      [at('nobody', '22'), 404, /"nobody\\?" not found/],
      ['virtualmachines/nobody/portforward/22', 404, /virtualmachines.kubevirt.io \\?"nobody\\?" not found/],
      [at('demo', '0'), 400, /is no port/],
      [at('demo', '65536'), 400, /is no port/],
      [at('demo', '22/sctp'), 400, /is no protocol/],
    ] as const) {
      const answer = await refused(path);
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.text, message);
    }
    assert.match((await admin.get(`${group}/${at('demo', '22')}`)).text, /this is a websocket/);
  });

  test('the right is that of upstream’s roles, without the port', async () => {
    const handler = await loadKubeAccess({ kubeconfig: agent.paths.kubeconfigs['virt-handler'] });
    const { headers } = await handler.credentials.current();
    const path = `virtualmachineinstances/demo/portforward/${tcpPort}`;
    const answer = await refused(path, { authorization: String(headers.authorization) });
    assert.equal(answer.status, 403);
    assert.match(answer.text, /resource \\?"virtualmachineinstances\/portforward\\?"/);
    assert.equal((await refused(path, {})).status, 401);
    assert.equal(connections.size, 0);
  });

  test('the API ends while a port is forwarded, and the guest’s side ends with it', async () => {
    const socket = connect(`virtualmachineinstances/demo/portforward/${tcpPort}`);
    await once(socket, 'open');
    await eventually(() => assert.equal(connections.size, 1));
    const closed = once(socket, 'close');
    await program.stop();
    await closed;
    await eventually(() => assert.equal(connections.size, 0));
  });
});
