import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Key, keyOf, type Pod } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import type { SchedulableNode } from '../../../../src/controller/scheduler/fit.ts';
import { type SchedulerDeps, StandaloneScheduler } from '../../../../src/controller/scheduler/scheduler.ts';
import { FakeClock, settle } from '../../../fixtures/fake-clock.ts';
import { buildPod } from '../builders.ts';

const ofAgent = { 'kubevirt.io/schedulable': 'true', 'machine-type.node.kubevirt.io/q35': 'true' };
const labelled = (labels: Record<string, string>): SchedulableNode => {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1', labels } };
};

/** A pod of this age that a scheduler finds at its start. */
async function waiting(selector: Record<string, string>, ageMs = 0) {
  const clock = new FakeClock();
  const base = buildPod();
  const creationTimestamp = new Date(clock.now().getTime() - ageMs).toISOString();
  const { nodeName: _none, ...spec } = base.spec;
  const labels = { 'kubevirt.io': 'virt-launcher' };
  let pod: Pod = {
    ...base,
    metadata: { ...base.metadata, labels, creationTimestamp },
    spec: { ...spec, nodeSelector: selector },
  };
  let node = labelled({ 'kubevirt.io/schedulable': 'true' });
  const events: string[] = [];
  const wakers: { updated?: (object: SchedulableNode, old: SchedulableNode) => void }[] = [];
  const key = keyOf(pod);
  const deps = {
    client: {
      createSubresource: async () => undefined,
      patch: async (_type: unknown, _which: unknown, { status }: { status: Pod['status'] }) => {
        pod = { ...pod, status: { ...pod.status, ...status } };
      },
    },
    ownPods: {
      get: (wanted: Key) => (wanted === key ? pod : undefined),
      keys: () => [key],
      list: () => [pod],
      onChange: () => () => undefined,
      assumed: (_key: Key, bound: Pod) => {
        pod = bound;
      },
    },
    nodes: {
      list: () => [node],
      addHandlers: (handlers: (typeof wakers)[number]) => {
        wakers.push(handlers);
        return () => undefined;
      },
    },
    events: {
      record: (_pod: Pod, type: string, reason: string, message: string) =>
        void events.push(`${type} ${reason}: ${message}`),
    },
    ...{ clock, log: silentLogger, random: () => 0.5 },
  };
  const scheduler = new StandaloneScheduler(deps as unknown as SchedulerDeps);
  await scheduler.start();
  await settle();
  const label = async (labels: Record<string, string>) => {
    const before = node;
    node = labelled(labels);
    for (const { updated } of wakers) updated?.(node, before);
    await settle();
  };
  return { clock, events, label, stop: () => scheduler.stop() };
}

const warning = (label: string) =>
  `Warning FailedScheduling: 0/1 nodes are available: 1 node(s) didn't match Pod's node selector (${label}).`;

test('a pod that is there before the labels of its node’s agent gets no warning, and is bound as soon as they are', async () => {
  const { clock, events, label, stop } = await waiting(ofAgent);
  await clock.pass(4_000);
  assert.deepEqual(events, []);
  await label(ofAgent);
  assert.deepEqual(events, ['Normal Scheduled: Successfully assigned default/virt-launcher-vm1-abcde to node1']);
  await clock.pass(60_000);
  assert.equal(events.length, 1);
  await stop();
});

test('labels of agents that do not come are warned of once, after a short time', async () => {
  const { clock, events, stop } = await waiting(ofAgent);
  await clock.pass(4_999);
  assert.deepEqual(events, []);
  await clock.pass(1);
  assert.deepEqual(events, [warning('machine-type.node.kubevirt.io/q35=true')]);
  await clock.pass(60_000);
  assert.equal(events.length, 1);
  await stop();
});

for (const [title, selector, ageMs] of [
  ['for a label that no agent writes', { ...ofAgent, zone: 'b' }, 0],
  ['for one whose name only ends as those of agents do', { 'notkubevirt.io/a': 'b' }, 0],
  ['for a pod that has waited long enough', ofAgent, 5_000],
  ['for a pod from the future, whose age is not known', ofAgent, -1_000],
] as const) {
  test(`the warning comes at once ${title}`, async () => {
    const { events, stop } = await waiting(selector, ageMs);
    assert.equal(events.length, 1);
    assert.match(events[0] ?? '', /^Warning FailedScheduling: /);
    await stop();
  });
}
