import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { type Guest, MigrationCluster, patienceMs } from '../../fixtures/migration-cluster.ts';
import { lose } from '../../fixtures/migration-loss.ts';

/** So slow that something can be lost meanwhile. */
const slowly = { bandwidthPerMigration: '16Mi' };

let world: MigrationCluster;
let guest: Guest;
before(async () => {
  world = await MigrationCluster.start(slowly);
  guest = await world.guest('demo');
  await world.untilVmi('demo', 'migratable', ({ status }) => {
    return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
  });
});
after(() => world?.dispose());

/** What was written into the guest's memory at its begin is there. */
async function answers(): Promise<void> {
  const shell = await guest.shell(world.nodeOf(await world.vmi('demo')));
  await eventually(async () => assert.match(await shell.run('cat /tmp/mark'), /moved with me/), patienceMs);
  shell.close();
}

test('both agents are killed while a guest moves between them: their successors bring it to its end', async () => {
  const source = world.nodeOf(await world.vmi('demo'));
  const shell = await guest.shell(source);
  await shell.login();
  await shell.run('echo moved with me > /tmp/mark');
  shell.close();
  await world.migrate('demo', 'there');
  await world.untilMigration('there', 'Running', 'Failed');
  const carriers = world.nodes.flatMap(({ proxies }) => proxies);
  assert.equal(carriers.length, 2);
  for (const node of world.nodes) await node.restartAgent();
  const { status } = await world.untilMigration('there', 'Succeeded', 'Failed');
  assert.equal(status?.phase, 'Succeeded', JSON.stringify(status));
  assert.equal(world.nodeOf(await world.vmi('demo')), world.other(source));
  await answers();
  await eventually(
    () =>
      assert.deepEqual(
        world.nodes.flatMap(({ proxies }) => proxies),
        [],
      ),
    patienceMs,
  );
});

test('the streams of a guest that is copied are lost: the migration says so, the guest goes on, and is moved by one that nobody asked for', async () => {
  const source = world.nodeOf(await world.vmi('demo'));
  await world.migrate('demo', 'broken');
  await world.untilMigration('broken', 'Running', 'Failed');
  await lose('target proxy', { world, guest, source });
  const { status } = await world.untilMigration('broken', 'Succeeded', 'Failed');
  assert.equal(status?.phase, 'Failed', JSON.stringify(status));
  assert.ok(findCondition(status?.conditions, 'migrationFailed')?.message);
  const vmi = await world.vmi('demo');
  assert.deepEqual([vmi.status?.phase, vmi.status?.nodeName], ['Running', source.name]);
  await answers();
  await world.configure({});
  const again = await world.retryOf('broken');
  await answers();
  const { metadata } = await world.untilMigration(again, 'Succeeded', 'Failed');
  assert.equal(metadata.annotations?.['virt-controller.kubevirt.io/retry-of'], 'broken');
  const moved = await world.vmi('demo');
  assert.deepEqual([moved.metadata.uid, moved.status?.nodeName], [guest.uid, world.other(source).name]);
  await answers();
});

test('a migration that its launcher aborts since it takes too long is not tried again', async () => {
  await world.configure({ ...slowly, completionTimeoutPerGiB: 3 });
  const source = world.nodeOf(await world.vmi('demo'));
  await world.migrate('demo', 'too-long');
  const { reason, message } = await world.untilFailed('too-long');
  assert.equal(reason, 'MigrationFailed');
  assert.match(message, /has not ended within/);
  await world.untilVmi('demo', 'aborted', ({ status }) => status?.migrationState?.abortStatus === 'Succeeded');
  const { status } = await world.untilMigration('too-long', 'Failed');
  assert.equal(findCondition(status?.conditions, 'migrationRetry'), undefined);
  assert.equal(world.nodeOf(await world.vmi('demo')), source);
  await answers();
});

test('the target’s agent is away when the guest arrives, and the source launcher ends before it is back: the guest goes on there', async () => {
  await world.configure(slowly);
  const source = world.nodeOf(await world.vmi('demo'));
  const target = world.other(source);
  const launcher = (await world.launchers(guest.uid)).get(source.name);
  assert.ok(launcher);
  await world.migrate('demo', 'unseen');
  await world.untilMigration('unseen', 'Running', 'Failed');
  await target.killAgent();
  await eventually(() => assert.deepEqual(launcher.pids('qemu-system'), []), patienceMs);
  await lose('source launcher', { world, guest, source });
  await eventually(async () => {
    assert.deepEqual([...(await world.launchers(guest.uid)).keys()], [target.name]);
  }, patienceMs);
  await stays(async () => assert.equal((await world.vmi('demo')).status?.phase, 'Running'), 2_000);
  target.startAgent();
  const { status } = await world.untilMigration('unseen', 'Succeeded', 'Failed');
  assert.equal(status?.phase, 'Succeeded', JSON.stringify(status));
  assert.equal(world.nodeOf(await world.vmi('demo')), target);
  await answers();
});
