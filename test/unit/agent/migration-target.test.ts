import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MigrationState, VirtualMachineInstance } from '../../../src/api/index.ts';
import { domainOf, key, node, uid, vmiOf } from '../../fixtures/agent/builders.ts';
import type { FakeLauncher } from '../../fixtures/agent/fake-launchers.ts';
import type { FakeWorld } from '../../fixtures/agent/fake-world.ts';
import { settle } from '../../fixtures/fake-clock.ts';
import { type Loop, markDeleted, startLoop } from './agent-loop.ts';

type Arriving = { loop: Loop; launcher: FakeLauncher };
type TestContext = Parameters<typeof startLoop>[0];

const targetLabel = 'kubevirt.io/migrationTargetNodeName';
const nodeLabel = 'kubevirt.io/nodeName';
const handedOff: MigrationState = {
  migrationUid: 'm1',
  sourceNode: 'node2',
  targetNode: node,
  sourcePod: 'pod-2',
  targetPod: 'pod-1',
};

/** A VMI of node2 that its migration controller has handed to this node. */
function incoming(state: MigrationState = handedOff): VirtualMachineInstance {
  const vmi = vmiOf('Running', {
    status: { nodeName: 'node2', activePods: { 'pod-1': node, 'pod-2': 'node2' }, launcherContainerImageVersion: 'v1' },
  });
  vmi.metadata.labels = { [nodeLabel]: 'node2', [targetLabel]: node, 'kubevirt.io/outdatedLauncherImage': '' };
  vmi.metadata.annotations = { 'kubevirt.io/eviction-source': 'descheduler', kept: 'yes' };
  vmi.status = { ...vmi.status, migrationState: structuredClone(state), evacuationNodeName: 'node2' };
  return vmi;
}

/** Up to the point where the source may begin. */
async function prepared(t: TestContext, setUp: (world: FakeWorld) => void = () => undefined): Promise<Arriving> {
  const loop = await startLoop(t, setUp);
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(incoming());
  await settle();
  return { loop, launcher };
}

async function change({ loop }: { loop: Loop }, more: MigrationState): Promise<void> {
  loop.api.change(key, (vmi) => {
    vmi.status = { ...vmi.status, migrationState: { ...vmi.status?.migrationState, ...more } };
  });
  await settle();
}

/** The source's agent says that it has begun. */
const begin = (arriving: Arriving) =>
  change(arriving, { startTimestamp: arriving.loop.launchers.migration.now(), mode: 'PreCopy' });

async function arrive(arriving: Arriving): Promise<void> {
  const { loop, launcher } = arriving;
  await begin(arriving);
  loop.launchers.migration.arrives(launcher, 'm1');
  await settle();
  loop.launchers.migration.resumes(launcher);
  await settle();
}

/** As the source and the migration controller report a failure. */
const fail = (arriving: { loop: Loop }, failureReason = 'Target pod is down') => {
  const now = arriving.loop.launchers.migration.now();
  return change(arriving, { startTimestamp: now, endTimestamp: now, failed: true, completed: true, failureReason });
};

const stored = (loop: Loop) => loop.api.stored(key);
const stateOf = (loop: Loop): MigrationState => stored(loop)?.status?.migrationState ?? {};
const labelsOf = (loop: Loop): Record<string, string> => stored(loop)?.metadata.labels ?? {};
const messages = (loop: Loop, reason: string) =>
  loop.events.filter((event) => event.reason === reason).map(({ message }) => message);
const countOf = ({ calls }: FakeLauncher, name: string) => calls.filter((call) => call === name).length;

