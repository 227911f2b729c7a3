import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MigrationState, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { domainOf, key, uid } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { markDeleted, startRunning } from './agent-loop.ts';
import { change, countOf, eventsOf, handOff, ports, publish, startMigration, stateOf, takeOver } from './outgoing.ts';

test('a guest leaves: ports awaited, streams opened, migrated once, progress written, and nothing deleted before the hand-over', async (t) => {
  const running = await startRunning(t);
  const { loop, launcher } = running;
  await handOff(running);
  assert.equal(loop.rules().at(-1), 'migration-ports-awaited');
  assert.equal(countOf(running, 'migrate'), 0);
  await publish(running);
  assert.deepEqual(loop.migrationProxies.sources.get(uid)?.ports, ports);
  assert.equal(loop.migrationProxies.sources.get(uid)?.address, '10.0.0.2');
  assert.equal(countOf(running, 'migrate'), 1);
  assert.equal(stateOf(running).startTimestamp, loop.launchers.migration.now());
  assert.equal(stateOf(running).mode, 'PreCopy');
  assert.equal(loop.rules().at(-1), 'migration-running');
  await loop.clock.pass(30_000);
  loop.launchers.migration.note(launcher, { Mode: 'PostCopy' });
  await settle();
  assert.equal(stateOf(running).mode, 'PostCopy');
  loop.launchers.migration.succeeds(launcher);
  await settle();
  assert.equal(loop.migrationProxies.sources.size, 0, 'its streams are closed');
  await loop.clock.pass(120_000);
  assert.equal(loop.rules().at(-1), 'hand-over-awaited');
  assert.equal(countOf(running, 'delete'), 0);
  assert.equal(stateOf(running).endTimestamp, undefined, 'the end is the target’s to write');
  await takeOver(running);
  await loop.clock.pass(20_000);
  assert.equal(countOf(running, 'delete'), 1);
  assert.equal(loop.launchers.get(key), undefined, 'all of it is cleaned up');
  assert.equal(loop.phase(), 'Running');
  assert.deepEqual(
    eventsOf(running, 'Migrating').map(({ message }) => message),
    ['VirtualMachineInstance is migrating.'],
  );
  assert.equal(countOf(running, 'migrate'), 1);
  assert.equal(countOf(running, 'sync'), 1, 'no sync while it moved');
});

test('a change of the VMI while its guest moves is not synced, and is after a failure', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.api.change(key, (vmi) => {
    vmi.metadata.annotations = { ...vmi.metadata.annotations, novelty: 'yes' };
  });
  await loop.clock.pass(10_000);
  assert.equal(countOf(running, 'sync'), 1);
  loop.launchers.migration.fails(launcher, 'no route');
  await settle();
  assert.equal(countOf(running, 'sync'), 2);
});

test('a failure is copied with one event, the streams are closed and the guest is served as before', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  await loop.clock.pass(5_000);
  const end = loop.launchers.migration.now();
  loop.launchers.migration.fails(launcher, 'unable to connect to server');
  await loop.clock.pass(300_000);
  const state = stateOf(running);
  assert.deepEqual(
    [state.failed, state.completed, state.endTimestamp, state.failureReason, state.mode],
    [true, true, end, 'unable to connect to server', 'PreCopy'],
  );
  assert.deepEqual(
    eventsOf(running, 'Migrated').map(({ type, message }) => [type, message]),
    [['Warning', 'VirtualMachineInstance migration uid m1 failed. reason:unable to connect to server']],
  );
  assert.equal(loop.migrationProxies.sources.size, 0);
  assert.equal(loop.phase(), 'Running');
  assert.equal(loop.rules().at(-1), 'steady');
});

test('a failure that the agent hears of long after it happened leaves the VMI Running', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  await loop.dispatcher.stop();
  loop.launchers.migration.fails(launcher, 'the agent went away');
  await loop.clock.pass(3_600_000);
  await loop.restart();
  assert.equal(stateOf(running).failed, true);
  assert.equal(loop.phase(), 'Running');
  await loop.clock.pass(600_000);
  assert.equal(loop.phase(), 'Running');
});

test('an abort is asked for once and its outcome is written', async (t) => {
  const running = await startMigration(t);
  await change(running, { abortRequested: true });
  const state = stateOf(running);
  assert.equal(countOf(running, 'cancel-migration'), 1);
  assert.deepEqual(
    [state.failed, state.completed, state.abortStatus, state.failureReason],
    [true, true, 'Succeeded', 'Live migration has been aborted'],
  );
  assert.deepEqual(
    eventsOf(running, 'Migrating').map(({ message }) => message),
    ['VirtualMachineInstance is migrating.', 'VirtualMachineInstance is aborting migration.'],
  );
  assert.equal(running.loop.migrationProxies.sources.size, 0);
});

test('an abort that failed is asked for again after a pause, one under way is not', async (t) => {
  const running = await startMigration(t);
  const { launcher, loop } = running;
  launcher.onCancel = 'fails';
  await change(running, { abortRequested: true });
  assert.equal(countOf(running, 'cancel-migration'), 1);
  launcher.onCancel = 'hangs';
  await loop.clock.pass(5_000);
  assert.equal(countOf(running, 'cancel-migration'), 2);
  await loop.clock.pass(120_000);
  assert.equal(countOf(running, 'cancel-migration'), 2);
});

