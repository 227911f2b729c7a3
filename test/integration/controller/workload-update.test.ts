import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findCondition, resources, type VirtualMachine } from '../../../src/api/index.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';
import { MigrationPlay } from '../../fixtures/controller/migration-play.ts';
import { eventually } from '../../fixtures/eventually.ts';

/** CPUs and memory that a VM gets while it runs come with a migration, which the controller makes; agents are scripted. */

let cluster: Cluster;
let play: MigrationPlay;
const vms = resources.virtualMachines;

before(async () => {
  cluster = new Cluster(await embeddedApi());
  for (const name of ['node1', 'node2']) {
    const cpu = ['host-model-cpu', 'cpu-model-migration'].map((kind) => [`${kind}.node.kubevirt.io/Penryn`, 'true']);
    const own = { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': name };
    await cluster.addNode(name, { ...own, ...Object.fromEntries(cpu) });
  }
  await cluster.client.create(resources.kubevirts, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'KubeVirt',
    metadata: { name: 'kubevirt', namespace: 'default' },
    spec: { workloadUpdateStrategy: { workloadUpdateMethods: ['LiveMigrate'] } },
  } as never);
  const status = { status: { phase: 'Deployed' } };
  const ref = { name: 'kubevirt', namespace: 'default' };
  await cluster.client.patch(resources.kubevirts, ref, status, 'merge', { subresource: 'status' });
  await cluster.startController();
  play = new MigrationPlay(cluster);
});
after(() => cluster.stop());

async function runningVm(name: string): Promise<void> {
  await cluster.client.create(vms, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name, namespace: 'default' },
    spec: {
      runStrategy: 'Always',
      template: {
        spec: {
          architecture: 'amd64',
          domain: { cpu: { sockets: 1, maxSockets: 4 }, memory: { guest: '1Gi', maxGuest: '4Gi' } },
        },
      },
    },
  } as never);
  const { metadata } = await cluster.untilVmi(name, 'there', () => true);
  await cluster.runPod(await cluster.untilPod(metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName !== undefined));
  await cluster.untilPhase(name, 'Scheduled');
  const conditions = [{ type: 'LiveMigratable', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }];
  await play.report(name, { phase: 'Running', conditions, selinuxContext: 'none' });
  await cluster.untilPhase(name, 'Running');
}

const updatesOf = async (name: string) => {
  const { items } = await cluster.client.list<Awaited<ReturnType<typeof play.migrate>>>(resources.migrations, {
    namespace: 'default',
  });
  return items.filter(
    ({ metadata, spec }) => spec.vmiName === name && metadata.name.startsWith('kubevirt-workload-update-'),
  );
};

async function updateOf(name: string) {
  let found: Awaited<ReturnType<typeof updatesOf>> = [];
  await eventually(async () => {
    found = await updatesOf(name);
    assert.equal(found.length, 1);
  }, 30_000);
  return found[0] ?? assert.fail();
}

test('CPUs and memory of a changed template come with one migration to a larger pod, and the VMI has them', async () => {
  await runningVm('grows');
  const template = { spec: { domain: { cpu: { sockets: 2 }, memory: { guest: '2Gi' } } } };
  await cluster.client.patch<VirtualMachine>(
    vms,
    { name: 'grows', namespace: 'default' },
    { spec: { template } },
    'merge',
  );
  for (const type of ['HotVCPUChange', 'HotMemoryChange']) {
    await cluster.untilVmi('grows', type, ({ status }) => findCondition(status?.conditions, type)?.status === 'True');
  }
  const update = await updateOf('grows');
  assert.deepEqual(
    [update.spec.priority, update.metadata.annotations],
    ['user-triggered', { 'kubevirt.io/workloadUpdateMigration': '' }],
  );
  const pod = await play.target(update, 'bound', ({ spec }) => spec.nodeName === 'node2');
  const requests = pod.spec.containers.find(({ name }) => name === 'compute')?.resources as {
    requests?: Record<string, string>;
  };
  await cluster.runPod(pod);
  await play.untilPhase(update.metadata.name, 'PreparingTarget');
  const shown = await cluster.untilVmi('grows', 'shown', ({ status }) => Boolean(status?.migrationState?.targetNode));
  const label = shown.metadata.labels?.['kubevirt.io/vmi-pod-memory-resource-requests'];
  assert.equal(label, requests.requests?.memory);
  assert.ok(Number.parseInt(label ?? '', 10) > 0);
  await play.finish('grows', update.metadata.name, pod);
  // The guest has arrived; its CPUs and memory are plugged in last.
  await play.untilPhase(update.metadata.name, 'Running');
  const { status } = await cluster.untilVmi('grows', 'there', () => true);
  const left = (status?.conditions ?? []).filter(({ type }) => !type.startsWith('Hot'));
  const memory = { guestRequested: '2Gi', guestCurrent: '2Gi' };
  await play.report('grows', { conditions: left, currentCPUTopology: { sockets: 2 }, memory });
  await play.untilPhase(update.metadata.name, 'Succeeded');
  const vmi = await cluster.untilVmi('grows', 'grown', () => true);
  assert.equal(findCondition(vmi.status?.conditions, 'HotVCPUChange'), undefined);
  assert.equal((await updatesOf('grows')).length, 1);
});

test('a migration whose reason is gone before the guest arrives is cancelled', async () => {
  await runningVm('shrinks');
  // Of the conditions that call for a migration this is the one that no controller here sets or takes away.
  const condition = { type: 'VolumesChange', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' };
  const { status } = await cluster.untilVmi('shrinks', 'there', () => true);
  await play.report('shrinks', { conditions: [...(status?.conditions ?? []), condition] });
  const update = await updateOf('shrinks');
  const later = await cluster.untilVmi('shrinks', 'there', () => true);
  const conditions = later.status?.conditions?.filter(({ type }) => type !== 'VolumesChange');
  await play.report('shrinks', { conditions });
  await cluster.untilGone(resources.migrations, update.metadata.name);
  await cluster.untilEvent('shrinks', 'SuccessfulChangeAbortion');
});
