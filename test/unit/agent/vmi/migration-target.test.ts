import assert from 'node:assert/strict';
import { test } from 'node:test';
import { domainOf, key, node, uid } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { type Loop, markDeleted, startLoop } from './agent-loop.ts';
import {
  type Arriving,
  arrive,
  begin,
  change,
  countOf,
  endAs,
  handedOff,
  incoming,
  labelsOf,
  messages,
  nodeLabel,
  prepared,
  stateOf,
  stored,
  type TestContext,
  targetLabel,
  withOwnCpus,
} from './incoming.ts';

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
  assert.equal(loop.migrationProxies.targets.size, 0, 'its streams are closed');
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
  const { loop } = await prepared(t, { vmi: incoming({ ...handedOff, targetState: { pod: 'pod-1' } }) });
  assert.deepEqual(stateOf(loop).targetState, {
    pod: 'pod-1',
    nodeAddress: '10.0.0.1',
    directMigrationNodePorts: { '40000': 0, '40001': 49_152 },
  });
  const other = await prepared(t);
  assert.equal(stateOf(other.loop).targetState, undefined);
});

test('a block migration gets a stream for its disks', async (t) => {
  const vmi = incoming();
  vmi.status = { ...vmi.status, migrationMethod: 'BlockMigration' };
  const { loop } = await prepared(t, { vmi });
  assert.deepEqual(Object.values(stateOf(loop).targetDirectMigrationNodePorts ?? {}), [0, 49_152, 49_153]);
});

test('an agent that is started again before the guest leaves publishes its new ports and none of the old', async (t) => {
  const { loop, launcher } = await prepared(t);
  loop.migrationProxies.targets.clear();
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
  loop.migrationProxies.targets.clear();
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
  loop.migrationProxies.targets.clear();
  loop.migrationProxies.refuse('virt-handler is leaving');
  await loop.restart(false);
  assert.equal(labelsOf(loop)[nodeLabel], node);
  assert.equal(stateOf(loop).failed, undefined);
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
  assert.equal(loop.migrationProxies.targets.size, 1, 'its last pages still come');
  loop.launchers.migration.note(launcher, { UID: 'm1', EndTimestamp: loop.launchers.migration.now() });
  await settle();
  assert.equal(stored(loop)?.status?.nodeName, node);
  assert.equal(countOf(launcher, 'shutdown'), 1);
  assert.equal(loop.phase(), 'Succeeded');
});

test('a guest that arrives and is shut down before anybody looked gets its final phase here', async (t) => {
  const arriving = await prepared(t);
  const { loop } = arriving;
  await endAs(arriving, 'Shutoff', 'Shutdown');
  assert.equal(stored(loop)?.status?.nodeName, node);
  assert.equal(loop.phase(), 'Succeeded');
});

test('a guest that arrives paused by an I/O error is this node’s, not a failed migration', async (t) => {
  const arriving = await prepared(t);
  const { loop } = arriving;
  await endAs(arriving, 'Paused', 'IOError');
  assert.equal(labelsOf(loop)[nodeLabel], node);
  assert.equal(stateOf(loop).failed, undefined);
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
  const { loop } = await prepared(t, {
    world: ({ ports }) => Object.assign(ports.host, { cpuSet: () => [2, 3, 8], topology }),
    vmi: withOwnCpus(),
  });
  assert.deepEqual(stateOf(loop).targetCPUSet, [2, 3, 8]);
  assert.deepEqual(JSON.parse(String(stateOf(loop).targetNodeTopology)), {
    numa_cells: [{ memory: { amount: 8, unit: 'KiB' }, distances: [{ value: 10 }], cpus: [{ id: 1, siblings: [1] }] }],
  });
  assert.equal(loop.api.puts.length, 1, 'in the same write as the ports, and once');
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
      loop.migrationProxies.targets.clear();
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
      assert.equal(loop.migrationProxies.targets.size, 0);
    });
  }
}
