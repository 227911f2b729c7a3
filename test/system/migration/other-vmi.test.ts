import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { findCondition, labels, resources } from '../../../src/api/index.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { GuestMemory } from '../../fixtures/guest-memory.ts';
import { type Guest, MigrationCluster, patienceMs } from '../../fixtures/migration-cluster.ts';
import type { MigrationNode } from '../../fixtures/migration-node.ts';
import { MoveToOtherVmi } from '../../fixtures/other-place.ts';

/** A guest moves from the VMI of one namespace to that of another, as between two clusters. The tests are one story. */

/** So slow that something can happen meanwhile. */
const slowly = { bandwidthPerMigration: '16Mi' };
const home = { namespace: 'default', name: 'demo' };
const placeOf = (name: string) => ({ namespace: 'there', name });

let world: MigrationCluster;
let guest: Guest;
let source: MigrationNode;
let memory: GuestMemory;

before(async () => {
  world = await MigrationCluster.start(slowly, { migrationRetries: 0 });
  guest = await world.guest('demo');
  const vmi = await world.untilVmi('demo', 'migratable', ({ status }) => {
    return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
  });
  source = world.nodeOf(vmi);
  memory = await GuestMemory.mark(guest, source);
  const metadata = { name: 'there' };
  await world.cluster.client.create(resources.namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata });
  // From here on the test plays the controllers of both sides.
  await world.cluster.stopController();
});
after(() => world?.dispose());

async function begin(t: TestContext, name: string): Promise<MoveToOtherVmi> {
  const move = await MoveToOtherVmi.begin(world, home, placeOf(name), world.other(source));
  t.after(() => move.end());
  return move;
}

async function underWay(move: MoveToOtherVmi): Promise<void> {
  await move.untilTarget('on the way', ({ status }) => status?.migrationState?.targetNodeDomainDetected === true);
  assert.equal((await move.source()).status?.phase, 'Running');
}

/** The migration has failed on both sides: the guest lives where it did, and nothing of it is left at the other place. */
async function staysAtHome(move: MoveToOtherVmi, why: RegExp): Promise<void> {
  const { status } = await move.untilSource('failed', (vmi) => vmi.status?.migrationState?.failed === true);
  assert.match(status?.migrationState?.failureReason ?? '', why);
  assert.equal(status?.phase, 'Running');
  const there = await move.untilTarget('taken back', ({ metadata }) => {
    return metadata.labels?.[labels.migrationTargetNodeName] === undefined;
  });
  assert.equal(there.status?.migrationState?.failed, true);
  // It waits for the next one.
  assert.equal(there.metadata.annotations?.['kubevirt.io/create-migration-target'], 'true');
  assert.notEqual(there.status?.phase, 'Running');
  await memory.isOn(guest, source);
  await eventually(() => {
    assert.deepEqual(
      world.nodes.flatMap(({ proxies }) => proxies),
      [],
    );
  }, patienceMs);
}

test('a migration to another VMI that is cancelled in the middle leaves the guest where it was', async (t) => {
  const move = await begin(t, 'cancelled');
  await underWay(move);
  await move.abort();
  await staysAtHome(move, /aborted/);
});

test('the pod of the other VMI is lost in the middle: both sides say so, and the guest goes on', async (t) => {
  const move = await begin(t, 'lost');
  await underWay(move);
  const there = await move.guestThere();
  assert.equal((await move.source()).status?.migrationState?.failed ?? false, false);
  const pod = (await world.launchers(there.uid)).get(world.other(source).name);
  for (const pid of pod?.pids('virt-launcher.mjs') ?? []) process.kill(pid, 'SIGKILL');
  await staysAtHome(move, /./);
});

test('a guest becomes that of another VMI with all its memory; the one that it leaves waits for the word of that, and has succeeded', async (t) => {
  await world.configure({});
  const move = await begin(t, 'copy');
  await move.untilTarget('begun', ({ status }) => Boolean(status?.migrationState?.startTimestamp));
  // Nothing is heard of the other side for a while.
  await move.stopSynchronizing();
  const node = world.other(source);
  const there = await move.untilTarget('Running', ({ status }) => status?.phase === 'Running');
  assert.deepEqual(
    [there.metadata.labels?.[labels.nodeName], there.status?.nodeName, there.status?.migrationState?.completed],
    [node.name, node.name, true],
  );
  await stays(async () => assert.equal((await move.source()).status?.phase, 'Running'), 3_000);
  await memory.isOn(await move.guestThere(), node);
  move.synchronize();
  await move.untilSource('Succeeded', ({ status }) => status?.phase === 'Succeeded');
  const arrived = await move.untilTarget('settled', ({ metadata }) => {
    return metadata.labels?.[labels.migrationTargetNodeName] === undefined;
  });
  assert.equal(arrived.metadata.annotations?.['kubevirt.io/create-migration-target'], undefined);
  assert.equal(arrived.status?.phase, 'Running');
  await eventually(async () => {
    assert.deepEqual([...(await world.launchers(guest.uid)).keys()], [], 'the launcher that it left has ended');
    assert.deepEqual(
      world.nodes.flatMap(({ proxies }) => proxies),
      [],
    );
  }, patienceMs);
  await memory.isOn(await move.guestThere(), node);
});
