import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Domain } from '../../../../../src/api/index.ts';
import { memberAt } from '../../../../../src/base/index.ts';
import { domainOf, key, uid, vmiOf } from '../../../../fixtures/agent/builders.ts';
import type { FakeWorld } from '../../../../fixtures/agent/fake-world.ts';
import { settle } from '../../../../fixtures/fake-clock.ts';
import { type Loop, startLoop } from '../agent-loop.ts';

/** With a record beneath its only disk. */
function recorded(): Domain {
  const domain = domainOf('Running', 'Unknown', { UID: uid });
  const Disks = [{ Alias: { Name: 'data' }, Source: { DataStore: {} } }];
  return { ...domain, Spec: { ...domain.Spec, Devices: { ...domain.Spec?.Devices, Disks } } } as unknown as Domain;
}

async function start(t: TestContext, prepare: (world: FakeWorld) => void = () => undefined): Promise<Loop> {
  const loop = await startLoop(t, prepare);
  const launcher = loop.launchers.run(key, uid);
  const vmi = vmiOf('Scheduled');
  vmi.spec = { ...vmi.spec, volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }] };
  vmi.spec.domain = { ...vmi.spec.domain, devices: { disks: [{ name: 'data', disk: {} }] } };
  vmi.status = { ...vmi.status, changedBlockTracking: { state: 'Initializing' } };
  loop.api.apply(vmi);
  await settle();
  loop.launchers.become(launcher, recorded());
  await settle();
  return loop;
}

const stateOf = (loop: Loop) => memberAt(loop.api.stored(key)?.status, 'changedBlockTracking', 'state');

test('backup trackers are told of a start before the VMI says that changed blocks are tracked, and once', async (t) => {
  const loop = await start(t);
  assert.equal(stateOf(loop), 'Enabled');
  assert.deepEqual(loop.api.started, [key.split('/')[1]]);
  await loop.clock.pass(60_000);
  assert.equal(loop.api.started.length, 1);
});

test('no backup begins while trackers cannot be told: the guest runs, the VMI says why, and it is tried again', async (t) => {
  const loop = await start(t, ({ api }) => {
    api.trackersRefused = 'backup trackers cannot be told: forbidden';
  });
  assert.equal(loop.phase(), 'Running');
  assert.equal(stateOf(loop), 'Initializing');
  assert.match(loop.condition('Synchronized')?.message ?? '', /trackers cannot be told: forbidden/);
  loop.api.trackersRefused = undefined;
  await loop.clock.pass(31_000);
  assert.equal(stateOf(loop), 'Enabled');
  assert.equal(loop.condition('Synchronized'), undefined);
});

test('an API server that does not answer delays it only', async (t) => {
  const loop = await start(t, ({ api }) => {
    api.trackersRefused = new Error('the API server is away');
  });
  assert.notEqual(stateOf(loop), 'Enabled');
  loop.api.trackersRefused = undefined;
  await loop.clock.pass(61_000);
  assert.equal(stateOf(loop), 'Enabled');
  assert.equal(loop.phase(), 'Running');
});
