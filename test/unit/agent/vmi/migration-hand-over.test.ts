import assert from 'node:assert/strict';
import { test } from 'node:test';
import { key, uid } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { markDeleted, startRunning } from './agent-loop.ts';
import { change, countOf, eventsOf, handOff, publish, startMigration, stateOf, takeOver } from './outgoing.ts';

test('a target that stays silent fails the VMI after ten minutes, counted from the sight of the end', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.migration.succeeds(launcher);
  await loop.clock.pass(599_000);
  assert.equal(loop.phase(), 'Running');
  await loop.clock.pass(2_000);
  assert.equal(loop.phase(), 'Failed');
  assert.deepEqual([stateOf(running).failed, stateOf(running).completed], [true, true]);
  assert.match(eventsOf(running, 'Migrated')[0]?.message ?? '', /never observed on the target/);
  await loop.clock.pass(30_000);
  assert.equal(countOf(running, 'delete'), 1, 'then what is left here goes');
});

test('an agent that was away on the target node for nine minutes takes the guest over', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.migration.succeeds(launcher);
  await loop.clock.pass(540_000);
  assert.equal(loop.phase(), 'Running');
  await takeOver(running);
  assert.equal(loop.phase(), 'Running');
});

test('an API server that was away when the time was over counts not against the target: its time begins anew', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.migration.succeeds(launcher);
  await settle();
  await loop.clock.pass(580_000);
  loop.api.failPuts = 8;
  await loop.clock.pass(60_000);
  assert.equal(loop.phase(), 'Running');
  assert.equal(loop.rules().at(-1), 'hand-over-awaited');
  await takeOver(running);
  assert.equal(loop.phase(), 'Running');
});

test('the user is told after a while that the target is silent, and not any more when the guest has arrived', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.migration.succeeds(launcher);
  await loop.clock.pass(89_000);
  assert.equal(loop.condition('Synchronized'), undefined);
  await loop.clock.pass(2_000);
  assert.match(loop.condition('Synchronized')?.message ?? '', /sent to node node2, which has not told yet/);
  assert.equal(eventsOf(running, 'SyncFailed').length, 1);
});

test('a launcher that dies while it migrates its guest: the target has its time to tell of the guest, then the VMI has failed', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.die(launcher);
  await loop.clock.pass(599_000);
  assert.equal(loop.phase(), 'Running', 'in its last moments the guest may live on the target');
  await loop.clock.pass(60_000);
  assert.equal(loop.phase(), 'Failed');
  assert.equal(stateOf(running).failed, true);
  assert.equal(loop.migrationProxies.hasSource(uid), false);
});

test('a launcher that dies while it migrates, and the target takes the guest over in time: nothing fails', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.die(launcher);
  await loop.clock.pass(100_000);
  await takeOver(running);
  await loop.clock.pass(600_000);
  assert.equal(loop.phase(), 'Running');
  assert.equal(loop.launchers.get(key), undefined, 'what is left here is taken away');
});

test('a VMI that is deleted in the moment of its move is not Failed before the target could tell of the guest', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.die(launcher);
  markDeleted(loop);
  await loop.clock.pass(20_000);
  assert.equal(loop.phase(), 'Running');
  await takeOver(running);
  await loop.clock.pass(600_000);
  assert.equal(loop.phase(), 'Running', 'the target ends the guest and writes the phase');
  assert.equal(loop.launchers.get(key), undefined, 'what is left here is taken away');
});

test('a VMI that is deleted while its guest moves, and of which no target tells, ends after half a minute', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.die(launcher);
  markDeleted(loop);
  await loop.clock.pass(31_000);
  assert.equal(loop.phase(), 'Failed');
});

test('a launcher that dies before it answers the order to migrate: the guest may have left all the same', async (t) => {
  const running = await startRunning(t);
  const { loop, launcher } = running;
  await handOff(running);
  launcher.mode = 'hangs';
  await publish(running);
  loop.launchers.die(launcher);
  await loop.clock.pass(20_000);
  assert.equal(loop.phase(), 'Running');
  await change(running, { targetNodeDomainDetected: true });
  await loop.clock.pass(540_000);
  await takeOver(running);
  assert.equal(loop.phase(), 'Running');
});
