import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { domainOf, key, launcherDead, node, seen, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { prepared } from '../../../fixtures/agent/host-hooks.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { markDeleted, startLoop, startRunning } from './agent-loop.ts';

/** Upstream's faults as numbered in the specification (00-index): none may occur here. */

function vmiNamed(name: string, vmiUid: string, phase: 'Scheduled' | 'Running' = 'Scheduled'): VirtualMachineInstance {
  const metadata = { name, namespace: 'default', uid: vmiUid, labels: { 'kubevirt.io/nodeName': node } };
  return vmiOf(phase, { metadata, status: { activePods: { [`pod-${vmiUid}`]: node } } });
}

test('fault 1: a failed write of the final phase leaves Succeeded what succeeded', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.failPuts = 12;
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await loop.clock.pass(500);
  assert.equal(loop.phase(), 'Running');
  assert.deepEqual(launcher.calls, ['sync'], 'the evidence is not touched before the phase is written');
  await loop.clock.pass(600_000);
  assert.equal(loop.phase(), 'Succeeded');
});

test('fault 1: the final phase outlives the launcher, when the API server is away until its pod is gone', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.failPuts = 8;
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await loop.clock.pass(100);
  loop.launchers.die(launcher);
  await loop.clock.pass(600_000);
  assert.equal(loop.phase(), 'Succeeded');
});

test('fault 1: what was decided and not written outlives a snapshot that has lost its reason', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.failPuts = 3;
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await settle();
  loop.launchers.become(launcher, domainOf('Shutoff', 'Unknown'));
  await loop.clock.pass(600_000);
  assert.equal(loop.phase(), 'Succeeded');
});

test('a failure that was decided and not written is forgotten when the guest runs after all', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid, 'not-ready');
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(179_000);
  loop.api.failPuts = 1;
  await loop.clock.pass(1_000);
  assert.equal(loop.rules().at(-1), 'launcher-never-ready');
  launcher.mode = 'works';
  await loop.clock.pass(2_000);
  assert.equal(loop.phase(), 'Running');
  const lastDomain = domainOf('Shutoff', 'Shutdown');
  loop.launchers.die(launcher);
  loop.launchers.setView(key, uid, { ...launcherDead, lastDomain });
  await loop.clock.pass(2_000);
  assert.equal(loop.phase(), 'Succeeded');
});

test('fault 1: a 409 on the final phase is answered by writing it on the newest object, without repeating a call', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.conflicts = 1;
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await settle();
  assert.equal(loop.phase(), 'Succeeded');
  assert.ok(loop.api.stored(key)?.metadata.labels?.touched, 'the other write is kept');
});

test('fault 2: a domain first seen defined and not started is not taken for a dead one, in 200 starts of any event order', async (t) => {
  const loop = await startLoop(t);
  const launchers = Array.from({ length: 200 }, (_, index) => {
    const vmiKey = `default/vm-${index}`;
    const launcher = loop.launchers.run(vmiKey, `u${index}`);
    const early = domainOf('Shutoff', 'Unknown', { UID: `u${index}` });
    early.ObjectMeta = { ...early.ObjectMeta, name: `vm-${index}` };
    // Half of them show the defined domain before the agent has ever called them, and before its watch tells of the VMI.
    loop.api.holdWatch = index % 2 === 0;
    loop.api.apply(vmiNamed(`vm-${index}`, `u${index}`));
    if (index % 2 === 0)
      loop.launchers.setView(vmiKey, `u${index}`, seen(early, `u${index}`, loop.clock.monotonicMs()));
    return launcher;
  });
  await settle();
  loop.api.holdWatch = false;
  for (const { key: vmiKey } of launchers) loop.api.deliver(vmiKey);
  await loop.clock.pass(30_000);
  const lost = launchers.filter(({ key: vmiKey }) => loop.phase(vmiKey) !== 'Running');
  assert.deepEqual(
    lost.map(({ key: vmiKey }) => vmiKey),
    [],
  );
  assert.deepEqual(
    launchers.filter(({ calls }) => calls.includes('delete')),
    [],
  );
});

test('fault 4: a domain that claims another UID does not stop the present VMI', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.launchers.setView(key, 'stranger', seen(domainOf('Shutoff', 'Crashed', { UID: 'stranger' }), 'stranger'));
  await loop.clock.pass(30_000);
  assert.equal(loop.phase(), 'Running');
  assert.deepEqual(launcher.calls, ['sync']);
});

