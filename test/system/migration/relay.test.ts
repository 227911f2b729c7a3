import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { MigrationCluster, patienceMs } from '../../fixtures/migration-cluster.ts';

/** Two agents whose streams are kept by relays, and so slow a migration that their containers can be replaced meanwhile. */

let world: MigrationCluster;
before(async () => {
  world = await MigrationCluster.start({ bandwidthPerMigration: '16Mi' }, { withRelays: true });
});
after(() => world?.dispose());

test('both agents’ containers end with all that is in them while a guest moves: the relays’ streams go on, and the next agents bring it to its end', async () => {
  const guest = await world.guest('demo');
  await world.untilVmi('demo', 'migratable', ({ status }) => {
    return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
  });
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
  await eventually(
    () =>
      assert.deepEqual(
        world.nodes.map(({ proxies }) => proxies.length),
        [0, 0],
      ),
    patienceMs,
  );
});
