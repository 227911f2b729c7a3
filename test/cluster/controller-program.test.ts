import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { type KubeObject, resources, type VirtualMachineInstance } from '../../src/api/index.ts';
import { loadKubeAccess } from '../../src/kube/index.ts';
import { Cluster } from '../fixtures/controller/cluster.ts';
import { endProgram, ProgramDir, type RunningProgram } from '../fixtures/controller/program.ts';
import { eventually, stays } from '../fixtures/eventually.ts';
import { FaultProxy } from '../fixtures/fault-proxy.ts';
import { startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/**
 * virt-controller as two replicas of daemonset/controller, under its service account and with no right beyond the role there, on a real
 * kube-apiserver: which one works when the other one ends, is killed, is stopped for a while, or loses the lease. Each replica asks by
 * a proxy of its own, which sees what it writes.
 */

interface Replica {
  readonly name: string;
  readonly proxy: FaultProxy;
  program: RunningProgram;
}

const leases = { group: 'coordination.k8s.io', version: 'v1', resource: 'leases', kind: 'Lease', namespaced: true };
const lease = { namespace: 'kubevirt', name: 'virt-controller' };

let cluster: Cluster;
let programs: ProgramDir;
const replicas: Replica[] = [];

before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  const server = await startKubeApiserver(assets);
  const access = await loadKubeAccess({ kubeconfig: server.adminKubeconfig });
  cluster = new Cluster({ access, stop: () => server.stop() });
  server.kubectl('apply', '-k', 'daemonset/controller');
  const token = server.kubectl('create', 'token', 'kubevirt-controller', '-n', 'kubevirt').trim();
  programs = await ProgramDir.make();
  await cluster.addNode();
  for (const name of ['controller-a', 'controller-b']) {
    const proxy = await FaultProxy.start({ server: access.server });
    programs.file(
      name,
      JSON.stringify({
        ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c' },
        contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
        clusters: [{ name: 'c', cluster: { server: proxy.url } }],
        users: [{ name: 'u', user: { token } }],
      }),
    );
    replicas.push({ name, proxy, program: start(name) });
    await untilFollowed(replicas.at(-1) as Replica);
  }
});
after(async () => {
  programs?.dispose();
  for (const { proxy } of replicas) await proxy.stop();
  await cluster?.stop();
});

function start(name: string): RunningProgram {
  return programs.start(name, ['--kubeconfig', `${programs.dir}/${name}`, '--port', '0', '-v', '4']);
}

async function holder(): Promise<string> {
  const found = await cluster.client.get<KubeObject & { spec: { holderIdentity: string } }>(leases, lease);
  return found.spec.holderIdentity;
}

/** Who leads, and who stands by. */
async function roles(): Promise<{ readonly leader: Replica; readonly standby: Replica }> {
  const name = await holder();
  const [leader, standby] = [...replicas].sort((one) => (one.name === name ? -1 : 1));
  assert.ok(leader?.name === name && standby, `${name} leads`);
  return { leader, standby };
}

/** The caches of a replica are warm: it has asked for its last kind, and for the lease. */
async function untilFollowed({ proxy, program }: Replica): Promise<void> {
  await eventually(() => {
    const asked = proxy.requests.some(({ resource, code }) => resource === 'leases' && code > 0);
    assert.ok(asked, program.output.slice(-2_000));
  });
}

/** Of objects: leases are how it is found out who may, and events say what has happened. */
const writesOf = ({ proxy }: Replica) =>
  proxy.requests.filter(
    ({ kind, resource }) => !['get', 'list', 'watch'].includes(kind) && !['leases', 'events'].includes(resource),
  );

async function createVmi(name: string): Promise<VirtualMachineInstance> {
  return cluster.client.create<VirtualMachineInstance>(resources.virtualMachineInstances, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name, namespace: 'default' } },
    spec: { domain: { memory: { guest: '64Mi' }, devices: { autoattachPodInterface: false } } },
  });
}

const podOf = ({ metadata }: VirtualMachineInstance) => cluster.untilPod(metadata.uid ?? '', 'made', () => true);