test('a guest arrives: prepared, published, seen, handed over, finalized, cleaned up, and served as any other', async (t) => {
  const arriving = await prepared(t);
  const { loop, launcher } = arriving;
  assert.equal(countOf(launcher, 'sync-target'), 1);
  assert.deepEqual(stateOf(loop).targetDirectMigrationNodePorts, { '40000': 0, '40001': 49_152 });
  assert.equal(stateOf(loop).targetNodeAddress, '10.0.0.1');
  assert.deepEqual(messages(loop, 'PreparingTarget'), [
    'VirtualMachineInstance Migration Target Prepared.',
    'Migration Target is listening at 10.0.0.1, on ports: 40000,40001',
  ]);
  assert.equal(loop.api.puts.length, 1, 'one write so far');
  await begin(arriving);
  loop.launchers.migration.arrives(launcher, 'm1');
  await settle();
  assert.equal(stateOf(loop).targetNodeDomainDetected, true);
  assert.equal(stateOf(loop).targetNodeDomainReadyTimestamp, undefined);
  assert.equal(labelsOf(loop)[nodeLabel], 'node2', 'not this node’s before the guest runs here');
  loop.launchers.migration.resumes(launcher);
  await settle();
  assert.equal(stateOf(loop).targetNodeDomainReadyTimestamp, loop.launchers.migration.now());
  assert.equal(stateOf(loop).completed, true);
  assert.equal(stateOf(loop).failed, undefined);
  assert.equal(labelsOf(loop)[nodeLabel], node);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
  assert.equal(stored(loop)?.status?.nodeName, node);
  assert.equal(stored(loop)?.status?.migrationTransport, 'Unix');
  assert.equal(stored(loop)?.status?.launcherContainerImageVersion, undefined);
  assert.equal(stored(loop)?.status?.evacuationNodeName, undefined);
  assert.deepEqual(stored(loop)?.metadata.annotations, { kept: 'yes' });
  assert.deepEqual(messages(loop, 'Migrated'), [`The VirtualMachineInstance migrated to node ${node}.`]);
  assert.deepEqual(launcher.calls, ['sync-target', 'finalize', 'sync']);
  assert.equal(loop.relays.targets.size, 0, 'its streams are closed');
  assert.equal(loop.rules().at(-1), 'steady');
});

test('the hand-over is one write: owner, end and everything that goes with it', async (t) => {
  const { loop, launcher } = await prepared(t);
  await arrive({ loop, launcher });
  const owners = loop.api.puts.map((vmi) => [vmi.metadata.labels?.[nodeLabel], vmi.status?.nodeName]);
  const at = owners.findIndex(([owner]) => owner === node);
  assert.deepEqual(owners.slice(0, at), Array(at).fill(['node2', 'node2']));
  const handOver = loop.api.puts[at];
  assert.equal(handOver?.status?.nodeName, node);
  assert.ok(handOver?.status?.migrationState?.endTimestamp);
  assert.equal(handOver?.status?.migrationState?.completed, undefined);
  assert.equal(handOver?.metadata.labels?.[targetLabel], node, 'in sight of this node all the time');
  assert.equal(handOver?.metadata.labels?.['kubevirt.io/outdatedLauncherImage'], undefined);
});

test('a guest that arrives between two looks is detected, ready and handed over in one write', async (t) => {
  const { loop, launcher } = await prepared(t);
  const before = loop.api.puts.length;
  await change({ loop }, { startTimestamp: loop.launchers.migration.now() });
  launcher.domain = domainOf('Running', 'Unknown', { UID: uid });
  loop.launchers.migration.note(launcher, { UID: 'm1', EndTimestamp: loop.launchers.migration.now() });
  await settle();
  const written = loop.api.puts[before]?.status;
  assert.equal(written?.migrationState?.targetNodeDomainDetected, true);
  assert.ok(written?.migrationState?.targetNodeDomainReadyTimestamp);
  assert.equal(written?.nodeName, node);
});

test('mirrors in targetState are written where it exists, and it is not made where it does not', async (t) => {
  const loop = await startLoop(t);
  loop.launchers.run(key, uid);
  loop.api.apply(incoming({ ...handedOff, targetState: { pod: 'pod-1' } }));
  await settle();
  assert.deepEqual(stateOf(loop).targetState, {
    pod: 'pod-1',
    nodeAddress: '10.0.0.1',
    directMigrationNodePorts: { '40000': 0, '40001': 49_152 },
  });
  const other = await prepared(t);
  assert.equal(stateOf(other.loop).targetState, undefined);
});

test('a block migration gets a stream for its disks', async (t) => {
  const loop = await startLoop(t);
  loop.launchers.run(key, uid);
  const vmi = incoming();
  loop.api.apply({ ...vmi, status: { ...vmi.status, migrationMethod: 'BlockMigration' } });
  await settle();
  assert.deepEqual(Object.values(stateOf(loop).targetDirectMigrationNodePorts ?? {}), [0, 49_152, 49_153]);
});

test('an agent that is started again before the guest leaves publishes its new ports and none of the old', async (t) => {
  const { loop, launcher } = await prepared(t);
  loop.relays.targets.clear();
  await loop.restart();
  assert.deepEqual(stateOf(loop).targetDirectMigrationNodePorts, { '40002': 0, '40003': 49_152 });
  assert.equal(countOf(launcher, 'sync-target'), 2);
  await arrive({ loop, launcher });
  assert.equal(labelsOf(loop)[nodeLabel], node);
});

