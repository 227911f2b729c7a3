import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GuestAgentCache, readGuestInfo } from '../../../../../src/agent/vmi/guest-agent/index.ts';
import type { Domain } from '../../../../../src/api/index.ts';
import { domainOf, key, uid } from '../../../../fixtures/agent/builders.ts';
import { FakeLaunchers } from '../../../../fixtures/agent/fake-launchers.ts';
import { FakeClock, settle } from '../../../../fixtures/fake-clock.ts';
import { startRunning } from '../agent-loop.ts';

const target = { key, uid, activePods: {} };

function prepared() {
  const clock = new FakeClock();
  const launchers = new FakeLaunchers(clock);
  const launcher = launchers.run(key, uid);
  const cache = new GuestAgentCache({}, { launchers, clock });
  const reported: string[] = [];
  cache.onChange((of) => reported.push(of));
  return { clock, launcher, cache, reported };
}

test('an agent is asked once per connection, in the background, and the answer wakes its VMI', async () => {
  const { cache, launcher, reported, clock } = prepared();
  launcher.guestAgent = { version: '8.2.0', commands: ['guest-info'] };
  assert.equal(cache.view(target, true), undefined, 'nobody waits');
  await settle();
  assert.deepEqual(reported, [key]);
  for (let times = 0; times < 3; times++) assert.deepEqual(cache.view(target, true), launcher.guestAgent);
  await clock.pass(60_000);
  assert.deepEqual(launcher.calls, ['guest-info']);
});

test('a new connection of an agent, and another VMI of the name, are asked anew', async () => {
  const { cache, launcher } = prepared();
  launcher.guestAgent = { version: '1' };
  cache.view(target, true);
  await settle();
  assert.equal(cache.view(target, false), undefined);
  assert.equal(cache.size, 0, 'what is not connected costs nothing');
  launcher.guestAgent = { version: '2' };
  assert.equal(cache.view(target, true), undefined);
  await settle();
  assert.equal(cache.view(target, true)?.version, '2');
  assert.equal(cache.view({ ...target, uid: 'uid-2' }, true), undefined);
});

test('an agent that does not answer is asked again with growing pauses, and one that begins to is heard', async () => {
  const { cache, launcher, clock, reported } = prepared();
  launcher.guestAgent = 'hangs';
  cache.view(target, true);
  await clock.pass(600_000);
  const tries = launcher.calls.length;
  assert.ok(tries >= 4 && tries < 12, `${tries} tries in ten minutes`);
  assert.equal(cache.view(target, true), undefined);
  launcher.guestAgent = { version: '9' };
  await clock.pass(310_000);
  assert.equal(cache.view(target, true)?.version, '9');
  assert.deepEqual(reported, [key]);
});

test('a launcher that has not heard of its agent yet is asked again soon', async () => {
  const { cache, launcher, clock } = prepared();
  cache.view(target, true);
  await settle();
  assert.deepEqual(cache.view(target, true), { version: '' });
  launcher.guestAgent = { version: '9', commands: [] };
  await clock.pass(5_000);
  assert.deepEqual(cache.view(target, true), { version: '9', commands: [] });
});

test('the same answer again is no news', async () => {
  const { cache, launcher, clock, reported } = prepared();
  launcher.guestAgent = { version: '9' };
  cache.view(target, true);
  await clock.pass(3_600_000);
  assert.ok(launcher.calls.length > 3);
  assert.deepEqual(reported, [key]);
});

test('a stopped cache leaves no timer and no call behind', async () => {
  const { cache, launcher, clock, reported } = prepared();
  launcher.guestAgent = 'hangs';
  cache.view(target, true);
  await settle();
  cache.stop();
  await settle();
  assert.equal(clock.timers, 0);
  await clock.pass(3_600_000);
  assert.deepEqual(launcher.calls, ['guest-info']);
  assert.deepEqual(reported, []);
});

function connected(domain: Domain): Domain {
  const Target = { Name: 'org.qemu.guest_agent.0', Type: 'virtio', Address: '', Port: 1, State: 'connected' };
  domain.Spec.Devices.Channels = [{ Target }];
  return domain;
}

test('fault 12: a hanging guest agent delays no write of its VMI’s status', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.guestAgent = 'hangs';
  loop.launchers.become(launcher, connected(domainOf('Paused', 'User')));
  await settle();
  assert.equal(loop.condition('AgentConnected')?.status, 'True');
  assert.equal(loop.condition('Paused')?.reason, 'PausedByUser');
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await settle();
  assert.equal(loop.phase(), 'Succeeded');
});

test('an answer that comes later is written then', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.guestAgent = { version: '1.0' };
  loop.launchers.become(launcher, connected(domainOf('Running')));
  await settle();
  assert.match(loop.condition('AgentVersionNotSupported')?.reason ?? '', /'1\.0' is not supported/);
});

test('an answer is read for what somebody asks for, whatever else is in it', () => {
  const supportedCommands = [
    { name: 'guest-info', enabled: true },
    { name: 'guest-ping', enabled: false },
    { name: 'guest-exec', enabled: 'true' },
    { name: 'something-new', enabled: true },
    ...Array.from({ length: 100_000 }, () => ({ name: 'guest-info', enabled: true })),
    null,
    7,
  ];
  assert.deepEqual(readGuestInfo(JSON.stringify({ guestAgentVersion: '8.2.0', supportedCommands, userList: [{}] })), {
    version: '8.2.0',
    commands: ['guest-info'],
  });
  assert.deepEqual(readGuestInfo('{"guestAgentVersion":"2.1","supportedCommands":[]}'), { version: '2.1' });
  assert.deepEqual(readGuestInfo('{"guestAgentVersion":"2.1"}'), { version: '2.1' });
  assert.equal(readGuestInfo(JSON.stringify({ guestAgentVersion: 'x'.repeat(1_000) })).version.length, 64);
});

test('garbage is an agent of which nothing is known', () => {
  for (const text of ['', '{', 'null', '[]', '7', '{"guestAgentVersion":{}}', '{"supportedCommands":"all"}'])
    assert.deepEqual(readGuestInfo(text), { version: '' }, text);
});
