import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  findCondition,
  type Pod,
  resources,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../../src/api/index.ts';
import { KubeError } from '../../../src/kube/index.ts';
import { Cluster, embeddedApi, token } from '../../fixtures/controller/cluster.ts';
import { MigrationPlay } from '../../fixtures/controller/migration-play.ts';

/** What virt-api does for `kubectl drain`, `virtctl migrate` and `virtctl evacuate-cancel`, in the embedded API, with the controllers behind it. */

let cluster: Cluster;
let play: MigrationPlay;

before(async () => {
  cluster = new Cluster(await embeddedApi());
  for (const name of ['node1', 'node2']) {
    const labels = { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': name };
    await cluster.addNode(name, {
      ...labels,
      'host-model-cpu.node.kubevirt.io/Penryn': 'true',
      'cpu-model-migration.node.kubevirt.io/Penryn': 'true',
    });
  }
  await cluster.startController();
  play = new MigrationPlay(cluster);
});
after(() => cluster.stop());

const vmi = (name: string) =>
  cluster.client.get<VirtualMachineInstance>(resources.virtualMachineInstances, { namespace: 'default', name });

async function launcherOf(name: string): Promise<Pod> {
  const [pod] = await cluster.pods((await vmi(name)).metadata.uid ?? '');
  return pod ?? assert.fail(`no launcher of ${name}`);
}

/** What the API server answers to an eviction; undefined: it is done. */
async function evict({ metadata }: Pod, more: object = {}): Promise<{ status: number; message: string } | undefined> {
  const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: metadata.name, ...more } };
  try {
    await cluster.client.createSubresource(resources.pods, metadata, 'eviction', body);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof KubeError);
    return { status: error.httpStatus ?? 0, message: error.message };
  }
}

async function ask(path: string, body: object = {}): Promise<number> {
  const at = `/apis/subresources.kubevirt.io/v1/namespaces/default/${path}`;
  const response = await fetch(`${cluster.server}${at}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return response.status;
}

async function vmOf(name: string): Promise<void> {
  await cluster.client.create(resources.virtualMachines, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name, namespace: 'default' },
    spec: { runStrategy: 'Manual', template: { spec: { domain: { memory: { guest: '64Mi' } } } } },
  } as never);
}

test('an evicted guest that can migrate moves: 429 until it has, then the old pod is no concern any more', async () => {
  await play.guest('evicted');
  const pod = await launcherOf('evicted');
  const first = await evict(pod);
  assert.equal(first?.status, 429);
  assert.match(first?.message ?? '', /Eviction triggered evacuation of VMI "default\/evicted"/);
  assert.equal((await vmi('evicted')).status?.evacuationNodeName, 'node1');
  const again = await evict(pod);
  assert.match(again?.message ?? '', /Evacuation in progress: Eviction triggered evacuation/);
  const { metadata } = await play.evacuationOf('evicted');
  const migration = await play.untilPhase(metadata.name, 'Scheduling');
  const target = await play.target(migration, 'bound', ({ spec }) => spec.nodeName === 'node2');
  await cluster.runPod(target);
  await play.untilPhase(metadata.name, 'PreparingTarget');
  await play.finish('evicted', metadata.name, target);
  await play.untilPhase(metadata.name, 'Succeeded');
  assert.equal(await evict(pod), undefined);
  assert.equal((await vmi('evicted')).status?.nodeName, 'node2');
});

test('an eviction by the descheduler is less urgent, and an eviction for show marks nothing', async () => {
  await play.guest('descheduled');
  const pod = await launcherOf('descheduled');
  const annotations = { 'requested-by': 'sigs.k8s.io/descheduler' };
  const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: pod.metadata.name, annotations } };
  const dry = cluster.client.createSubresource(resources.pods, pod.metadata, 'eviction', {
    ...body,
    deleteOptions: { dryRun: ['All'] },
  });
  await assert.rejects(dry, /Eviction triggered evacuation/);
  assert.equal((await vmi('descheduled')).status?.evacuationNodeName, undefined);
  assert.equal((await evict(pod, { annotations }))?.status, 429);
  const { spec } = await play.evacuationOf('descheduled');
  assert.equal(spec.priority, 'system-maintenance');
  assert.equal((await vmi('descheduled')).metadata.annotations?.['kubevirt.io/eviction-source'], 'descheduler');
});

test('a guest that cannot migrate blocks the eviction by name; one without a strategy, or that need not move, is shut down', async () => {
  const condition = { type: 'LiveMigratable', status: 'False', reason: 'DisksNotLiveMigratable', message: 'disk0' };
  for (const [name, evictionStrategy] of Object.entries({
    blocks: 'LiveMigrate',
    goes: 'LiveMigrateIfPossible',
    none: 'None',
  })) {
    await play.guest(name, { evictionStrategy });
    await play.report(name, { conditions: [condition] });
  }
  const refused = await evict(await launcherOf('blocks'));
  assert.equal(refused?.status, 429);
  assert.match(refused?.message ?? '', /VMI blocks is configured with an eviction strategy but is not live-migratable/);
  for (const name of ['goes', 'none']) {
    const pod = await launcherOf(name);
    assert.equal(await evict(pod), undefined);
    await cluster.untilGone(resources.pods, pod.metadata.name, { orEnding: true });
  }
});

test('a VM is migrated by its sub-resource while it runs, once at a time, and an evacuation can be cancelled', async () => {
  await vmOf('asked');
  assert.equal(await ask('virtualmachines/asked/migrate'), 404);
  assert.equal(await ask('virtualmachines/nobody/migrate'), 404);
  await play.guest('asked');
  assert.equal(await ask('virtualmachines/asked/migrate', { dryRun: ['All'] }), 202);
  assert.equal(await ask('virtualmachines/asked/migrate', { addedNodeSelector: { nowhere: 'true' } }), 202);
  const { items } = await cluster.client.list<VirtualMachineInstanceMigration>(resources.migrations, {
    labelSelector: 'kubevirt.io/vmi-name=asked',
  });
  assert.equal(items.length, 1);
  const [migration] = items;
  assert.match(migration?.metadata.name ?? '', /^kubevirt-migrate-vm-/);
  assert.deepEqual(migration?.spec, { vmiName: 'asked', addedNodeSelector: { nowhere: 'true' } });
  assert.equal(await ask('virtualmachines/asked/migrate'), 400);
  const noted = await play.untilMigration(migration?.metadata.name ?? '', 'unschedulable', ({ status }) =>
    Boolean(findCondition(status?.conditions, 'migrationTargetPodUnschedulable')),
  );
  assert.equal(noted.status?.phase, 'Pending');
  await play.report('asked', { evacuationNodeName: 'node1' });
  assert.equal(await ask('virtualmachineinstances/asked/evacuate/cancel', { evacuationNodeName: 'node9' }), 409);
  assert.equal(await ask('virtualmachines/asked/evacuate/cancel', { evacuationNodeName: 'node1' }), 200);
  assert.equal((await vmi('asked')).status?.evacuationNodeName, undefined);
  await play.report('asked', { phase: 'Scheduled' });
  assert.equal(await ask('virtualmachines/asked/migrate'), 409);
});