test('an agent that is started again while the guest is on its way touches nothing and hands over when it is here', async (t) => {
  const arriving = await prepared(t);
  const { loop, launcher } = arriving;
  await begin(arriving);
  loop.launchers.migration.arrives(launcher, 'm1');
  await settle();
  loop.relays.targets.clear();
  await loop.restart();
  assert.equal(countOf(launcher, 'sync-target'), 1);
  assert.deepEqual(loop.released, []);
  loop.launchers.migration.resumes(launcher);
  await settle();
  assert.equal(labelsOf(loop)[nodeLabel], node);
  assert.equal(stateOf(loop).completed, true);
});

test('an agent that is started again after the arrival hands the guest over that it finds, even when it is leaving', async (t) => {
  const arriving = await prepared(t);
  const { loop, launcher } = arriving;
  await begin(arriving);
  await loop.dispatcher.stop();
  loop.launchers.migration.arrives(launcher, 'm1');
  loop.launchers.migration.resumes(launcher);
  loop.relays.targets.clear();
  loop.relays.refuse('virt-handler is leaving');
  await loop.restart(false);
  assert.equal(labelsOf(loop)[nodeLabel], node);
  assert.equal(stateOf(loop).failed, undefined);
});

test('a failed migration is taken back: streams, the pod is told, host, records, label; never the guest’s phase', async (t) => {
  const { loop, launcher } = await prepared(t);
  await fail({ loop });
  assert.equal(loop.relays.targets.size, 0);
  assert.equal(countOf(launcher, 'signal-cleanup'), 1);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`]);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
  assert.equal(labelsOf(loop)[nodeLabel], 'node2');
  assert.equal(loop.phase(), 'Running');
  assert.equal(loop.launchers.get(key), undefined, 'no ghost record is left');
  assert.equal(loop.dispatcher.remembered, 0, 'nothing is remembered of it');
  assert.equal(countOf(launcher, 'kill') + countOf(launcher, 'delete') + countOf(launcher, 'shutdown'), 0);
});

test('a target pod that is gone does not hold up the clean-up of its failed migration', async (t) => {
  const { loop, launcher } = await prepared(t);
  loop.launchers.die(launcher);
  await settle();
  assert.equal(loop.relays.targets.size, 0, 'streams to a dead launcher are closed');
  await fail({ loop });
  assert.equal(labelsOf(loop)[targetLabel], undefined);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`]);
});

test('a target launcher that hangs does not hold up the label of its failed migration', async (t) => {
  const { loop, launcher } = await prepared(t);
  loop.launchers.setView(key, uid, { kind: 'unknown', uid, reason: 'no answer', sinceMs: 0, seenMs: 0 });
  launcher.mode = 'hangs';
  await fail({ loop });
  assert.equal(labelsOf(loop)[targetLabel], node, 'it gets a moment');
  await loop.clock.pass(90_000);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
  assert.deepEqual(loop.released, [], 'nothing is taken away under a launcher that cannot be asked');
  loop.launchers.die(launcher);
  await loop.clock.pass(60_000);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`], 'its end is awaited by the rules for orphans');
});

test('fault 14: streams of a VMI that is deleted while its target is prepared are closed, and nothing of it is left', async (t) => {
  const { loop, launcher } = await prepared(t);
  assert.equal(loop.relays.targets.size, 1);
  markDeleted(loop);
  await settle();
  assert.equal(loop.relays.targets.size, 0);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`]);
  assert.equal(countOf(launcher, 'kill') + countOf(launcher, 'shutdown'), 0);
  loop.api.remove(key);
  await loop.clock.pass(10_000);
  assert.equal(loop.launchers.get(key), undefined);
  assert.equal(loop.dispatcher.remembered, 0);
});

test('fault 14: streams of a VMI that vanishes from the API server altogether are closed, too', async (t) => {
  const { loop } = await prepared(t);
  loop.api.remove(key);
  await loop.clock.pass(10_000);
  assert.equal(loop.relays.targets.size, 0);
  assert.equal(loop.relays.open, 0);
});

