import assert from 'node:assert/strict';
import { test } from 'node:test';
import { domainOf, key, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { markDeleted, startLoop, startRunning } from './agent-loop.ts';

test('a start costs one sync, one write and two events, when the launcher is ready', async (t) => {
  const { loop, launcher } = await startRunning(t);
  await loop.clock.pass(60_000);
  assert.deepEqual(launcher.calls, ['sync']);
  assert.equal(loop.api.puts.length, 1);
  assert.deepEqual(loop.reasons(), ['Created', 'Started']);
  assert.equal(loop.clock.timers, 0, 'a steady VMI has no timer');
  const status = loop.api.stored(key)?.status;
  assert.equal(status?.machine?.type, 'pc-q35-7.2');
  assert.equal(status?.memory?.guestCurrent, '128Mi');
  assert.equal(status?.selinuxContext, 'none');
  assert.deepEqual(
    status?.phaseTransitionTimestamps?.map(({ phase }) => phase),
    ['Running'],
  );
  assert.equal(loop.condition('LiveMigratable')?.status, 'True');
});

test('a start takes two passes: the launcher is asked and told in one, phase Running is written in the other', async (t) => {
  const { loop } = await startRunning(t);
  await loop.clock.pass(60_000);
  assert.deepEqual(loop.rules(), ['launcher-not-probed', 'start-due', 'domain-running']);
  assert.deepEqual(
    loop.dispatcher.reconciler.decisions.of(key).map(({ write, times }) => [write.outcome, times]),
    [
      ['not-reached', 1],
      ['unchanged', 1],
      ['written', 1],
    ],
  );
});

test('a domain that is defined and does not start is looked at after a second', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.startsNothing = true;
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  assert.deepEqual(loop.rules(), ['launcher-not-probed', 'start-due']);
  await loop.clock.pass(1_500);
  assert.equal(loop.rules().at(-1), 'start-unseen');
});

test('a start without any event from the launcher is found by asking', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  launcher.domain = undefined;
  await settle();
  loop.launchers.restartAgent();
  await loop.clock.pass(5_000);
  assert.equal(loop.phase(), 'Running');
});

test('a spec change of a running VMI is sent once, when it is seen', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.change(key, ({ spec }) => {
    spec.domain.cpu = { sockets: 2 };
  });
  await settle();
  loop.api.change(key, ({ metadata }) => {
    metadata.labels = { ...metadata.labels, colour: 'red' };
  });
  await settle();
  assert.deepEqual(launcher.calls, ['sync', 'sync']);
});

test('pause and unpause are seen as the condition Paused, and the phase stays Running', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.launchers.become(launcher, domainOf('Paused', 'User'));
  await settle();
  assert.equal(loop.condition('Paused')?.reason, 'PausedByUser');
  assert.equal(loop.phase(), 'Running');
  loop.launchers.become(launcher, domainOf('Running'));
  await settle();
  assert.equal(loop.condition('Paused'), undefined);
});

