import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { resources, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { askExplain } from '../../../src/standalone/cli/explain.ts';
import { type PemPair, serverCommonName } from '../../../src/tls/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { Cluster, embeddedApi, token } from '../../fixtures/controller/cluster.ts';
import { endProgram, ProgramDir, type RunningProgram, sampleOf } from '../../fixtures/controller/program.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { tlsRequest } from '../../fixtures/tls-request.ts';

/** What virt-controller serves on --port: health, leadership, metrics, with certificates that are renewed while it runs. */

let cluster: Cluster;
let program: ProgramDir;
let authority: TestAuthority;
let leader: RunningProgram;
let port: number;
let standbyPort: number;

const cert = (name: string) => `${program.dir}/${name}`;

function writePair(pair: PemPair): void {
  // As a kubelet and most programs do: whole files, put in the place of the old ones.
  for (const [name, text] of [['tls.crt', pair.cert] as const, ['tls.key', pair.key] as const]) {
    program.file(`${name}.new`, text);
    renameSync(cert(`${name}.new`), cert(name));
  }
}

const issue = (from = authority) => from.issue({ commonName: serverCommonName, usage: 'serverAuth' });

function argsOf(at: number): string[] {
  const kubeconfig = program.file(
    'kubeconfig',
    JSON.stringify({
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c' },
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: cluster.server } }],
      users: [{ name: 'u', user: { token } }],
    }),
  );
  const files = ['--prom-cert-file', cert('tls.crt'), '--prom-key-file', cert('tls.key')];
  return [
    '--kubeconfig',
    kubeconfig,
    '--listen',
    '127.0.0.1',
    '--port',
    String(at),
    ...files,
    '--standalone-scheduler',
  ];
}

async function ask(
  path: string,
  at = port,
  ca = authority,
): Promise<{ readonly status: number; readonly body: string }> {
  const answer = await tlsRequest({ port: at, client: undefined, ca: ca.pair.cert, path });
  return 'status' in answer ? answer : { status: 0, body: answer.refused };
}

before(async () => {
  program = await ProgramDir.make();
  authority = await TestAuthority.make();
  cluster = new Cluster(await embeddedApi());
  await cluster.addNode();
  port = await freePort();
  leader = program.start('one', [...argsOf(port), '--explain-socket', cert('explain.sock')]);
});
after(async () => {
  program.dispose();
  await cluster.stop();
  await authority.remove();
});

test('without a certificate it works, and serves as soon as there is one', async () => {
  await eventually(() => assert.match(leader.output, /virt-controller is at work/));
  assert.equal((await ask('/leader')).status, 0);
  writePair(await issue());
  await eventually(async () => assert.equal((await ask('/leader')).status, 200));
});

test('/healthz has upstream’s fields, /leader says who leads, and a replica that stands by is ready, too', async () => {
  const health = await ask('/healthz');
  assert.equal(health.status, 200);
  const { apiserver, 'config-resource-version': version } = JSON.parse(health.body);
  assert.deepEqual([apiserver.connectivity, typeof apiserver.version.gitVersion, version], ['ok', 'string', '']);
  standbyPort = await freePort();
  program.start('two', argsOf(standbyPort));
  await eventually(async () => assert.equal((await ask('/leader', standbyPort)).status, 200));
  assert.deepEqual(JSON.parse((await ask('/leader')).body), { apiserver: { leader: 'true' } });
  assert.deepEqual(JSON.parse((await ask('/leader', standbyPort)).body), { apiserver: { leader: 'false' } });
  assert.equal((await ask('/none')).status, 404);
});

test('metrics: the leader counts queues, phases and objects; who stands by has warm caches and no series of objects', async () => {
  const vmi = {
    ...{
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: { name: 'vm1', namespace: 'default' },
    },
    spec: { domain: { memory: { guest: '64Mi' } } },
  };
  const created = await cluster.client.create<VirtualMachineInstance>(resources.virtualMachineInstances, vmi);
  const pod = await cluster.untilPod(created.metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName === 'node1');
  await cluster.runPod(pod);
  await cluster.untilPhase('vm1', 'Scheduled');
  await eventually(async () => {
    const { body } = await ask('/metrics');
    const value = (series: string) => sampleOf(body, series);
    assert.equal(value('kubevirt_virt_controller_leading_status'), 1);
    assert.equal(value('kubevirt_virt_controller_ready_status'), 1);
    assert.equal(value('kubevirt_workqueue_depth{name="virt-controller-vmi"}'), 0);
    assert.ok((value('kubevirt_workqueue_adds_total{name="virt-controller-vmi"}') ?? 0) > 2);
    assert.ok((value('kubevirt_vmi_sync_total{namespace="default",name="vm1"}') ?? 0) > 2);
    assert.match(body, /^kubevirt_vmi_info\{.*name="vm1".*phase="scheduled".*vmi_pod="virt-launcher-vm1-/m);
    const scheduled = 'kubevirt_vmi_phase_transition_time_from_creation_seconds_count{phase="Scheduled"}';
    assert.equal(value(scheduled), 1);
    assert.equal(value('kubevirt_vmi_migrations_in_pending_phase'), 0);
  });
  await eventually(async () => {
    const { body } = await ask('/metrics', standbyPort);
    assert.equal(sampleOf(body, 'kubevirt_virt_controller_leading_status'), 0);
    assert.equal(sampleOf(body, 'kubevirt_virt_controller_ready_status'), 1);
    assert.equal(sampleOf(body, 'kubevirt_virt_controller_cached_objects{resource="virtualmachineinstances"}'), 1);
    assert.doesNotMatch(body, /name="vm1"/);
  });
});

test('explain: what was decided about nodes, with the sentence of the rule', async () => {
  const explained = (kind: string) =>
    askExplain({
      socket: cert('explain.sock'),
      kind: kind as 'node',
      name: 'node1',
      namespace: 'default',
      output: 'text',
    });
  await eventually(async () =>
    assert.match(await explained('node'), /^node node1\n.*\n.*No agent has ever been heard of/),
  );
  assert.match(await explained('evacuation'), /^evacuation node1\n.*\n.*No guest is to leave the node/);
});

test('a certificate of another authority is used without a restart, and half of one changes nothing', async () => {
  const { pid } = leader;
  const next = await TestAuthority.make();
  try {
    const pair = await issue(next);
    program.file('tls.crt', pair.cert);
    await stays(async () => assert.equal((await ask('/leader')).status, 200), 500);
    program.file('tls.key', pair.key);
    await eventually(async () => assert.equal((await ask('/leader', port, next)).status, 200));
    assert.equal((await ask('/leader')).status, 0, 'not the old one');
    assert.deepEqual([leader.pid, leader.exitCode], [pid, null]);
    const { body } = await ask('/metrics', port, next);
    const expires = sampleOf(body, 'kubevirt_virt_controller_certificate_expiration_timestamp_seconds') ?? 0;
    assert.ok(expires > Date.now() / 1000);
  } finally {
    await next.remove();
  }
});

test('the leader ends: the replica that stood by says that it leads', async () => {
  writePair(await issue());
  await eventually(async () => assert.equal((await ask('/leader', standbyPort)).status, 200));
  assert.equal(await endProgram(leader, 'SIGTERM'), 0, leader.output);
  await eventually(async () => {
    assert.deepEqual(JSON.parse((await ask('/leader', standbyPort)).body), { apiserver: { leader: 'true' } });
  });
});