test('a VMI that is deleted right when its guest arrives is adopted first, and then shut down in peace', async (t) => {
  const arriving = await prepared(t);
  const { loop, launcher } = arriving;
  await begin(arriving);
  loop.launchers.migration.arrives(launcher, 'm1');
  await settle();
  const arrivedDomain = domainOf('Running', 'Unknown', { UID: uid });
  loop.launchers.become(launcher, arrivedDomain);
  markDeleted(loop);
  await settle();
  assert.equal(loop.relays.targets.size, 1, 'its last pages still come');
  loop.launchers.migration.note(launcher, { UID: 'm1', EndTimestamp: loop.launchers.migration.now() });
  await settle();
  assert.equal(stored(loop)?.status?.nodeName, node);
  assert.equal(countOf(launcher, 'shutdown'), 1);
  assert.equal(loop.phase(), 'Succeeded');
});

test('a guest that arrives and is shut down before anybody looked gets its final phase here', async (t) => {
  const arriving = await prepared(t);
  const { loop, launcher } = arriving;
  await begin(arriving);
  launcher.domain = domainOf('Shutoff', 'Shutdown', { UID: uid });
  loop.launchers.migration.note(launcher, { UID: 'm1', EndTimestamp: loop.launchers.migration.now() });
  await settle();
  assert.equal(stored(loop)?.status?.nodeName, node);
  assert.equal(loop.phase(), 'Succeeded');
});

test('a guest that arrives paused by an I/O error is this node’s, not a failed migration', async (t) => {
  const arriving = await prepared(t);
  const { loop, launcher } = arriving;
  await begin(arriving);
  launcher.domain = domainOf('Paused', 'IOError', { UID: uid });
  loop.launchers.migration.note(launcher, { UID: 'm1', EndTimestamp: loop.launchers.migration.now() });
  await settle();
  assert.equal(labelsOf(loop)[nodeLabel], node);
  assert.equal(stateOf(loop).failed, undefined);
});

test('a migration that the target’s launcher calls over without a guest has failed', async (t) => {
  const arriving = await prepared(t);
  const { loop, launcher } = arriving;
  await begin(arriving);
  launcher.domain = domainOf('Shutoff', 'Destroyed', { UID: uid });
  loop.launchers.migration.note(launcher, { UID: 'm1', EndTimestamp: loop.launchers.migration.now() });
  await settle();
  assert.equal(stateOf(loop).failed, true);
  assert.equal(stateOf(loop).completed, true);
  assert.equal(labelsOf(loop)[nodeLabel], 'node2');
  assert.equal(loop.phase(), 'Running');
});

