import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Heartbeat, type NodePatch } from '../../../../../src/agent/node/heartbeat/index.ts';
import type { Node } from '../../../../../src/agent/node/ports.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { FakeNode } from '../../../../fixtures/agent/fake-node.ts';
import { FakeProblems } from '../../../../fixtures/agent/fake-problems.ts';
import { FakeClock, settle } from '../../../../fixtures/fake-clock.ts';

/** A node of which the agent hears nothing, and nothing is wrong with it. */
const quiet = {
  problems: new FakeProblems(),
  node: new FakeNode(),
  hasCpuManager: async () => false,
  report: () => undefined,
  log: silentLogger,
  random: () => 0.5,
};

/** What the API server answers. */
function taken(_: unknown): Node {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1', uid: 'one', resourceVersion: '1' } };
}

function heartbeatOn(clock: FakeClock, patchNode: (patch: NodePatch) => unknown) {
  return new Heartbeat(
    { nodeName: 'node1', periodMs: 60_000, markTimeoutMs: 1_000 },
    { ...quiet, clock, patchNode: async (_name, patch) => taken(patchNode(patch)) },
  );
}

const why = 'virt-handler.kubevirt.io/unschedulable-reason';

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
        annotations: { 'kubevirt.io/heartbeat': '2026-01-02T03:00:00Z', [why]: null },
      },
    },
  ]);
  await clock.pass(95_000);
  assert.equal(patches.length, 1);
  await clock.pass(2_000);
  assert.equal(patches.length, 2);
  assert.deepEqual(Object.keys(patches[1]?.metadata.annotations ?? {}), ['kubevirt.io/heartbeat']);
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
  await clock.pass(6_999);
  assert.equal(heartbeat.lastSuccessMs, undefined);
  await clock.pass(1);
  assert.equal(heartbeat.lastSuccessMs, 1_007_000, 'after 1, 2 and 4 seconds');
  await heartbeat.stop();
});

const yes = 'true';
const no = 'false';
const marks = (patches: readonly NodePatch[]) =>
  patches.map(({ metadata }) => metadata.labels['kubevirt.io/schedulable']);

test('the node is marked not ready before anything else, with the one label upstream writes then, and why', async () => {
  const patches: NodePatch[] = [];
  const heartbeat = heartbeatOn(new FakeClock(), (patch) => patches.push(patch));
  await heartbeat.markStarting(new AbortController().signal);
  const annotations = { [why]: 'AgentStarting: the node agent has not read all it needs yet' };
  assert.deepEqual(patches, [{ metadata: { labels: { 'kubevirt.io/schedulable': no }, annotations } }]);
});

test('an API server that is away does not keep the agent from starting; a signal does', async () => {
  const heartbeat = heartbeatOn(new FakeClock(), () => {
    throw new Error('away');
  });
  await heartbeat.markStarting(new AbortController().signal);
  await assert.rejects(heartbeat.markStarting(AbortSignal.abort(new Error('SIGTERM'))), /away/);
});

test('a node that leaves is marked once, and stays marked while the agent drains', async () => {
  const clock = new FakeClock();
  const patches: NodePatch[] = [];
  const heartbeat = heartbeatOn(clock, (patch) => patches.push(patch));
  await heartbeat.start();
  await settle();
  await heartbeat.leave();
  await heartbeat.leave();
  assert.deepEqual(marks(patches), [yes, no]);
  await clock.pass(97_000);
  assert.deepEqual(marks(patches), [yes, no, no], 'the heartbeat goes on: five silent minutes fail its VMIs');
  await heartbeat.stop();
  assert.deepEqual(marks(patches), [yes, no, no]);
  assert.equal(clock.timers, 0);
});

test('fault 6: a "yes" under way when the agent leaves is followed by the "no", never the other way round', async () => {
  const clock = new FakeClock();
  const patches: NodePatch[] = [];
  let open: () => void = () => undefined;
  const slow = new Promise<void>((resolve) => {
    open = resolve;
  });
  const heartbeat = new Heartbeat(
    { nodeName: 'node1', periodMs: 60_000, markTimeoutMs: 4_000 },
    {
      ...quiet,
      clock,
      patchNode: async (_name, patch) => {
        if (patches.length === 0) await slow;
        return taken(patches.push(patch));
      },
    },
  );
  await heartbeat.start();
  const left = heartbeat.leave();
  await settle();
  open();
  await left;
  await settle();
  assert.deepEqual(marks(patches), [yes, no]);
  await heartbeat.stop();
});

test('while the API server is away the mark is tried again and again, within its limit', async () => {
  const clock = new FakeClock();
  let tries = 0;
  let isAway = false;
  const patches: NodePatch[] = [];
  const heartbeat = heartbeatOn(clock, (patch) => {
    tries++;
    if (isAway) throw new Error('away');
    patches.push(patch);
  });
  await heartbeat.start();
  await settle();
  isAway = true;
  const late = assert.rejects(heartbeat.leave(), { code: 'NOT_MARKED' });
  await clock.pass(1_000);
  await late;
  assert.ok(tries >= 4, `${tries} tries`);
  isAway = false;
  await clock.pass(300);
  assert.deepEqual(marks(patches), [yes, no], 'it is marked when the API server is back');
  await heartbeat.stop();
  assert.equal(clock.timers, 0);
});

test('stop without start writes nothing', async () => {
  const patches: NodePatch[] = [];
  await heartbeatOn(new FakeClock(), (patch) => patches.push(patch)).stop();
  assert.deepEqual(patches, []);
});
