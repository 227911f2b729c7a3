import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import http from 'node:http';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { EndpointSlice, Endpoints, Service } from '../../../src/api/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { GuestDial } from '../../../src/standalone/guest-dial.ts';
import { ApiProgram, Sandboxes } from '../../../src/standalone/index.ts';
import { PodNetwork } from '../../../src/standalone/pod-network/index.ts';
import { NodeServices } from '../../../src/standalone/services/index.ts';
import { Program } from '../../../src/standalone/supervisor/program.ts';
import { AgentStandIn } from '../../fixtures/agent-stand-in.ts';
import { ApiClient } from '../../fixtures/api-client.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { Kubectl } from '../../fixtures/kubectl.ts';
import { OwnNetwork } from '../../fixtures/own-network.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'networks and pods take root';
const services = '/api/v1/namespaces/default/services';
const pods = '/api/v1/namespaces/default/pods';

/** Says its name by TCP and UDP, and asks others on behalf of who asks. */
const server = (name: string) => `
const http = require('node:http');
http.createServer((request, response) => {
  const target = new URL(request.url, 'http://x').searchParams.get('ask');
  if (!target) return response.end('${name}');
  const asked = http.get(target, { timeout: 1500, agent: false }, (answer) => answer.pipe(response));
  asked.on('timeout', () => asked.destroy(new Error('timeout')));
  asked.on('error', (error) => response.end('failed ' + (error.code ?? error.message)));
}).listen(8080, '::');
const udp = require('node:dgram').createSocket('udp4', (text, { port, address }) => udp.send('${name}', port, address));
udp.bind(5353);
`;

