import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Key } from '../../../../../src/api/index.ts';
import { domainOf, key, node, uid, vmiOf } from '../../../../fixtures/agent/builders.ts';
import { settle } from '../../../../fixtures/fake-clock.ts';
import { type Loop, markDeleted, startLoop, startRunning } from '../agent-loop.ts';

function vmiNamed(name: string, vmiUid: string) {
  const metadata = { name, namespace: 'default', uid: vmiUid, labels: { 'kubevirt.io/nodeName': node } };
  return vmiOf('Scheduled', { metadata, status: { activePods: { [`pod-${vmiUid}`]: node } } });
}

const endless = (message: string) => Array.from({ length: 10_000 }, () => message);

/** A VMI whose start is refused each time, long enough to be known for it. */
async function startPoisoned(t: Parameters<typeof startLoop>[0]) {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.syncErrors = endless('no such disk');
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(600_000);
  return { loop, launcher };
}

const reported = (loop: Loop, vmiKey: Key = key) =>
  loop.reasons(vmiKey).filter((reason) => reason === 'Quarantined').length;

test('a VMI that fails the same way ten times in a row is in quarantine, told once and tried on', async (t) => {
  const { loop, launcher } = await startPoisoned(t);
  const entry = loop.dispatcher.reconciler.crashLoops.of(key);
  assert.equal(entry?.where, 'syncVirtualMachine');
  assert.match(entry?.problem ?? '', /no such disk/);
  assert.equal(reported(loop), 1);
  const event = loop.events.find(({ reason }) => reason === 'Quarantined');
  assert.equal(event?.type, 'Warning');
  assert.match(event?.message ?? '', /10 times in a row: .*no such disk.*after 60 s at the latest/);
  const tries = launcher.calls.length;
  await loop.clock.pass(600_000);
  assert.ok(launcher.calls.length > tries, 'it is tried on');
  assert.ok(launcher.calls.length <= tries + 21, `${launcher.calls.length - tries} tries in ten minutes`);
  assert.equal(reported(loop), 1);
  const failures = loop.dispatcher.reconciler.crashLoops.of(key)?.failures;
  assert.ok((failures ?? 0) >= 10);
  assert.equal(loop.dispatcher.reconciler.tryOf(key).failuresInARow, failures, 'both say the same');
});

test('the event tells the longest pause between two tries, also of a start whose domain comes and goes each time', async (t) => {
  const { loop, launcher } = await startPoisoned(t);
  const message = loop.events.find(({ reason }) => reason === 'Quarantined')?.message ?? '';
  const latestSeconds = Number(/after (\d+) s at the latest/.exec(message)?.[1]);
  const tries = () => launcher.calls.filter((call) => call === 'sync').length;
  const triedAt: number[] = [];
  for (let second = 0; second < 600; second++) {
    const before = tries();
    loop.launchers.become(launcher, second % 2 === 0 ? domainOf('Shutoff', 'Unknown') : undefined);
    await loop.clock.pass(1_000);
    if (tries() > before) triedAt.push(second);
  }
  const pauses = triedAt.map((second, index) => second - (triedAt[index - 1] ?? 0));
  assert.ok(pauses.length >= 600 / latestSeconds, `${pauses.length} tries in ten minutes`);
  assert.ok(Math.max(...pauses) <= latestSeconds + 1, `pauses of ${pauses} s, ${latestSeconds} s are told`);
});

test('nine failures are no quarantine yet', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.syncErrors = endless('no such disk').slice(0, 9);
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(600_000);
  assert.equal(loop.phase(), 'Running');
  assert.equal(reported(loop), 0);
});

test('a quarantined VMI whose cause is gone runs, and is out', async (t) => {
  const { loop, launcher } = await startPoisoned(t);
  launcher.syncErrors = [];
  await loop.clock.pass(61_000);
  assert.equal(loop.phase(), 'Running');
  assert.equal(loop.dispatcher.reconciler.crashLoops.of(key), undefined);
  assert.equal(loop.dispatcher.reconciler.tryOf(key).failuresInARow, 0);
});