test('fault 5: a new VMI with the name of one whose launcher died starts', async (t) => {
  const loop = await startLoop(t, ({ launchers }) => {
    launchers.addGhost(key, 'old');
    launchers.setView(key, 'old', { ...launcherDead, uid: 'old' });
  });
  loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(2_000);
  assert.equal(loop.phase(), 'Running');
  assert.equal(loop.launchers.get(key)?.uid, uid);
});

test('a new VMI waits while the domain of its predecessor still runs, and nothing is called', async (t) => {
  const loop = await startLoop(t);
  const old = loop.launchers.run(key, 'old');
  old.domain = domainOf('Running', 'Unknown', { UID: 'old' });
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  loop.launchers.addGhost(key, 'old');
  loop.launchers.setView(key, 'old', seen(old.domain, 'old'));
  await loop.clock.pass(20_000);
  assert.equal(loop.phase(), 'Scheduled');
  assert.deepEqual([...old.calls, ...launcher.calls], []);
  loop.launchers.die(old);
  loop.launchers.setView(key, 'old', { ...launcherDead, uid: 'old' });
  await loop.clock.pass(6_000);
  assert.equal(loop.phase(), 'Running');
});

test('fault 8: forty hanging launchers delay nobody else', async (t) => {
  const loop = await startLoop(t);
  for (let index = 0; index < 40; index++) {
    loop.launchers.run(`default/hung-${index}`, `h${index}`, 'hangs');
    loop.api.apply(vmiNamed(`hung-${index}`, `h${index}`));
  }
  await settle();
  loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  assert.equal(loop.phase(), 'Running', 'without a timer having passed');
});

test('fault 8: a VMI whose launcher refuses is retried with its own back-off', async (t) => {
  const loop = await startLoop(t);
  const bad = loop.launchers.run('default/bad', 'bad');
  bad.syncErrors = Array.from({ length: 1000 }, () => 'no such disk');
  loop.api.apply(vmiNamed('bad', 'bad'));
  await loop.clock.pass(60_000);
  assert.ok(bad.calls.length < 20, `${bad.calls.length} calls in a minute`);
  loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  assert.equal(loop.phase(), 'Running');
});

test('fault 9: lost ghost records do not make Running VMIs fail after a restart', async (t) => {
  const { loop, launcher } = await startRunning(t);
  await loop.restart(false);
  await loop.clock.pass(60_000);
  assert.equal(loop.phase(), 'Running');
  assert.ok(loop.launchers.get(key), 'the record is made again');
  assert.ok(!launcher.calls.includes('delete'));
});

test('fault 9: a launcher that hung during the restart is followed again when it answers', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.mode = 'hangs';
  await loop.restart();
  await loop.clock.pass(30_000);
  assert.equal(loop.phase(), 'Running');
  launcher.mode = 'works';
  launcher.domain = domainOf('Shutoff', 'Shutdown');
  await loop.clock.pass(200_000);
  assert.equal(loop.phase(), 'Succeeded');
});

test('nothing is decided while the pods directory cannot be read, however long', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.mode = 'unclear';
  await loop.restart(false);
  await loop.clock.pass(600_000);
  assert.equal(loop.phase(), 'Running');
  assert.match(loop.condition('Synchronized')?.message ?? '', /pods cannot be read/);
});

test('a VMI that vanished from the watch is not taken for deleted while the API server cannot be asked', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.failLookups = 3;
  loop.api.remove(key);
  await loop.clock.pass(14_000);
  assert.ok(!launcher.calls.includes('shutdown'));
  await loop.clock.pass(5_000);
  assert.ok(launcher.calls.includes('shutdown'));
});

test('fault 10: a deletion that happened while the agent was away is carried out after its start', async (t) => {
  const { loop, launcher } = await startRunning(t);
  await loop.dispatcher.stop();
  markDeleted(loop);
  await loop.restart();
  await loop.clock.pass(3_000);
  assert.deepEqual(
    launcher.calls.slice(1).filter((call) => call !== 'sync'),
    ['shutdown', 'delete'],
  );
  assert.equal(loop.phase(), 'Succeeded');
});

test('fault 10: a deletion whose event was lost with the watch is carried out after the next list', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.holdWatch = true;
  markDeleted(loop);
  await loop.clock.pass(60_000);
  loop.api.holdWatch = false;
  loop.api.deliver(key);
  await loop.clock.pass(3_000);
  assert.deepEqual(launcher.calls, ['sync', 'shutdown', 'delete']);
});

