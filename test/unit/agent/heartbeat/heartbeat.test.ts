import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Heartbeat, type NodePatch } from '../../../../src/agent/heartbeat/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { FakeClock, settle } from '../../../fixtures/fake-clock.ts';

function heartbeatOn(clock: FakeClock, patchNode: (patch: NodePatch) => void) {
  return new Heartbeat(
    { nodeName: 'node1', periodMs: 60_000, stopTimeoutMs: 1_000 },
    { clock, log: silentLogger, random: () => 0.5, patchNode: async (_name, patch) => patchNode(patch) },
  );
}

test('the node is marked at once, then every one to two minutes, with the time in whole seconds', async () => {
  const clock = new FakeClock();
  const patches: NodePatch[] = [];
  const heartbeat = heartbeatOn(clock, (patch) => patches.push(patch));
  await heartbeat.start();
  await settle();
  assert.deepEqual(patches, [
    {
      metadata: {
        labels: { 'kubevirt.io/schedulable': 'true', cpumanager: 'false', 'kubevirt.io/cpumanager': 'false' },
        annotations: { 'kubevirt.io/heartbeat': '2026-01-02T03:00:00Z' },
      },
    },
  ]);
  await clock.pass(95_000);
  assert.equal(patches.length, 1);
  await clock.pass(2_000);
  assert.equal(patches.length, 2);
  await heartbeat.stop();
});

test('fault 6: a clean stop waits until the node is marked unschedulable', async () => {
  const clock = new FakeClock();
  const patches: NodePatch[] = [];
  const heartbeat = heartbeatOn(clock, (patch) => patches.push(patch));
  await heartbeat.start();
  await settle();
  await heartbeat.stop();
  assert.equal(patches.at(-1)?.metadata.labels['kubevirt.io/schedulable'], 'false');
  assert.equal(clock.timers, 0);
});

test('a beat that fails is tried again soon, and its age can be asked for', async () => {
  const clock = new FakeClock();
  let failures = 3;
  const heartbeat = heartbeatOn(clock, () => {
    if (failures-- > 0) throw new Error('the API server is away');
  });
  await heartbeat.start();
  await settle();
  assert.equal(heartbeat.lastSuccessMs, undefined);
  await clock.pass(6_000);
  assert.equal(heartbeat.lastSuccessMs, 1_006_000);
  await heartbeat.stop();
});

test('stop without start writes nothing', async () => {
  const patches: NodePatch[] = [];
  await heartbeatOn(new FakeClock(), (patch) => patches.push(patch)).stop();
  assert.deepEqual(patches, []);
});