test('an abort before the ports are there begins nothing', async (t) => {
  const running = await startRunning(t);
  await handOff(running);
  await change(running, { abortRequested: true });
  assert.deepEqual([stateOf(running).failed, stateOf(running).abortStatus], [true, 'Succeeded']);
  await publish(running);
  assert.equal(countOf(running, 'migrate'), 0);
});

test('an agent that starts again in the middle does not migrate a second time and reports the end', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  await loop.restart();
  await loop.clock.pass(10_000);
  assert.equal(countOf(running, 'migrate'), 1);
  assert.equal(loop.rules().at(-1), 'migration-running');
  loop.launchers.migration.fails(launcher, 'connection reset');
  await settle();
  assert.equal(stateOf(running).failureReason, 'connection reset');
});

test('an agent that starts again before the launcher got the order gives it', async (t) => {
  const running = await startRunning(t);
  const { loop, launcher } = running;
  await handOff(running);
  launcher.mode = 'hangs';
  await publish(running);
  await loop.dispatcher.stop();
  await loop.migrationProxies.closeSource(uid);
  launcher.mode = 'works';
  await loop.restart();
  assert.equal(loop.launchers.migrateOptions.length, 1);
  assert.equal(stateOf(running).mode, 'PreCopy');
});

test('without migrationProxies the migration fails in words that say what to do, once, and the guest goes on', async (t) => {
  const running = await startRunning(t);
  const { loop } = running;
  loop.migrationProxies.refuse('this node agent cannot carry the streams of a live migration yet');
  await handOff(running);
  await loop.clock.pass(60_000);
  const state = stateOf(running);
  assert.deepEqual([state.failed, state.completed], [true, true]);
  assert.ok(state.startTimestamp && state.endTimestamp);
  assert.match(String(state.failureReason), /node1: this node agent cannot carry.*stop it and start it/);
  assert.equal(eventsOf(running, 'Migrated').length, 1);
  assert.equal(countOf(running, 'migrate'), 0);
  assert.equal(loop.rules().at(-1), 'steady');
});

test('a launcher that refuses ends the migration with its words and is not asked again', async (t) => {
  const running = await startRunning(t);
  const { loop, launcher } = running;
  launcher.refusals.migrate = ['live migration is not supported by this launcher', 'no'];
  await handOff(running);
  await publish(running);
  await loop.clock.pass(60_000);
  assert.equal(countOf(running, 'migrate'), 1);
  assert.match(String(stateOf(running).failureReason), /not supported by this launcher/);
  assert.equal(loop.migrationProxies.sources.size, 0);
  assert.equal(loop.condition('Synchronized'), undefined);
  assert.equal(loop.rules().at(-1), 'steady');
});

test('a launcher that refuses because it was done under an earlier agent tells how it ended', async (t) => {
  const running = await startRunning(t);
  const { loop, launcher } = running;
  loop.launchers.migration.note(launcher, { UID: 'm1', StartTimestamp: loop.launchers.migration.now() });
  loop.launchers.migration.fails(launcher, 'disk full on the other side');
  // Its event is lost: the agent still sees a domain without a migration.
  loop.launchers.setView(key, uid, {
    kind: 'present',
    uid,
    domain: domainOf(),
    seenMs: loop.clock.monotonicMs(),
  });
  await handOff(running);
  await publish(running);
  assert.equal(countOf(running, 'migrate'), 1);
  assert.equal(stateOf(running).failureReason, 'disk full on the other side');
});

test('streams that cannot be opened are tried again, and after five minutes the migration is given up with the cause', async (t) => {
  const running = await startRunning(t);
  const { loop } = running;
  loop.migrationProxies.openError = new Error('the socket name is too long');
  await handOff(running);
  await publish(running);
  assert.equal(stateOf(running).failed, undefined);
  assert.match(loop.condition('Synchronized')?.message ?? '', /too long/);
  await loop.clock.pass(400_000);
  assert.match(String(stateOf(running).failureReason), /could not be started for 5 minutes.*too long/);
  assert.equal(loop.phase(), 'Running');
  assert.equal(countOf(running, 'migrate'), 0);
});

test('a start that works after some tries takes its problem back', async (t) => {
  const running = await startRunning(t);
  const { loop } = running;
  loop.migrationProxies.openError = new Error('no file descriptor left');
  await handOff(running);
  await publish(running);
  assert.match(loop.condition('Synchronized')?.message ?? '', /no file descriptor left/);
  loop.migrationProxies.openError = undefined;
  await loop.clock.pass(60_000);
  assert.equal(loop.rules().at(-1), 'migration-running');
  assert.equal(loop.condition('Synchronized'), undefined);
});

test('ports that nobody can connect to end the migration instead of being tried for ever', async (t) => {
  const running = await startRunning(t);
  await handOff(running);
  await change(running, { targetNodeAddress: '$(reboot)', targetDirectMigrationNodePorts: ports });
  assert.match(String(stateOf(running).failureReason), /no IP address/);
  assert.equal(running.loop.migrationProxies.sources.size, 0);
});