describe('Services of the standalone node, with real pods and packets', { skip: needsRoot }, () => {
  const world = needsRoot ? undefined : new OwnNetwork();
  let dir: string;
  let agent: AgentStandIn;
  let program: ApiProgram;
  let client: KubeClient;
  let admin: ApiClient;
  let sandboxes: Sandboxes;
  let network: PodNetwork;
  let controller: NodeServices;
  const addresses = new Map<string, string>();

  before(async () => {
    world?.enter();
    process.umask(0o077);
    dir = await mkdtemp(path.join(tmpdir(), 'services-'));
    // The DNS server is no root.
    await chmod(dir, 0o755);
    agent = await AgentStandIn.start();
    const options = { paths: agent.paths, host: '127.0.0.1', port: 0, nodeName: 'one', nodes: 1 };
    program = new ApiProgram(options, { log: silentLogger });
    await program.start();
    admin = ApiClient.fromKubeconfig(agent.paths.kubeconfig);
    const access = await loadKubeAccess({ kubeconfig: agent.paths.kubeconfig });
    client = new KubeClient({ userAgent: 'test' }, { access });
    const [podsDir, libvirtCacheDir] = [path.join(dir, 'pods'), path.join(dir, 'cache')];
    sandboxes = new Sandboxes({ podsDir, libvirtCacheDir, cgroupRoot: undefined, programs: [process.execPath] });
    network = new PodNetwork(
      { wish: 'auto', stateDir: dir, dir: path.join(dir, 'network'), sharedDir: path.join(dir, 'shared') },
      {
        dns: (argv) =>
          new Program(
            {
              name: 'dnsmasq',
              argv,
              env: process.env,
              logFile: path.join(dir, 'dns.log'),
              pidFile: path.join(dir, 'dns.pid'),
            },
            { log: silentLogger },
          ),
        isRunning: async (uid) => ['running', 'starting'].includes((await sandboxes.inspect(uid)).kind),
        log: silentLogger,
      },
    );
    await network.start();
    controller = new NodeServices({ client, network, dial: new GuestDial(async () => undefined), log: silentLogger });
    await controller.start();
    for (const name of ['one', 'two']) await startPod(name);
  });
  after(async () => {
    await controller?.stop();
    for (const uid of (await sandboxes?.list()) ?? []) await end(uid);
    await network?.stop();
    client?.close();
    await program?.stop();
    await agent?.stop();
    world?.remove();
    await rm(dir, { recursive: true, force: true });
  });

  async function startPod(name: string): Promise<void> {
    const kubelet = ApiClient.fromKubeconfig(agent.paths.kubeconfigs.node);
    const { body } = await admin.post(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, labels: { app: 'web' } },
      spec: { nodeName: 'one', containers: [{ name: 'compute', image: 'i' }] },
    });
    const uid: string = body.metadata.uid;
    const link = await network.join(uid, name, 'default');
    assert.ok(link, network.summary);
    await mkdir(path.join(dir, 'pods', uid), { recursive: true });
    await sandboxes.start({
      ...{ uid, namespace: 'default', name, env: {}, mounts: [], kvm: 'fails', network: link },
      argv: [process.execPath, '-e', server(name)],
      logFile: path.join(dir, 'logs', `${uid}.log`),
    });
    const podIP = network.addressesOf(uid)[0] ?? '';
    addresses.set(name, podIP);
    await eventually(async () => assert.equal(await ask(podIP, 8080), name), 15_000);
    const status = { phase: 'Running', podIP, hostIP: '127.0.0.1', conditions: [{ type: 'Ready', status: 'True' }] };
    const patched = await kubelet.patch(`${pods}/${name}/status`, 'merge', { status });
    assert.equal(patched.status, 200, patched.text);
  }

  async function end(uid: string): Promise<void> {
    await sandboxes.kill(uid);
    await eventually(async () => assert.ok(!['running', 'starting'].includes((await sandboxes.inspect(uid)).kind)));
    await sandboxes.remove(uid);
  }

  /** What answers there; without keeping the connection, for each is another pod's. */
  function ask(host: string, port: number, target?: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const query = target ? `?ask=${encodeURIComponent(target)}` : '';
      const asked = http.get(`http://${host}:${port}/${query}`, { agent: false, timeout: 3_000 }, (answer) => {
        answer.toArray().then((pieces) => resolve(Buffer.concat(pieces).toString()), reject);
      });
      asked.on('timeout', () => asked.destroy(new Error('timeout')));
      asked.on('error', reject);
    });
  }

  async function askUdp(host: string, port: number): Promise<string> {
    const socket = createSocket('udp4');
    try {
      socket.send('x', port, host);
      const [text] = (await once(socket, 'message', { signal: AbortSignal.timeout(3_000) })) as [Buffer];
      return String(text);
    } finally {
      socket.close();
    }
  }

  async function create(name: string, spec: object): Promise<void> {
    const made = await admin.post(services, { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec });
    assert.equal(made.status, 201, made.text);
  }

  async function specOf(name: string): Promise<NonNullable<Service['spec']>> {
    const { body } = await admin.get(`${services}/${name}`);
    assert.ok(body.spec.clusterIP, JSON.stringify(body.spec));
    return body.spec;
  }

  const web = { selector: { app: 'web' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }] };

  test('the machine and pods reach the pods by the Service’s address, by TCP and UDP, one pod or the other', async () => {
    const dns = { name: 'dns', port: 53, targetPort: 5353, protocol: 'UDP' };
    await create('web', { ...web, ports: [...web.ports, dns] });
    let address = '';
    await eventually(async () => {
      address = (await specOf('web')).clusterIP ?? '';
      assert.match(await ask(address, 80), /^(one|two)$/);
    }, 15_000);
    const heard = new Set<string>();
    await eventually(async () => {
      heard.add(await ask(address, 80));
      assert.equal(heard.size, 2);
    });
    assert.match(await askUdp(address, 53), /^(one|two)$/);
    const fromPod = () => ask(addresses.get('one') ?? '', 8080, `http://${address}/`);
    await eventually(async () => assert.equal(await fromPod(), 'two'));
    // Where bridges call the packet filter, as with container engines, a pod does not reach itself so.
    const setting = '/proc/sys/net/bridge/bridge-nf-call-iptables';
    const [file, args] = world?.machine.command('sh', '-c', `test ! -e ${setting} || echo 0 >${setting}`) ?? [
      'false',
      [],
    ];
    execFileSync(file, args);
    for (const name of ['one', 'two']) await eventually(async () => assert.equal(await fromPod(), name));
  });

  test('kubectl shows its pods: in EndpointSlices, which follow readiness, and in its description', async () => {
    const kubectl = new Kubectl(agent.paths.kubeconfig, dir);
    const [one, two] = ['one', 'two'].map((name) => addresses.get(name) ?? '');
    const listed = await kubectl.run(['get', 'endpointslices', '-l', 'kubernetes.io/service-name=web', '--no-headers']);
    assert.match(listed, new RegExp(`^web-\\w{5} +IPv4 +8080,5353 +${one},${two} +\\d+s$`, 'm'));
    assert.match(await kubectl.run(['describe', 'service', 'web']), new RegExp(`Endpoints: +${one}:8080,${two}:8080`));
    const kubelet = ApiClient.fromKubeconfig(agent.paths.kubeconfigs.node);
    const setReady = async (status: string) =>
      kubelet.patch(`${pods}/two/status`, 'merge', { status: { conditions: [{ type: 'Ready', status }] } });
    const readiness = async () => {
      const { body } = await admin.get('/apis/discovery.k8s.io/v1/namespaces/default/endpointslices');
      const slices = (body.items as EndpointSlice[]).filter(({ metadata }) => metadata.name.startsWith('web-'));
      return slices.flatMap(({ endpoints }) => endpoints.map(({ conditions }) => conditions.ready));
    };
    await setReady('False');
    await eventually(async () => assert.deepEqual(await readiness(), [true, false]));
    await setReady('True');
    await eventually(async () => assert.deepEqual(await readiness(), [true, true]));
  });

  test('pods find it by name; its pods are its Endpoints', async () => {
    const byName = () => ask(addresses.get('one') ?? '', 8080, 'http://web.default.svc.vm.internal/');
    await eventually(async () => assert.match(await byName(), /^(one|two)$/), 10_000);
    const { body } = await admin.get('/api/v1/namespaces/default/endpoints/web');
    const found = (body as Endpoints).subsets?.[0]?.addresses?.map(({ ip }) => ip);
    assert.deepEqual(found, [addresses.get('one'), addresses.get('two')]);
  });

  test('what the Service does not have is refused at once, to the machine and to pods', async () => {
    const { clusterIP = '' } = await specOf('web');
    await assert.rejects(ask(clusterIP, 81), { code: 'ECONNREFUSED' });
    assert.equal(await ask(addresses.get('one') ?? '', 8080, `http://${clusterIP}:81/`), 'failed ECONNREFUSED');
  });

  test('a node port answers on the loopback address, and not to others', async () => {
    await create('node', { ...web, type: 'NodePort' });
    let nodePort = 0;
    await eventually(async () => {
      nodePort = (await specOf('node')).ports?.[0]?.nodePort ?? 0;
      assert.match(await ask('127.0.0.1', nodePort), /^(one|two)$/);
    }, 10_000);
    const outside = `http://198.51.100.2:${nodePort}/`;
    const [file, args] = world?.outside.command('timeout', '3', 'curl', '-s', '--max-time', '2', outside) ?? [
      'false',
      [],
    ];
    assert.throws(() => execFileSync(file, args, { stdio: 'pipe' }));
  });

  test('pods do not reach the machine’s own loopback address by it', async () => {
    const own = http.createServer((_request, response) => response.end('secret')).listen(0, '127.0.0.1');
    await once(own, 'listening');
    const port = (own.address() as { port: number }).port;
    const gateway = (addresses.get('one') ?? '').replace(/\d+$/, '1');
    for (const host of ['127.0.0.1', gateway]) {
      assert.match(await ask(addresses.get('one') ?? '', 8080, `http://${host}:${port}/`), /^failed/);
    }
    own.close();
  });

  test('a node port that a program of the machine has is told in an event, and the program keeps it', async () => {
    const own = createServer((socket) => socket.end('mine')).listen(30_123, '127.0.0.1');
    await once(own, 'listening');
    await create('taken', { ...web, type: 'NodePort', ports: [{ port: 80, targetPort: 8080, nodePort: 30_123 }] });
    await eventually(async () => {
      const { body } = await admin.get('/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dtaken');
      assert.match(JSON.stringify(body.items), /NodePortUnavailable.*a program of this machine listens there/);
    }, 10_000);
    const heard = await connect(30_123, '127.0.0.1').toArray();
    assert.equal(Buffer.concat(heard).toString(), 'mine');
    own.close();
  });

  test('a pod that goes is no endpoint any more; a Service that is deleted takes all along', async () => {
    const kubelet = ApiClient.fromKubeconfig(agent.paths.kubeconfigs.node);
    const status = { status: { phase: 'Succeeded' } };
    await kubelet.patch(`${pods}/two/status`, 'merge', status);
    const { clusterIP = '' } = await specOf('web');
    await eventually(async () => {
      const { body } = await admin.get('/api/v1/namespaces/default/endpoints/web');
      assert.equal((body as Endpoints).subsets?.[0]?.addresses?.length, 1);
    });
    await eventually(async () => {
      for (const _each of [1, 2, 3, 4, 5, 6]) assert.equal(await ask(clusterIP, 80), 'one');
    });
    await admin.delete(`${services}/web`);
    await eventually(async () => {
      await assert.rejects(ask(clusterIP, 80), { code: 'ECONNREFUSED' });
      assert.equal((await admin.get('/api/v1/namespaces/default/endpoints/web')).status, 404);
      const { body } = await admin.get('/apis/discovery.k8s.io/v1/endpointslices');
      assert.ok((body.items as EndpointSlice[]).every(({ metadata }) => !metadata.name.startsWith('web-')));
    }, 10_000);
  });

  test('with the network go its rules and routes', async () => {
    const { address = '' } = network.serviceRange ?? {};
    await controller.stop();
    for (const uid of await sandboxes.list()) await end(uid);
    await network.stop();
    assert.equal(execFileSync('nft', ['list', 'tables'], { encoding: 'utf8' }), '');
    assert.ok(address !== '' && !execFileSync('ip', ['route'], { encoding: 'utf8' }).includes(address));
  });
});
