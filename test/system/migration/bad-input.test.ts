import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { findCondition, resources } from '../../../src/api/index.ts';
import { isKubeError } from '../../../src/kube/index.ts';
import { CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { type Guest, MigrationCluster, patienceMs } from '../../fixtures/migration-cluster.ts';
import type { MigrationNode } from '../../fixtures/migration-node.ts';

/** Real guests whose migrations cannot end well, or whose VMIs end in them: a clear end, and nothing is left on either node. */

/** So slow that something can happen meanwhile. */
const slowly = { bandwidthPerMigration: '16Mi' };

let world: MigrationCluster;
let demo: Guest;
before(async () => {
  world = await MigrationCluster.start(slowly);
  demo = await migratableGuest('demo');
  const shell = await demo.shell(world.nodeOf(await world.vmi('demo')));
  await shell.login();
  shell.close();
});
after(() => world?.dispose());

async function migratableGuest(name: string): Promise<Guest> {
  const guest = await world.guest(name);
  await world.untilVmi(name, 'migratable', ({ status }) => {
    return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
  });
  return guest;
}

/** It runs where it ran, and answers. */
async function livesOn(guest: Guest, node: string): Promise<void> {
  const { status } = await world.vmi(guest.name);
  assert.deepEqual([status?.phase, status?.nodeName], ['Running', node]);
  const shell = await guest.shell(world.nodeOf(await world.vmi(guest.name)));
  await eventually(async () => assert.match(await shell.run('echo $((40 + 2))'), /42/), patienceMs);
  shell.close();
}

/** Carriers of its streams, and launchers of this VMI. */
async function untilNothingIsLeft(carriers: readonly number[], { uid }: Guest, launchers = 0): Promise<void> {
  await eventually(async () => {
    const records = world.nodes.flatMap((node) => node.proxiesOf(uid));
    assert.deepEqual(records, [], `records of streams\n${world.logs()}`);
    assert.deepEqual(
      carriers.filter((pid) => existsSync(`/proc/${pid}`)),
      [],
      'their processes',
    );
    assert.equal((await world.launchers(uid)).size, launchers, 'launchers');
  }, patienceMs);
}

/** Its memory is on the way; gives the processes that carry it. */
async function untilItMoves(migration: string, { uid }: Guest): Promise<number[]> {
  await world.untilMigration(migration, 'Running', 'Failed', 'Succeeded');
  const carriers = world.nodes.flatMap((node) => node.proxiesOf(uid));
  assert.equal(carriers.length, 2, world.logs());
  return carriers;
}

/** What the agent asks of the launcher when a user pauses the guest. */
async function pauseAt(node: MigrationNode) {
  const launcher = (await world.launchers(demo.uid)).get(node.name);
  assert.ok(launcher);
  // A socket's address is 107 bytes at the most.
  const short = mkdtempSync(path.join(tmpdir(), 'short-'));
  symlinkSync(launcher.socketsDir, path.join(short, 's'));
  const caller = new CmdCaller(path.join(short, 's/launcher-sock'));
  try {
    return await caller.call(caller.client.pauseVirtualMachine, vmiRequest(await world.vmi('demo')));
  } finally {
    caller.close();
    rmSync(short, { recursive: true });
  }
}

async function reasonsOf(name: string): Promise<(string | undefined)[]> {
  const { items } = await world.cluster.client.list(resources.events, { namespace: 'default' });
  return items
    .map((event) => event as { involvedObject?: { name?: string }; reason?: string })
    .filter(({ involvedObject }) => involvedObject?.name === name)
    .map(({ reason }) => reason);
}

async function setMemory(node: string, memory: string | null): Promise<void> {
  const status = { allocatable: { memory } };
  await world.cluster.client.patch(resources.nodes, { name: node }, { status }, 'merge', { subresource: 'status' });
}

test('a node that has no room, and one whose kubelet starts nothing, are given up in their time', async () => {
  const source = world.nodeOf(await world.vmi('demo'));
  const target = world.other(source).name;
  await setMemory(target, '16Mi');
  await world.migrate('demo', 'no-room', {}, { 'kubevirt.io/migrationUnschedulablePodTimeoutSeconds': '2' });
  const noRoom = await world.untilFailed('no-room');
  assert.equal(noRoom.reason, 'Unschedulable');
  assert.match(noRoom.message, /memory/i);
  await setMemory(target, null);
  world.idleKubelets.add(target);
  await world.migrate('demo', 'no-start', {}, { 'kubevirt.io/migrationPendingPodTimeoutSeconds': '2' });
  const noStart = await world.untilFailed('no-start');
  assert.equal(noStart.reason, 'PendingTooLong');
  for (const name of ['no-room', 'no-start']) {
    await eventually(async () => assert.ok((await reasonsOf(name)).includes('FailedMigration')), patienceMs);
  }
  await untilNothingIsLeft([], demo, 1);
  world.idleKubelets.delete(target);
  await livesOn(demo, source.name);
});

test('the node that the guest is on, and a second migration beside one under way, are refused; a pause waits for it', async () => {
  const source = world.nodeOf(await world.vmi('demo'));
  await world.migrate('demo', 'itself', { addedNodeSelector: { 'kubernetes.io/hostname': source.name } });
  assert.equal((await world.untilFailed('itself')).reason, 'TargetIsSource');
  await world.migrate('demo', 'first');
  const carriers = await untilItMoves('first', demo);
  await assert.rejects(world.migrate('demo', 'second'), (error) => {
    return isKubeError(error) && /in-flight migration detected/.test(error.message);
  });
  const paused = await pauseAt(source);
  assert.deepEqual([paused.success, /migrat/i.test(paused.message)], [false, true], paused.message);
  await world.untilMigration('first', 'Succeeded');
  await untilNothingIsLeft(carriers, demo, 1);
  await livesOn(demo, world.other(source).name);
});

test('a guest that ends while it moves: its VMI has succeeded, the migration has failed by name', async () => {
  const guest = await migratableGuest('ends');
  const shell = await guest.shell(world.nodeOf(await world.vmi('ends')));
  await shell.login();
  await world.migrate('ends', 'ends-1');
  const carriers = await untilItMoves('ends-1', guest);
  await shell.run('(sleep 0.2; poweroff -f) & true');
  shell.close();
  await world.untilVmi('ends', 'over', ({ status }) => status?.phase === 'Succeeded' || status?.phase === 'Failed');
  // The source's agent may be the first to say it.
  assert.match((await world.untilFailed('ends-1')).reason, /^(VmiEnded|MigrationFailed)$/);
  assert.equal((await world.vmi('ends')).status?.phase, 'Succeeded');
  await untilNothingIsLeft(carriers, guest);
});

const moments: Readonly<Record<string, (migration: string) => Promise<unknown>>> = {
  'while its guest is copied': async () => undefined,
  'as soon as it has arrived': (migration) => world.untilMigration(migration, 'Succeeded', 'Failed'),
};

for (const [when, untilThen] of Object.entries(moments)) {
  test(`a VMI that is deleted ${when} leaves no streams, no launchers and no migration`, async () => {
    const name = `deleted-${when.split(' ')[0]}`;
    const guest = await migratableGuest(name);
    await world.migrate(name, `${name}-1`);
    const carriers = await untilItMoves(`${name}-1`, guest);
    await untilThen(`${name}-1`);
    await world.cluster.client.delete(resources.virtualMachineInstances, (await world.vmi(name)).metadata);
    await world.cluster.untilGone(resources.virtualMachineInstances, name);
    await untilNothingIsLeft(carriers, guest);
    await world.cluster.untilGone(resources.migrations, `${name}-1`);
  });
}