test('a quarantined VMI that is changed is tried at once and begins anew', async (t) => {
  const { loop, launcher } = await startPoisoned(t);
  const tries = launcher.calls.length;
  loop.api.change(key, (vmi) => {
    vmi.spec.terminationGracePeriodSeconds = 7;
  });
  await settle();
  assert.equal(launcher.calls.length, tries + 1);
  assert.equal(loop.dispatcher.reconciler.crashLoops.of(key), undefined);
});

test('a quarantined VMI that is deleted is cleaned up at once, and nothing of it is left', async (t) => {
  const { loop } = await startPoisoned(t);
  markDeleted(loop);
  await loop.clock.pass(20_000);
  assert.equal(loop.dispatcher.reconciler.crashLoops.of(key), undefined);
  loop.api.remove(key);
  await loop.clock.pass(20_000);
  assert.equal(loop.dispatcher.remembered, 0);
  assert.deepEqual(loop.dispatcher.reconciler.crashLoops.keys(), []);
  assert.ok(loop.dispatcher.reconciler.decisions.goneAt(key), 'why it went can still be asked');
});

test('an API server that is away quarantines nobody', async (t) => {
  const loop = await startLoop(t);
  loop.launchers.run(key, uid);
  loop.api.failPuts = 40;
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(300_000);
  assert.equal(reported(loop), 0);
  assert.deepEqual(loop.dispatcher.reconciler.crashLoops.keys(), []);
});

test('a quarantined kill is still repeated every five seconds: no guest outlives its grace for it', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.onShutdown = 'ignores';
  launcher.killError = 'device busy';
  markDeleted(loop);
  await loop.clock.pass(230_000);
  assert.equal(loop.dispatcher.reconciler.crashLoops.of(key)?.where, 'killDomain');
  const kills = () => launcher.calls.filter((call) => call === 'kill').length;
  const before = kills();
  await loop.clock.pass(60_000);
  assert.ok(kills() >= before + 11, `${kills() - before} kills in a minute`);
  launcher.killError = undefined;
  await loop.clock.pass(20_000);
  assert.equal(loop.dispatcher.reconciler.crashLoops.of(key), undefined);
});

test('a pass that throws is a record, and ten of them are a quarantine, of this VMI only', async (t) => {
  let poisoned = false;
  const loop = await startLoop(t, ({ ports }) => {
    Object.defineProperty(ports.host, 'nodeName', {
      get: () => {
        if (poisoned) throw new TypeError('a bug');
        return node;
      },
    });
  });
  loop.launchers.run(key, uid);
  poisoned = true;
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(60_000);
  poisoned = false;
  assert.deepEqual(new Set(loop.rules()), new Set(['pass-failed']));
  assert.equal(loop.dispatcher.reconciler.decisions.last(key)?.problem, 'a bug');
  assert.equal(loop.dispatcher.reconciler.crashLoops.of(key)?.where, 'pass');
  await loop.clock.pass(70_000);
  assert.equal(loop.phase(), 'Running');
  assert.equal(loop.dispatcher.reconciler.crashLoops.of(key), undefined);
});

test('ten poisoned VMIs among four hundred cost the others nothing', async (t) => {
  const loop = await startLoop(t);
  const poisoned: Key[] = [];
  for (let index = 0; index < 10; index++) {
    const vmiKey = `default/bad-${index}`;
    loop.launchers.run(vmiKey, `bad${index}`).syncErrors = endless('no such disk');
    loop.api.apply(vmiNamed(`bad-${index}`, `bad${index}`));
    poisoned.push(vmiKey);
  }
  await loop.clock.pass(600_000);
  assert.deepEqual(loop.dispatcher.reconciler.crashLoops.keys().sort(), poisoned);
  const others: Key[] = [];
  for (let index = 0; index < 400; index++) {
    loop.launchers.run(`default/good-${index}`, `good${index}`);
    loop.api.apply(vmiNamed(`good-${index}`, `good${index}`));
    others.push(`default/good-${index}`);
  }
  const beganMs = loop.clock.monotonicMs();
  await settle();
  await settle();
  assert.deepEqual(
    others.filter((vmiKey) => loop.phase(vmiKey) !== 'Running'),
    [],
    'all run without a timer having passed',
  );
  assert.equal(loop.clock.monotonicMs(), beganMs);
});
