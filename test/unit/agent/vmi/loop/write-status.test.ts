import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WriteResult } from '../../../../../src/agent/index.ts';
import type { Domain, VirtualMachineInstance } from '../../../../../src/api/index.ts';
import { domainOf, key, uid, vmiOf } from '../../../../fixtures/agent/builders.ts';
import type { FakeLauncher } from '../../../../fixtures/agent/fake-launchers.ts';
import { settle } from '../../../../fixtures/fake-clock.ts';
import { type Loop, startLoop, startRunning } from '../agent-loop.ts';

type Vmi = VirtualMachineInstance;
type Refusal = Extract<WriteResult, { kind: 'refused' }>;

const denied: Refusal = {
  kind: 'refused',
  code: 'NOT_ALLOWED',
  message: 'admission webhook "w" denied the request: no',
};
const tooLarge: Refusal = { kind: 'refused', code: 'TOO_LARGE', message: 'etcdserver: request is too large' };

const refuseIf = (loop: Loop, refusal: Refusal, isBad: (vmi: Vmi) => boolean) => {
  loop.api.refuse = (vmi) => (isBad(vmi) ? refusal : undefined);
};

function withGuest(name: string): Domain {
  const domain = domainOf('Running', 'Unknown', { UID: uid });
  domain.Status.OSInfo = { ...domain.Status.OSInfo, Name: name };
  domain.Status.Interfaces = [{ Mac: '02:00:00:00:00:09', Ip: '10.0.0.9', IPs: null, InterfaceName: 'eth9' }];
  return domain;
}

async function become(loop: Loop, launcher: FakeLauncher, domain: Domain): Promise<void> {
  loop.launchers.become(launcher, domain);
  await settle();
}

const stored = (loop: Loop) => loop.api.stored(key)?.status;
const problemEvents = (loop: Loop) => loop.events.filter(({ reason }) => reason === 'SyncFailed');

test('what admission refuses is left out, the other fields are written, and a condition says so', async (t) => {
  const { loop, launcher } = await startRunning(t);
  refuseIf(loop, denied, (vmi) => vmi.status?.guestOSInfo?.name === 'BadOS');
  await become(loop, launcher, withGuest('BadOS'));
  assert.deepEqual(stored(loop)?.guestOSInfo ?? {}, {});
  assert.equal(stored(loop)?.interfaces?.[0]?.interfaceName, 'eth9');
  const condition = loop.condition('Synchronized');
  assert.equal(condition?.status, 'False');
  assert.match(condition?.message ?? '', /does not take status\.guestOSInfo .*admission webhook "w" denied/);
  assert.equal(problemEvents(loop).length, 1);
});

test('a refused part makes no loop: nothing is tried before its pause ends, and each pause is longer', async (t) => {
  const { loop, launcher } = await startRunning(t);
  refuseIf(loop, denied, (vmi) => vmi.status?.guestOSInfo?.name !== undefined);
  await become(loop, launcher, withGuest('BadOS'));
  const tries = loop.api.putTries;
  await become(loop, launcher, withGuest('WorseOS'));
  await loop.clock.pass(29_000);
  assert.equal(loop.api.putTries, tries);
  await loop.clock.pass(3_600_000);
  const more = loop.api.putTries - tries;
  assert.ok(more >= 2 && more <= 30, `${more} tries in an hour`);
  assert.equal(problemEvents(loop).length, 1, 'the user is told once');
});

test('a part that is taken again is written, and the condition goes', async (t) => {
  const { loop, launcher } = await startRunning(t);
  refuseIf(loop, denied, (vmi) => vmi.status?.guestOSInfo?.name !== undefined);
  await become(loop, launcher, withGuest('SomeOS'));
  assert.ok(loop.condition('Synchronized'));
  loop.api.refuse = () => undefined;
  await loop.clock.pass(31_000);
  assert.equal(stored(loop)?.guestOSInfo?.name, 'SomeOS');
  assert.equal(loop.condition('Synchronized'), undefined);
});