/** A replica that ended is back, as a Deployment brings it. */
async function startAgain(replica: Replica): Promise<void> {
  const asked = replica.proxy.requests.length;
  replica.program = start(replica.name);
  await eventually(() => {
    const lately = replica.proxy.requests.slice(asked);
    assert.ok(
      lately.some(({ resource, code }) => resource === 'leases' && code === 200),
      replica.program.output,
    );
  });
}

test('one of two replicas works, and who stands by has its caches filled and writes nothing', async () => {
  const pod = await podOf(await createVmi('first'));
  const target = { apiVersion: 'v1', kind: 'Node', name: 'node1' };
  const { name, namespace } = pod.metadata;
  const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name, namespace }, target };
  await cluster.client.createSubresource(resources.pods, pod.metadata, 'binding', binding);
  await cluster.runPod({ ...pod, spec: { ...pod.spec, nodeName: 'node1' } });
  await cluster.untilPhase('first', 'Scheduled');
  const { leader, standby } = await roles();
  assert.ok(writesOf(leader).length > 3);
  assert.deepEqual(writesOf(standby), []);
  const listed = standby.proxy.requests.filter(({ kind }) => kind === 'list').map(({ resource }) => resource);
  for (const resource of ['virtualmachines', 'virtualmachineinstances', 'pods', 'nodes'])
    assert.ok(listed.includes(resource), `${resource} is in the cache of who stands by`);
});

test('SIGTERM: the lease changes hands within a second, and the other one makes the next pod', async () => {
  const { leader, standby } = await roles();
  const startedMs = performance.now();
  const ended = endProgram(leader.program, 'SIGTERM');
  await eventually(async () => assert.equal(await holder(), standby.name));
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs < 1_000, `${Math.round(tookMs)} ms`);
  await podOf(await createVmi('second'));
  assert.ok(performance.now() - startedMs < 5_000);
  assert.equal(await ended, 0, leader.program.output.slice(-2_000));
  await startAgain(leader);
});

test('kill -9 of the leader: the next pod is made within 17 seconds', async () => {
  const { leader, standby } = await roles();
  await endProgram(leader.program, 'SIGKILL');
  const startedMs = performance.now();
  await podOf(await createVmi('third'));
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs < 17_000, `${Math.round(tookMs)} ms`);
  assert.equal(await holder(), standby.name);
  await startAgain(leader);
});

test('a leader that was stopped until another one led writes nothing when it goes on, and ends', async () => {
  const { leader, standby } = await roles();
  leader.program.kill('SIGSTOP');
  const vmi = await createVmi('fourth');
  await podOf(vmi);
  assert.equal(await holder(), standby.name);
  const written = writesOf(leader).length;
  // What it would do, had it not lost the lease.
  await cluster.client.delete(resources.virtualMachineInstances, vmi.metadata);
  const exit = once(leader.program, 'exit');
  leader.program.kill('SIGCONT');
  const [code] = await exit;
  assert.equal(code, 1);
  assert.match(leader.program.output, /the lease was lost: virt-controller ends, and another one leads/);
  assert.deepEqual(writesOf(leader).slice(written), []);
  await cluster.untilGone(resources.virtualMachineInstances, 'fourth');
  await startAgain(leader);
});

test('a lease that names another process: the leader ends within its time to look, and nobody works until that one’s time is over', async () => {
  const { leader, standby } = await roles();
  const exit = once(leader.program, 'exit');
  await cluster.client.patch(leases, lease, { spec: { holderIdentity: 'thief' } }, 'merge');
  const [code] = await exit;
  assert.equal(code, 1);
  const counts = () => [leader, standby].map((replica) => writesOf(replica).length);
  const before = counts();
  const vmi = await createVmi('fifth');
  await stays(() => assert.deepEqual(counts(), before), 5_000);
  await podOf(vmi);
  assert.equal(await holder(), standby.name);
});

test('nothing that the replicas asked for was forbidden: the role of daemonset/controller is enough', () => {
  const asked = replicas.flatMap(({ proxy }) => proxy.requests);
  assert.ok(asked.length > 100);
  const refused = asked.filter(({ code }) => code === 401 || code === 403);
  assert.deepEqual(
    refused.map(({ kind, path, code }) => `${code} ${kind} ${path}`),
    [],
  );
});
