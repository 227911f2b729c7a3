import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findCondition, type KubeObject, resources } from '../../../src/api/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { type Guest, MigrationCluster, patienceMs } from '../../fixtures/migration-cluster.ts';

/** Two agents whose streams are kept by relays, and so slow a migration that their containers can be replaced meanwhile. */

let world: MigrationCluster;
let guest: Guest;
before(async () => {
  world = await MigrationCluster.start({ bandwidthPerMigration: '16Mi' }, { withRelays: true });
  guest = await world.guest('demo');
  await world.untilVmi('demo', 'migratable', ({ status }) => {
    return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
  });
});
after(() => world?.dispose());

const noProxies = () =>
  eventually(
    () =>
      assert.deepEqual(
        world.nodes.flatMap(({ proxies }) => proxies),
        [],
      ),
    patienceMs,
  );

test('both agents’ containers end with all that is in them while a guest moves: the relays’ streams go on, and the next agents bring it to its end', async () => {
  const source = world.nodeOf(await world.vmi('demo'));
  const shell = await guest.shell(source);
  await shell.login();
  await shell.run('echo moved with me > /tmp/mark');
  shell.close();
  await world.migrate('demo', 'there');
  await world.untilMigration('there', 'Running', 'Failed');
  const carriers = world.nodes.flatMap(({ proxies }) => proxies);
  assert.equal(carriers.length, 2);
  for (const node of world.nodes) {
    const ended = await node.endAgentContainer();
    assert.deepEqual(
      ended.filter((pid) => carriers.includes(pid)),
      [],
    );
    node.startAgent();
  }
  assert.deepEqual(
    world.nodes.flatMap(({ relay }) => relay?.pids),
    carriers,
  );
  const { status } = await world.untilMigration('there', 'Succeeded', 'Failed');
  assert.equal(status?.phase, 'Succeeded', JSON.stringify(status));
  const moved = await world.vmi('demo');
  assert.equal(world.nodeOf(moved), world.other(source));
  const there = await guest.shell(world.other(source));
  await eventually(async () => assert.match(await there.run('cat /tmp/mark'), /moved with me/), patienceMs);
  there.close();
  await noProxies();
});

test('a relay that has ended is said by its node, and a migration is refused before it begins; tried again with its successor it succeeds', async () => {
  await world.configure({});
  const source = world.nodeOf(await world.vmi('demo'));
  const reason = async () => {
    const { metadata } = await world.cluster.client.get<KubeObject>(resources.nodes, { name: source.name });
    return metadata.annotations?.['virt-handler.kubevirt.io/unschedulable-reason'] ?? 'none';
  };
  assert.equal(await reason(), 'none');
  await source.relay?.endContainer();
  await eventually(async () => assert.match(await reason(), /MigrationRelayNotServed: .*DaemonSet/), patienceMs);
  await world.migrate('demo', 'refused');
  const { status } = await world.untilMigration('refused', 'Succeeded', 'Failed');
  assert.equal(status?.phase, 'Failed', JSON.stringify(status));
  assert.match(
    findCondition(status?.conditions, 'migrationFailed')?.message ?? '',
    /relay of this node does not answer/,
  );
  assert.equal((await world.vmi('demo')).status?.phase, 'Running');
  await source.relay?.start();
  await eventually(async () => assert.equal(await reason(), 'none'), patienceMs);
  await world.untilMigration(await world.retryOf('refused'), 'Succeeded');
  await noProxies();
});