test('a guest that shuts itself down ends as Succeeded, and only then is its domain deleted and all cleaned up', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await settle();
  assert.equal(loop.phase(), 'Succeeded');
  assert.deepEqual(launcher.calls, ['sync', 'delete']);
  assert.deepEqual(loop.rules().slice(-3), ['guest-stopped', 'finished-domain-stopped', 'finished-clean-up']);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`], 'hooks are released in reverse');
  assert.equal(loop.launchers.get(key), undefined, 'the ghost record is gone');
  assert.deepEqual(loop.reasons(), ['Created', 'Started', 'Stopped', 'Deleted']);
});

test('a crashed guest ends as Failed', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.launchers.become(launcher, domainOf('Crashed', 'Panicked'));
  await settle();
  assert.equal(loop.phase(), 'Failed');
});

test('a deleted VMI is asked to shut down every five seconds and killed when its grace is over', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.onShutdown = 'ignores';
  markDeleted(loop);
  await loop.clock.pass(29_900);
  assert.deepEqual(launcher.calls, ['sync', ...Array.from({ length: 6 }, () => 'shutdown')]);
  assert.equal(loop.reasons().filter((reason) => reason === 'ShuttingDown').length, 1);
  await loop.clock.pass(200);
  assert.equal(launcher.calls.filter((call) => call === 'kill').length, 1);
  await loop.clock.pass(20_000);
  assert.equal(loop.phase(), 'Failed');
  assert.equal(loop.launchers.get(key), undefined);
});

test('a deleted VMI whose guest obeys ends as Succeeded without a kill', async (t) => {
  const { loop, launcher } = await startRunning(t);
  markDeleted(loop);
  await loop.clock.pass(1_000);
  assert.deepEqual(launcher.calls, ['sync', 'shutdown', 'delete']);
  assert.equal(loop.phase(), 'Succeeded');
});

test('fault 12: a domain stuck in ShuttingDown is killed when its grace ends, without any event', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.onShutdown = 'hangs-shutting-down';
  markDeleted(loop);
  await loop.clock.pass(29_900);
  assert.deepEqual(launcher.calls, ['sync', 'shutdown']);
  await loop.clock.pass(200);
  assert.ok(launcher.calls.includes('kill'));
});

test('a kill that libvirt refuses is repeated at least every five seconds, and told', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.onShutdown = 'ignores';
  launcher.killError = 'cannot terminate the process: device or resource busy';
  markDeleted(loop);
  await loop.clock.pass(150_000);
  assert.match(loop.condition('Synchronized')?.message ?? '', /resource busy/);
  assert.equal(loop.phase(), 'Running');
  launcher.killError = undefined;
  await loop.clock.pass(5_100);
  assert.equal(loop.phase(), 'Failed');
});

test('the grace period does not start again after an agent restart', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.onShutdown = 'ignores';
  markDeleted(loop);
  await loop.clock.pass(20_000);
  const began = new Date(loop.clock.now().getTime() - 20_000).toISOString();
  const grace = { DeletionGracePeriodSeconds: 30, DeletionTimestamp: began, MarkedForGracefulShutdown: null };
  launcher.domain = domainOf('Running', 'Unknown', { GracePeriod: grace });
  await loop.restart();
  await loop.clock.pass(10_500);
  assert.ok(launcher.calls.includes('kill'));
});

test('a wall clock set forward by an hour does not kill a guest within its grace', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.onShutdown = 'ignores';
  markDeleted(loop);
  await loop.clock.pass(2_000);
  loop.clock.jumpWallClock(3_600_000);
  await loop.clock.pass(5_000);
  assert.ok(!launcher.calls.includes('kill'));
});

test('a VMI object that vanished has its domain shut down, deleted and cleaned up', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.remove(key);
  await loop.clock.pass(3_000);
  assert.deepEqual(launcher.calls, ['sync', 'shutdown', 'delete']);
  assert.equal(loop.launchers.get(key), undefined);
  assert.equal(loop.dispatcher.remembered, 0, 'nothing is remembered of a VMI that is no more');
});

test('fault 9: after a restart the domain of a vanished VMI is found by its ghost record and ended', async (t) => {
  const { loop, launcher } = await startRunning(t);
  await loop.dispatcher.stop();
  loop.api.remove(key);
  await loop.restart();
  await loop.clock.pass(3_000);
  assert.deepEqual(launcher.calls, ['sync', 'shutdown', 'delete']);
});

test('the launcher may ask for a graceful shutdown of a running VMI', async (t) => {
  const { loop, launcher } = await startRunning(t);
  const grace = { DeletionGracePeriodSeconds: 30, DeletionTimestamp: null, MarkedForGracefulShutdown: true };
  loop.launchers.become(launcher, domainOf('Running', 'Unknown', { GracePeriod: grace }));
  await loop.clock.pass(1_000);
  assert.deepEqual(launcher.calls, ['sync', 'shutdown', 'delete']);
  assert.equal(loop.phase(), 'Succeeded');
});

test('a launcher without socket is waited for, and the VMI fails after three minutes', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid, 'not-ready');
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(170_000);
  assert.equal(loop.phase(), 'Scheduled');
  assert.equal(loop.api.puts.length, 0);
  await loop.clock.pass(11_000);
  assert.equal(loop.phase(), 'Failed');
  assert.match(loop.condition('Synchronized')?.message ?? '', /socket/);
  assert.deepEqual(launcher.calls, []);
});

test('a launcher whose socket appears late is started at once', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid, 'not-ready');
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(100_000);
  launcher.mode = 'works';
  await loop.clock.pass(1_100);
  assert.equal(loop.phase(), 'Running');
});

test('a VMI of another node is left alone, when its label moves away', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.change(key, (vmi) => {
    vmi.metadata.labels = { 'kubevirt.io/nodeName': 'node2' };
    vmi.status = { ...vmi.status, nodeName: 'node2' };
  });
  const writes = loop.api.puts.length;
  await loop.clock.pass(120_000);
  assert.equal(loop.rules().at(-1), 'orphan-alive');
  assert.deepEqual(launcher.calls, ['sync']);
  assert.equal(loop.api.puts.length, writes);
  loop.launchers.become(launcher, domainOf('Shutoff', 'Migrated'));
  await loop.clock.pass(1_000);
  assert.deepEqual(launcher.calls, ['sync', 'delete']);
  assert.equal(loop.launchers.get(key), undefined);
});

test('a VMI that never was here costs no API request, when the watch tells of its end', async (t) => {
  const loop = await startLoop(t);
  loop.api.deliver('default/stranger');
  await settle();
  assert.equal(loop.api.lookups, 0);
  assert.equal(loop.dispatcher.remembered, 0);
});

test('an agent restart touches no VM: one sync to adopt it, no write, no event', async (t) => {
  const { loop, launcher } = await startRunning(t);
  const [writes, events] = [loop.api.puts.length, loop.events.length];
  await loop.restart();
  await loop.clock.pass(60_000);
  assert.deepEqual(launcher.calls, ['sync', 'sync']);
  assert.equal(loop.api.puts.length, writes);
  assert.equal(loop.events.length, events);
  assert.equal(loop.rules()[0], 'launcher-not-probed');
});

test('a decision is remembered with the time of each of its steps', async (t) => {
  const { loop } = await startRunning(t);
  const start = loop.dispatcher.reconciler.decisions.of(key).find(({ rule }) => rule === 'start-due');
  assert.deepEqual(
    start?.steps.map(({ step, outcome, tookMs }) => [step, outcome, typeof tookMs]),
    ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'].map((step) => [step, 'done', 'number']),
  );
});

test('a paused guest gets one sync per pause, with which its launcher resumes one that no user paused', async (t) => {
  const { loop, launcher } = await startRunning(t);
  const before = launcher.calls.length;
  loop.launchers.become(launcher, domainOf('Paused', 'Watchdog'));
  await settle();
  loop.launchers.become(launcher, domainOf('Paused', 'Watchdog'));
  await loop.clock.pass(600_000);
  assert.deepEqual(launcher.calls.slice(before), ['sync'], 'one, however long it lasts');
  loop.launchers.become(launcher, domainOf('Running'));
  await settle();
  loop.launchers.become(launcher, domainOf('Paused', 'User'));
  await settle();
  assert.deepEqual(launcher.calls.slice(before), ['sync', 'sync'], 'the next pause has its own');
});

test('a failed sync of a paused guest is told and tried again', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.syncErrors = ['busy'];
  loop.launchers.become(launcher, domainOf('Paused', 'Watchdog'));
  await settle();
  assert.equal(loop.condition('Synchronized')?.status, 'False');
  await loop.clock.pass(60_000);
  assert.equal(loop.condition('Synchronized'), undefined);
  assert.equal(loop.rules().at(-1), 'steady');
});