test('a node that cannot carry streams fails the migration in words, and does not leave it hanging', async (t) => {
  const { loop, launcher } = await prepared(t, (world) => world.relays.refuse('live migration is not built in'));
  assert.equal(stateOf(loop).failed, true);
  assert.equal(stateOf(loop).completed, true);
  assert.ok(stateOf(loop).startTimestamp && stateOf(loop).endTimestamp);
  assert.match(stateOf(loop).failureReason ?? '', /live migration is not built in/);
  assert.match(
    messages(loop, 'Migrated')[0] ?? '',
    /migration uid m1 failed. reason:node node1: live migration is not/,
  );
  assert.equal(countOf(launcher, 'sync-target'), 0);
  assert.equal(countOf(launcher, 'signal-cleanup'), 1, 'its pod may go');
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

test('a guest with dedicated CPUs: the source is told which CPUs its pod has here, and the node’s topology', async (t) => {
  const topology = [
    {
      id: 0,
      memory: { amount: 8, unit: 'KiB' },
      pages: [],
      distances: [{ id: 0, value: 10 }],
      cpus: [{ id: 1, siblings: [1] }],
    },
  ];
  const loop = await startLoop(t, ({ ports }) => Object.assign(ports.host, { cpuSet: () => [2, 3, 8], topology }));
  loop.launchers.run(key, uid);
  const vmi = incoming();
  vmi.spec.domain = { ...vmi.spec.domain, cpu: { dedicatedCpuPlacement: true } };
  loop.api.apply(vmi);
  await settle();
  assert.deepEqual(stateOf(loop).targetCPUSet, [2, 3, 8]);
  assert.deepEqual(JSON.parse(String(stateOf(loop).targetNodeTopology)), {
    numa_cells: [{ memory: { amount: 8, unit: 'KiB' }, distances: [{ value: 10 }], cpus: [{ id: 1, siblings: [1] }] }],
  });
  assert.equal(loop.api.puts.length, 1, 'in the same write as the ports, and once');
});

test('a guest with dedicated CPUs fails in words where nobody can tell which CPUs its pod has', async (t) => {
  const loop = await startLoop(t);
  loop.launchers.run(key, uid);
  const vmi = incoming();
  vmi.spec.domain = { ...vmi.spec.domain, cpu: { dedicatedCpuPlacement: true } };
  loop.api.apply(vmi);
  await loop.clock.pass(200_000);
  assert.match(stateOf(loop).failureReason ?? '', /cannot tell which CPUs/);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

test('a launcher that refuses to prepare is asked again, then the migration fails with its words', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.refusals['sync-target'] = Array(20).fill('live migration is not supported');
  loop.api.apply(incoming());
  await loop.clock.pass(12_000);
  assert.equal(countOf(launcher, 'sync-target'), 3);
  assert.equal(stateOf(loop).failed, undefined);
  assert.equal(messages(loop, 'SyncFailed').length, 1);
  await loop.clock.pass(30_000);
  assert.equal(stateOf(loop).failed, true);
  assert.match(stateOf(loop).failureReason ?? '', /live migration is not supported/);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

test('a launcher that refuses once is prepared at the second try', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.refusals['sync-target'] = ['the disk is not there yet'];
  loop.api.apply(incoming());
  await loop.clock.pass(10_000);
  assert.equal(countOf(launcher, 'sync-target'), 2);
  assert.ok(stateOf(loop).targetNodeAddress);
});

test('streams that cannot be opened are told, tried again, and in the end fail the migration', async (t) => {
  const { loop } = await prepared(t, (world) => {
    world.relays.openError = new Error('no port is free');
  });
  assert.deepEqual(messages(loop, 'SyncFailed'), ['no port is free']);
  await loop.clock.pass(200_000);
  assert.match(stateOf(loop).failureReason ?? '', /no port is free/);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

test('a second migration after a failed one closes what the first one opened and prepares anew', async (t) => {
  const { loop } = await prepared(t);
  loop.api.change(key, (vmi) => {
    vmi.status = { ...vmi.status, migrationState: { ...handedOff, migrationUid: 'm2', targetPod: 'pod-3' } };
  });
  await settle();
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`], 'the first attempt is cleaned up');
  assert.deepEqual(stateOf(loop).targetDirectMigrationNodePorts, { '40002': 0, '40003': 49_152 });
  assert.equal(loop.relays.targets.size, 1);
});

test('a VMI that left this node comes back: nothing of its earlier stay is in the way', async (t) => {
  const { loop, launcher } = await prepared(t);
  await arrive({ loop, launcher });
  loop.launchers.become(launcher, domainOf('Shutoff', 'Migrated', { UID: uid }));
  loop.api.change(key, (vmi) => {
    vmi.metadata.labels = { [nodeLabel]: 'node2' };
    vmi.status = { ...vmi.status, nodeName: 'node2' };
  });
  await loop.clock.pass(1_000);
  assert.equal(countOf(launcher, 'delete'), 1);
  assert.equal(loop.launchers.get(key), undefined);
  const again = loop.launchers.run(key, uid);
  loop.api.apply({ ...incoming({ ...handedOff, migrationUid: 'm2' }) });
  await settle();
  await begin({ loop, launcher: again });
  loop.launchers.migration.arrives(again, 'm2');
  loop.launchers.migration.resumes(again);
  await settle();
  assert.deepEqual(again.calls, ['sync-target', 'finalize', 'sync']);
  assert.equal(stored(loop)?.status?.nodeName, node);
});

test('a VMI that another writer changes at the hand-over is handed over all the same', async (t) => {
  const { loop, launcher } = await prepared(t);
  loop.api.conflicts = 3;
  await arrive({ loop, launcher });
  assert.equal(labelsOf(loop)[nodeLabel], node);
  assert.equal(stateOf(loop).completed, true);
});

test('an API server that is away delays the hand-over and loses nothing', async (t) => {
  const { loop, launcher } = await prepared(t);
  await begin({ loop, launcher });
  loop.api.failPuts = 4;
  loop.launchers.migration.arrives(launcher, 'm1');
  loop.launchers.migration.resumes(launcher);
  await loop.clock.pass(5_000);
  assert.equal(labelsOf(loop)[nodeLabel], node);
  assert.equal(stateOf(loop).completed, true);
});

test('a finalisation that fails is tried again, and the guest’s own end does not wait for it', async (t) => {
  const { loop, launcher } = await prepared(t);
  launcher.refusals.finalize = Array(50).fill('busy');
  await arrive({ loop, launcher });
  assert.equal(stateOf(loop).completed, undefined);
  assert.match(loop.condition('Synchronized')?.message ?? '', /busy/);
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown', { UID: uid }));
  await settle();
  assert.equal(loop.phase(), 'Succeeded');
});

test('CPUs and memory that waited for the larger pod are plugged in once, and what was wanted is written', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  const vmi = incoming();
  const domain = { ...vmi.spec.domain, cpu: { sockets: 2, cores: 1, threads: 1 }, memory: { guest: '2Gi' } };
  vmi.spec = { ...vmi.spec, domain };
  Object.assign(vmi.metadata.labels ?? {}, {
    'kubevirt.io/vmi-pod-memory-resource-requests': '2400Mi',
    'kubevirt.io/memory-hotplug-overhead-ratio': '1.0',
  });
  const hot = ['HotVCPUChange', 'HotMemoryChange', 'VolumesChange', 'MigrationRequired'];
  vmi.status = {
    ...vmi.status,
    conditions: hot.map((type) => ({ type, status: 'True' })),
    migratedVolumes: [{ volumeName: 'root' }],
    memory: { guestRequested: '1Gi', guestAtBoot: '1Gi' },
  };
  loop.api.apply(vmi);
  await settle();
  await arrive({ loop, launcher });
  assert.deepEqual(launcher.calls, ['sync-target', 'sync-cpus', 'sync-memory', 'finalize', 'sync']);
  const status = stored(loop)?.status;
  assert.deepEqual(status?.currentCPUTopology, { sockets: 2, cores: 1, threads: 1 });
  assert.equal(status?.memory?.guestRequested, '2Gi');
  assert.equal(status?.memory?.guestAtBoot, '1Gi');
  assert.equal(status?.migratedVolumes, undefined);
  assert.deepEqual(
    hot.filter((type) => loop.condition(type)),
    [],
  );
  assert.deepEqual(Object.keys(labelsOf(loop)), [nodeLabel]);
});

test('memory that cannot be plugged in is told by condition and event, and the migration is over all the same', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.refusals['sync-memory'] = ['no slot'];
  const vmi = incoming();
  vmi.spec = { ...vmi.spec, domain: { ...vmi.spec.domain, memory: { guest: '2Gi' } } };
  Object.assign(vmi.metadata.labels ?? {}, { 'kubevirt.io/vmi-pod-memory-resource-requests': '3Gi' });
  vmi.status = { ...vmi.status, conditions: [{ type: 'HotMemoryChange', status: 'True' }] };
  loop.api.apply(vmi);
  await settle();
  await arrive({ loop, launcher });
  const { status, reason, message } = loop.condition('HotMemoryChange') ?? {};
  assert.deepEqual(
    { status, reason, message },
    {
      status: 'False',
      reason: 'Memory Hotplug Failed',
      message: 'memory hotplug failed, the VM configuration is not supported',
    },
  );
  assert.equal(messages(loop, 'HotPlugFailed').length, 1);
  assert.equal(stateOf(loop).completed, true);
});

test('memory that the pod has no room for is never asked of the launcher', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  const vmi = incoming();
  vmi.spec = { ...vmi.spec, domain: { ...vmi.spec.domain, memory: { guest: '2Gi' } } };
  Object.assign(vmi.metadata.labels ?? {}, { 'kubevirt.io/vmi-pod-memory-resource-requests': '1Gi' });
  vmi.status = { ...vmi.status, conditions: [{ type: 'HotMemoryChange', status: 'True' }] };
  loop.api.apply(vmi);
  await settle();
  await arrive({ loop, launcher });
  assert.equal(countOf(launcher, 'sync-memory'), 0);
  assert.equal(loop.condition('HotMemoryChange'), undefined);
  assert.match(messages(loop, 'HotPlugFailed')[0] ?? '', /the pod has/);
});

test('a post-copy migration that breaks is the owner’s to end: nothing is cleaned up before', async (t) => {
  const arriving = await prepared(t);
  const { loop, launcher } = arriving;
  await begin(arriving);
  launcher.domain = domainOf('Paused', 'PostcopyFailed', { UID: uid });
  loop.launchers.migration.note(launcher, { UID: 'm1', EndTimestamp: loop.launchers.migration.now() });
  await loop.clock.pass(10_000);
  assert.equal(stateOf(loop).failed, true);
  assert.equal(countOf(launcher, 'signal-cleanup'), 0);
  loop.api.change(key, (vmi) => {
    vmi.status = { ...vmi.status, phase: 'Failed' };
  });
  await settle();
  assert.equal(countOf(launcher, 'signal-cleanup'), 1);
});

test('a VMI of another cluster’s migration is told of and not touched', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(incoming({ ...handedOff, sourceState: { syncAddress: '10.1.1.1:9185' }, targetState: {} }));
  await loop.clock.pass(60_000);
  assert.deepEqual(launcher.calls, []);
  assert.equal(loop.api.puts.length, 0);
  assert.equal(messages(loop, 'MigrationNotSupported').length, 1);
});

test('a VMI that waits for a guest of another cluster, with a node of this name, is told of once and not for ever', async (t) => {
  const loop = await startLoop(t);
  loop.launchers.run(key, uid);
  const vmi = vmiOf('Scheduled');
  vmi.metadata.annotations = { 'kubevirt.io/create-migration-target': 'true' };
  const sides = { sourceState: { syncAddress: '10.1.1.1:9185' }, targetState: {} };
  vmi.status = { ...vmi.status, migrationState: { migrationUid: 'm1', sourceNode: node, ...sides } };
  loop.api.apply(vmi);
  await loop.clock.pass(30_000);
  assert.equal(messages(loop, 'MigrationNotSupported').length, 1);
  assert.equal(loop.phase(), 'Scheduled');
});

test('a steady target costs no call and no write', async (t) => {
  const { loop, launcher } = await prepared(t);
  const { length } = loop.api.puts;
  const calls = launcher.calls.length;
  for (let touch = 0; touch < 5; touch++) {
    loop.api.change(key, ({ metadata }) => {
      metadata.annotations = { ...metadata.annotations, touched: String(touch) };
    });
    await settle();
  }
  assert.equal(loop.api.puts.length, length);
  assert.equal(launcher.calls.length, calls);
});

const stages = ['handed to this node', 'prepared', 'begun', 'seen here', 'running here'] as const;

/** The story of a migration up to and with a stage; `then` runs right after that stage, before the agent has looked. */
async function playUpTo(t: TestContext, stage: number, then: (loop: Loop) => Promise<void>): Promise<Arriving> {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  const { migration } = loop.launchers;
  const acts: readonly (() => unknown)[] = [
    () => loop.api.apply(incoming()),
    settle,
    () => begin({ loop, launcher }),
    () => migration.arrives(launcher, 'm1'),
    () => migration.resumes(launcher),
  ];
  for (const [at, act] of acts.entries()) {
    await act();
    if (at === stage) await then(loop);
  }
  await loop.clock.pass(5_000);
  return { loop, launcher };
}

const accidents: readonly (readonly [what: string, happens: (loop: Loop) => Promise<void>])[] = [
  ['the agent is started again', (loop) => loop.restart()],
  ['the agent is started again and has lost its records', (loop) => loop.restart(false)],
  [
    'a write is lost and the agent is started again',
    async (loop) => {
      loop.api.failPuts = 1;
      await settle();
      await loop.restart();
    },
  ],
  [
    'the agent is started again without its streams',
    async (loop) => {
      loop.relays.targets.clear();
      await loop.restart();
    },
  ],
  [
    'others write five times',
    async (loop) => {
      loop.api.conflicts = 5;
    },
  ],
];

for (const [at, stage] of stages.entries()) {
  for (const [what, happens] of accidents) {
    test(`a guest arrives all the same when ${what} while it is ${stage}`, async (t) => {
      const { loop, launcher } = await playUpTo(t, at, happens);
      assert.equal(labelsOf(loop)[nodeLabel], node, loop.rules().join());
      assert.equal(labelsOf(loop)[targetLabel], undefined);
      assert.equal(stateOf(loop).completed, true);
      assert.equal(stateOf(loop).failed, undefined);
      assert.equal(loop.phase(), 'Running');
      assert.deepEqual(loop.released.length % 2, 0);
      assert.equal(countOf(launcher, 'signal-cleanup') + countOf(launcher, 'kill') + countOf(launcher, 'delete'), 0);
      assert.equal(messages(loop, 'Migrated').length, 1);
      assert.equal(loop.relays.targets.size, 0);
    });
  }
}