test('a status that was not written is written soon after the API server is back, also when others wrote the VMI meanwhile', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.failPuts = 20;
  await become(loop, launcher, withGuest('SomeOS'));
  for (let write = 0; write < 40 && loop.api.failPuts > 0; write++) {
    loop.api.change(key, ({ metadata }) => {
      metadata.labels = { ...metadata.labels, touched: String(write) };
    });
    await settle();
  }
  assert.deepEqual([loop.api.failPuts, stored(loop)?.guestOSInfo?.name], [0, undefined]);
  await loop.clock.pass(16_000);
  assert.equal(stored(loop)?.guestOSInfo?.name, 'SomeOS');
});

test('a guest that ends is written at once while a part is refused', async (t) => {
  const { loop, launcher } = await startRunning(t);
  refuseIf(loop, denied, (vmi) => vmi.status?.guestOSInfo?.name !== undefined);
  await become(loop, launcher, withGuest('BadOS'));
  await become(loop, launcher, domainOf('Shutoff', 'Shutdown', { UID: uid }));
  assert.equal(loop.phase(), 'Succeeded');
  assert.deepEqual(
    loop.reasons().filter((reason) => reason === 'Stopped'),
    ['Stopped'],
  );
});

test('several refused parts leave the essential: the phase and the word about it', async (t) => {
  const loop = await startLoop(t);
  refuseIf(loop, denied, ({ status }) => Boolean(status?.machine || status?.memory || status?.migrationMethod === 'x'));
  loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  assert.equal(loop.phase(), 'Running');
  assert.match(loop.condition('Synchronized')?.message ?? '', /anything but the essential/);
  assert.ok(loop.reasons().includes('Started'));
});

test('an object that is too large for more than its phase gets its phase: room is made of what guests fill', async (t) => {
  const { loop, launcher } = await startRunning(t);
  await become(loop, launcher, withGuest('SomeOS'));
  assert.equal(stored(loop)?.interfaces?.length, 1);
  refuseIf(loop, tooLarge, ({ status }) => (status?.interfaces?.length ?? 0) > 0);
  const ended = withGuest('SomeOS');
  ended.Status = { ...ended.Status, Status: 'Shutoff', Reason: 'Shutdown' };
  await become(loop, launcher, ended);
  assert.equal(loop.phase(), 'Succeeded');
  assert.equal(stored(loop)?.interfaces, undefined);
});

test('a change of which nothing is taken is told once, backed off, and written when it is taken', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.api.refuse = () => denied;
  const before = loop.api.putTries;
  await become(loop, launcher, domainOf('Shutoff', 'Shutdown', { UID: uid }));
  assert.equal(loop.phase(), 'Running');
  await loop.clock.pass(600_000);
  const tries = loop.api.putTries - before;
  assert.ok(tries < 60, `${tries} tries in ten minutes`);
  assert.deepEqual(
    problemEvents(loop).map(({ message }) => message),
    ['the API server takes no change of this VirtualMachineInstance: admission webhook "w" denied the request: no'],
  );
  loop.api.refuse = () => undefined;
  await loop.clock.pass(61_000);
  assert.equal(loop.phase(), 'Succeeded', 'the final phase outlives the refusal');
});

test('a conflict in the middle of a refusal is answered with the newest object', async (t) => {
  const { loop, launcher } = await startRunning(t);
  refuseIf(loop, denied, (vmi) => vmi.status?.guestOSInfo?.name !== undefined);
  loop.api.conflicts = 2;
  await become(loop, launcher, withGuest('BadOS'));
  assert.equal(stored(loop)?.interfaces?.[0]?.interfaceName, 'eth9');
  assert.ok(loop.api.stored(key)?.metadata.labels?.touched);
});

test('words of the server that repeat the whole object are cut', async (t) => {
  const { loop, launcher } = await startRunning(t);
  const long: Refusal = { ...denied, message: 'x'.repeat(1_000_000) };
  refuseIf(loop, long, (vmi) => vmi.status?.guestOSInfo?.name !== undefined);
  await become(loop, launcher, withGuest('BadOS'));
  assert.ok((loop.condition('Synchronized')?.message ?? '').length < 2_000);
});

test('a restarted agent does not write again what is refused and told', async (t) => {
  const { loop, launcher } = await startRunning(t);
  refuseIf(loop, denied, (vmi) => vmi.status?.guestOSInfo?.name !== undefined);
  await become(loop, launcher, withGuest('BadOS'));
  const written = loop.api.puts.length;
  await loop.restart();
  assert.equal(loop.api.puts.length, written);
  assert.equal(problemEvents(loop).length, 1);
});
