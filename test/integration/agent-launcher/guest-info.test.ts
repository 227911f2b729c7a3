import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launcherPort } from '../../../src/agent/vmi/adapters/index.ts';
import { GuestAgentCache } from '../../../src/agent/vmi/guest-agent/index.ts';
import { systemClock } from '../../../src/base/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { type ClientsBench, eachTestHasClientsBench, targetOf } from '../launcher-client/clients-bench.ts';

let bench: ClientsBench;
eachTestHasClientsBench((each) => {
  bench = each;
});
const { signal } = new AbortController();
const response = { success: true, message: '' };

test('a guest’s agent is read off the wire, bounded to what anybody asks for', async () => {
  const launcher = await bench.launcherOf();
  const info = {
    guestAgentVersion: '8.2.0',
    supportedCommands: [
      { name: 'guest-ping', enabled: true },
      { name: 'guest-info', enabled: false },
      { name: 'guest-unheard-of', enabled: true },
    ],
    hostname: 'x'.repeat(100_000),
  };
  launcher.on('getGuestInfo', () => ({ response, guestInfoResponse: JSON.stringify(info) }));
  const calls = await launcherPort(bench.clientsOf()).connect(targetOf(), signal);
  assert.deepEqual(await calls.getGuestInfo(signal), { version: '8.2.0', commands: ['guest-ping'] });
});

test('garbage for a guest’s agent is an agent of which nothing is known', async () => {
  const launcher = await bench.launcherOf();
  launcher.on('getGuestInfo', () => ({ response, guestInfoResponse: '{"guestAgentVersion":' }));
  const calls = await launcherPort(bench.clientsOf()).connect(targetOf(), signal);
  assert.deepEqual(await calls.getGuestInfo(signal), { version: '' });
});

test('a launcher that fails or hangs over its guest’s agent costs the asker nothing, and is heard when it answers', async (t) => {
  const launcher = await bench.launcherOf();
  const launchers = launcherPort(bench.clientsOf());
  const cache = new GuestAgentCache({ timeoutMs: 200, retryMs: 50 }, { launchers, clock: systemClock });
  t.after(() => cache.stop());
  launcher.hang('getGuestInfo');
  const startedMs = performance.now();
  assert.equal(cache.view(targetOf(), true), undefined);
  assert.ok(performance.now() - startedMs < 100);
  await eventually(() => assert.ok(launcher.calls.filter(({ rpc }) => rpc === 'getGuestInfo').length >= 2));
  launcher.on('getGuestInfo', () => ({ response, guestInfoResponse: '{"guestAgentVersion":"9.0"}' }));
  await eventually(() => assert.deepEqual(cache.view(targetOf(), true), { version: '9.0' }));
});
