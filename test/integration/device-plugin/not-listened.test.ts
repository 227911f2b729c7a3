import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { DevicePlugins, type PluginHandle } from '../../../src/device-plugin/index.ts';
import { PathWatch } from '../../../src/host/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { KubeletStandIn } from '../../fixtures/kubelet-stand-in.ts';

/** The plugin's time is the test's; the kubelet, its socket and its calls are real. */

const resource = 'devices.example.com/thing';
const generousMs = 10_000;

let base: string;
let clock: FakeClock;
let watch: PathWatch;
let plugins: DevicePlugins;
let kubelet: KubeletStandIn;
let handle: PluginHandle;

beforeEach(() => {
  base = mkdtempSync(path.join(tmpdir(), 'kubelet-'));
  const directory = path.join(base, 'device-plugins');
  mkdirSync(directory);
  clock = new FakeClock();
  watch = new PathWatch({}, { clock: systemClock });
  plugins = new DevicePlugins({ directory }, { watch, clock, log: silentLogger });
  kubelet = new KubeletStandIn(directory);
  handle = plugins.add({ resourceName: resource, socketName: 'thing.sock', allocate: async () => ({}) });
  handle.setDevices([{ id: 'a', isHealthy: true }]);
});

afterEach(async () => {
  await plugins.stop();
  watch.close();
  await kubelet.close();
  rmSync(base, { recursive: true, force: true });
});

const reported = (times: number) =>
  eventually(
    () => assert.equal(kubelet.registrations.length, times, `told ${kubelet.registrations.length} times`),
    generousMs,
  );
const code = () => {
  const { state } = handle.report();
  return state.kind === 'waiting' ? state.code : state.kind;
};
const becomes = (wanted: string) => eventually(() => assert.equal(code(), wanted), generousMs);

/** Told again after 3 s, and 6 s after that. */
async function deafFor12Seconds(): Promise<void> {
  await becomes('registered');
  await clock.pass(3_000);
  await reported(2);
  await becomes('registered');
  await clock.pass(6_000);
  await reported(3);
  await becomes('registered');
  await clock.pass(3_000);
  assert.equal(code(), 'registered');
}

describe('a kubelet that takes the registration and asks for nothing', () => {
  it('is a problem after 15 s, over further registrations, until it listens', async () => {
    let changes = 0;
    plugins.onChange(() => changes++);
    kubelet.options.isDeaf = true;
    await kubelet.start();
    await deafFor12Seconds();
    const before = changes;
    await clock.pass(3_500);
    await becomes('NOT_LISTENED');
    assert.equal(changes, before + 1);
    const { state } = handle.report();
    assert.ok(state.kind === 'waiting' && /does not ask for its devices/.test(state.reason));
    assert.ok(clock.monotonicMs() - state.sinceMs >= 15_000);
    await clock.pass(12_000);
    await reported(4);
    await clock.pass(1_000);
    assert.equal(code(), 'NOT_LISTENED');
    assert.equal(changes, before + 1, 'a registration that changes nothing is no news');
    kubelet.options.isDeaf = false;
    await clock.pass(60_000);
    await becomes('registered');
    assert.deepEqual(
      kubelet.devices(resource).map(({ ID }) => ID),
      ['a'],
    );
  });

  it('and restarts as one that listens is no problem any more', async () => {
    kubelet.options.isDeaf = true;
    await kubelet.start();
    await deafFor12Seconds();
    await clock.pass(4_000);
    await becomes('NOT_LISTENED');
    kubelet.options.isDeaf = false;
    kubelet.kill();
    await kubelet.start();
    await becomes('registered');
    await eventually(() => assert.equal(handle.report().listeners, 1), generousMs);
  });
});

describe('a kubelet that listened and closes the stream', () => {
  it('without asking again is a problem after 15 s', async () => {
    await kubelet.start();
    await eventually(() => assert.equal(handle.report().listeners, 1), generousMs);
    await becomes('registered');
    await clock.pass(3_600_000);
    assert.equal(code(), 'registered');
    kubelet.options.isDeaf = true;
    kubelet.hangUp(resource);
    await eventually(() => assert.equal(handle.report().listeners, 0), generousMs);
    await clock.pass(3_000);
    await reported(2);
    await clock.pass(11_000);
    assert.equal(code(), 'registered');
    await clock.pass(2_000);
    await becomes('NOT_LISTENED');
  });

  it('each time as soon as it has one is a problem, too', async () => {
    await kubelet.start();
    for (let times = 1; times <= 5; times++) {
      await clock.pass(times === 1 ? 0 : 4_000);
      await reported(times);
      await eventually(() => assert.equal(handle.report().listeners, 1), generousMs);
      kubelet.hangUp(resource);
      await eventually(() => assert.equal(handle.report().listeners, 0), generousMs);
      await becomes(times < 5 ? 'registered' : 'NOT_LISTENED');
    }
  });
});