test('a launcher that took the order and tells nothing is asked, and after a minute the migration has failed', async (t) => {
  const running = await startRunning(t);
  const { loop, launcher } = running;
  launcher.onMigrate = 'silent';
  await handOff(running);
  await publish(running);
  assert.equal(loop.rules().at(-1), 'migration-unheard');
  await loop.clock.pass(90_000);
  assert.equal(countOf(running, 'migrate'), 1);
  assert.match(String(stateOf(running).failureReason), /knows nothing of the migration/);
  assert.equal(loop.phase(), 'Running');
});

for (const [what, times, happen] of [
  ['deleted', 0, (vmi) => Object.assign(vmi.metadata, { deletionTimestamp: '2026-01-02T03:00:00Z' })],
  ['cancelled', 0, (vmi) => Object.assign(vmi.status?.migrationState ?? {}, { abortRequested: true })],
  ['handed to another migration', 1, (vmi) => Object.assign(vmi.status?.migrationState ?? {}, { migrationUid: 'm9' })],
] satisfies (readonly [string, number, (vmi: VirtualMachineInstance) => unknown])[]) {
  test(`a VMI that is ${what} while its streams are opened is not migrated`, async (t) => {
    const running = await startRunning(t);
    const { loop } = running;
    const open = loop.migrationProxies.openSource.bind(loop.migrationProxies);
    loop.migrationProxies.openSource = async (proxy) => {
      loop.migrationProxies.openSource = open;
      await open(proxy);
      loop.api.change(key, happen);
    };
    await handOff(running);
    await publish(running);
    assert.equal(countOf(running, 'migrate'), times);
    assert.equal(eventsOf(running, 'SyncFailed').length, 0);
  });
}

test('a VMI deleted while its guest is copied: the streams are closed and the guest is shut down here', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  launcher.onShutdown = 'ignores';
  markDeleted(loop);
  await settle();
  assert.equal(loop.migrationProxies.sources.size, 0);
  assert.equal(countOf(running, 'shutdown'), 1);
  await loop.clock.pass(60_000);
  assert.equal(countOf(running, 'kill'), 1);
  assert.equal(loop.phase(), 'Failed');
  assert.equal(countOf(running, 'delete'), 1);
});

test('a guest that ends by itself while it is copied gets its final phase', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  const domain = structuredClone(launcher.domain) ?? domainOf();
  domain.Status = { ...domain.Status, Status: 'Shutoff', Reason: 'Shutdown' };
  loop.launchers.become(launcher, domain);
  await loop.clock.pass(30_000);
  assert.equal(loop.phase(), 'Succeeded');
  assert.equal(loop.migrationProxies.sources.size, 0);
  assert.equal(loop.launchers.get(key), undefined);
});

test('a second migration after a failed one begins anew, with the new ports', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.migration.fails(launcher, 'first');
  await settle();
  await handOff(running, 'm2');
  await change(running, {
    targetNodeAddress: 'fd00::2',
    targetDirectMigrationNodePorts: { '50000': 0, '50001': 49_152 },
  });
  assert.equal(countOf(running, 'migrate'), 2);
  assert.equal(loop.migrationProxies.sources.get(uid)?.address, 'fd00::2');
  assert.deepEqual([stateOf(running).failed, stateOf(running).mode], [undefined, 'PreCopy']);
  loop.launchers.migration.fails(launcher, 'second');
  await settle();
  assert.equal(stateOf(running).failureReason, 'second');
  assert.deepEqual(
    eventsOf(running, 'Migrated').map(({ message }) => message.split(' ')[3]),
    ['m1', 'm2'],
  );
});

test('a time or mode that no API server takes is left out, so that the failure itself is written', async (t) => {
  const running = await startMigration(t);
  const { loop, launcher } = running;
  loop.launchers.migration.note(launcher, { StartTimestamp: 'yesterday', Mode: 'Sideways' as never });
  loop.launchers.migration.fails(launcher, 'x'.repeat(100_000), { EndTimestamp: 'soon', AbortStatus: 'Odd' as never });
  await settle();
  const state = stateOf(running);
  assert.equal(state.failed, true);
  assert.equal(state.mode, 'PreCopy');
  assert.ok(!Number.isNaN(Date.parse(String(state.endTimestamp))));
  assert.equal(state.abortStatus, undefined);
  assert.ok(String(state.failureReason).length <= 1_024);
});

test('what the user writes into the status of a VMI that moves harms nobody', async (t) => {
  const running = await startRunning(t);
  const odd = [{ targetNodeAddress: 5 }, { targetDirectMigrationNodePorts: [1] }, { startTimestamp: {} }, { mode: 7 }];
  for (const [index, more] of odd.entries()) {
    await handOff(running, `m${index}`);
    await change(running, more as unknown as VirtualMachineInstance['status'] & MigrationState);
    await running.loop.clock.pass(1_000);
  }
  assert.equal(running.loop.phase(), 'Running');
});