test('fault 10: a deletion that comes while a pass waits for a hung launcher is not lost with it', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.mode = 'hangs';
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  markDeleted(loop);
  await settle();
  launcher.mode = 'works';
  await loop.clock.pass(60_000);
  assert.ok(!launcher.calls.includes('sync'), 'what is deleted is not started');
  assert.equal(loop.launchers.get(key), undefined);
});

test('fault 10: an object that vanished together with its deletion event is noticed by the next word of its domain', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.holdWatch = true;
  loop.api.remove(key);
  loop.api.holdWatch = false;
  loop.api.relistEmpty();
  await loop.clock.pass(5_000);
  assert.deepEqual(launcher.calls, ['sync', 'shutdown', 'delete']);
});

test('fault 11: host work that an agent left half done is done again after its restart and fails no VMI', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  let state: 'none' | 'started' | 'finished' = 'none';
  const seenStates: string[] = [];
  loop.hooks.push({
    name: 'network',
    prepare: async ({ signal }) => {
      seenStates.push(state);
      const isFirst = state === 'none';
      state = 'started';
      if (isFirst) await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      state = 'finished';
      return prepared;
    },
    release: async () => undefined,
  });
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  assert.equal(state, 'started');
  await loop.restart();
  await loop.clock.pass(5_000);
  assert.deepEqual(seenStates, ['none', 'started']);
  assert.equal(loop.phase(), 'Running');
  assert.deepEqual(launcher.calls, ['sync']);
});

test('fault 11: host work that fails over and over is tried again, told, and never the end of a VMI', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  let failures = 10;
  loop.hooks.push({
    name: 'network',
    prepare: async () => {
      if (failures-- > 0) throw new Error('the network set-up is left in state Started');
      return prepared;
    },
    release: async () => undefined,
  });
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(20_000);
  assert.equal(loop.phase(), 'Scheduled');
  assert.match(loop.condition('Synchronized')?.message ?? '', /left in state Started/);
  await loop.clock.pass(300_000);
  assert.equal(loop.phase(), 'Running');
  assert.deepEqual(launcher.calls, ['sync']);
});

test('fault 12: a hanging guest agent holds up no phase', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.guestAgent = 'hangs';
  const target = { Name: 'org.qemu.guest_agent.0', Type: 'virtio', Address: '', Port: 1, State: 'connected' };
  const domain = domainOf('Running');
  domain.Spec.Devices.Channels = [{ Target: target }];
  loop.launchers.become(launcher, domain);
  await settle();
  assert.ok(loop.condition('AgentConnected'));
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await settle();
  assert.equal(loop.phase(), 'Succeeded', 'without a timer having passed');
});

test('fault 12: an unknown domain writes nothing, and a later phase is still written', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.launchers.setView(key, uid, { kind: 'unknown', uid, reason: 'the guest agent hangs', sinceMs: 0, seenMs: 0 });
  launcher.domain = domainOf('Shutoff', 'Shutdown');
  await loop.clock.pass(11_000);
  assert.equal(loop.phase(), 'Succeeded');
});

test('fault 12: a new guest kernel reaches guestOSInfo although the OS name is the same', async (t) => {
  const { loop, launcher } = await startRunning(t);
  for (const KernelRelease of ['6.1.0', '6.2.0']) {
    const domain = domainOf('Running');
    domain.Status.OSInfo = { ...domain.Status.OSInfo, Name: 'Debian', KernelRelease };
    loop.launchers.become(launcher, domain);
    await settle();
  }
  assert.equal(loop.api.stored(key)?.status?.guestOSInfo?.kernelRelease, '6.2.0');
});

test('a running VMI whose launcher died fails, with a proof', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.launchers.die(launcher);
  await settle();
  assert.equal(loop.phase(), 'Failed');
  assert.equal(loop.launchers.get(key), undefined);
});

test('a storm of conflicts ends in back-off, and the phase is written when it is over', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  loop.api.conflicts = 17;
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(5_000);
  assert.equal(loop.phase(), 'Running');
  assert.deepEqual(launcher.calls, ['sync'], 'no call is repeated because of a conflict');
});

test('a VMI deleted before its guest ran is cleaned up once and costs nothing more', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid, 'not-ready');
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  markDeleted(loop);
  await loop.clock.pass(60_000);
  assert.deepEqual(launcher.calls, []);
  assert.equal(loop.clock.timers, 0);
  assert.equal(loop.released.length, 2);
});
