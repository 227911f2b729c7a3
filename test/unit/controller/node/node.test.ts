import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod, VirtualMachineInstance, VmiPhase } from '../../../../src/api/index.ts';
import { decideNode, nodeRules } from '../../../../src/controller/node/decide.ts';
import { executors } from '../../../../src/controller/node/execute.ts';
import { observeNode } from '../../../../src/controller/node/observe.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildPod, buildRunningPod, buildVmi, cacheOf } from '../builders.ts';

interface State {
  /** Age of the heartbeat by this machine's clock; null: there was never one; a text: what stands there. */
  readonly ageS?: number | null | string;
  /** Since when this process knows it. */
  readonly knownS?: number;
  readonly isSchedulable?: boolean;
  readonly isGone?: boolean;
  readonly vmis?: readonly VirtualMachineInstance[];
  readonly pods?: readonly Pod[];
}

const guest = (phase: VmiPhase = 'Running', nodeName = 'node1') => buildVmi({}, { phase, nodeName });
const ended = buildPod({ phase: 'Failed' });
const terminated = buildRunningPod({
  containerStatuses: [
    {
      name: 'compute',
      state: { terminated: { exitCode: 137 } },
      ready: false,
      restartCount: 0,
      image: '',
      imageID: '',
    },
  ],
});

function observed({ ageS = 10, knownS = 400, isSchedulable = true, isGone, vmis = [], pods = [] }: State) {
  const clock = new FakeClock();
  const now = clock.now().getTime();
  const text = typeof ageS === 'string' ? ageS : new Date(now - (ageS ?? 0) * 1000).toISOString();
  const annotations = ageS === null ? {} : { 'kubevirt.io/heartbeat': text };
  const labels = { 'kubevirt.io/schedulable': String(isSchedulable) };
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1', uid: 'uid-node', annotations, labels } };
  const observation = observeNode('node1', {
    nodes: { get: () => (isGone ? undefined : node) },
    vmis: cacheOf(vmis),
    ownPods: cacheOf(pods),
    heartbeats: { of: (_, text) => ({ text, sinceMs: clock.monotonicMs() - knownS * 1000 }) },
    clock,
  });
  return { observation, node };
}

/** Rule, steps and when it is looked at again. */
const rows: readonly (readonly [when: string, state: State, expected: string])[] = [
  ['its heartbeat is fresh', { knownS: 10 }, 'agent-there  290 s'],
  ['no agent was ever there', { ageS: null }, 'no-agent-yet'],
  ['its heartbeat is five minutes old', { ageS: 300, knownS: 300 }, 'agent-unheard-of markUnschedulable 0 s'],
  ['its heartbeat is old by our clock, and this process is new', { ageS: 4000, knownS: 0 }, 'agent-there  150 s'],
  [
    'its heartbeat is old by our clock, and no other has followed',
    { ageS: 4000, knownS: 150 },
    'agent-unheard-of markUnschedulable 0 s',
  ],
  [
    'its heartbeat is of the future, and no other has followed',
    { ageS: -4000, knownS: 300 },
    'agent-unheard-of markUnschedulable 0 s',
  ],
  ['its heartbeat is of the future', { ageS: -4000, knownS: 60 }, 'agent-there  240 s'],
  ['its heartbeat is no time', { ageS: 'yesterday', knownS: 60 }, 'agent-there  240 s'],
  [
    'its heartbeat is no time, and no other has followed',
    { ageS: 'yesterday', knownS: 300 },
    'agent-unheard-of markUnschedulable 0 s',
  ],
  ['it says so already', { ageS: 900, isSchedulable: false }, 'agent-gone'],
  ['its agent is there, and a pod is not', { vmis: [guest()], knownS: 10 }, 'agent-there  290 s'],
  ['a guest has no pod any more', { ageS: 900, isSchedulable: false, vmis: [guest()] }, 'guests-lost failVmis 60 s'],
  [
    'the pod of a guest that was to start is gone',
    { ageS: 900, isSchedulable: false, vmis: [guest('Scheduled')] },
    'guests-lost failVmis 60 s',
  ],
  [
    'the pod of a guest has ended',
    { ageS: 900, isSchedulable: false, vmis: [guest()], pods: [ended] },
    'guests-lost failVmis 60 s',
  ],
  [
    'the containers of a guest have ended',
    { ageS: 900, isSchedulable: false, vmis: [guest()], pods: [terminated] },
    'guests-lost failVmis 60 s',
  ],
  [
    'the pod of a guest may run',
    { ageS: 900, isSchedulable: false, vmis: [guest()], pods: [buildRunningPod()] },
    'guests-unproven  60 s',
  ],
  [
    'a guest may have arrived elsewhere',
    {
      isGone: true,
      vmis: [guest()],
      pods: [ended, buildPod({ phase: 'Running' }, { name: 'target', uid: 'uid-target' })],
    },
    'guests-unproven  60 s',
  ],
  ['it does not exist, and a guest was there', { isGone: true, vmis: [guest()] }, 'guests-lost failVmis 60 s'],
  ['it does not exist', { isGone: true }, 'node-gone'],
  [
    'guests that have ended, or are elsewhere, are none of it',
    { ageS: 900, isSchedulable: false, vmis: [guest('Succeeded'), guest('Running', 'node2')] },
    'agent-gone',
  ],
];

for (const [when, state, expected] of rows) {
  test(`a node: ${when}`, () => {
    const { rule, steps, requeueAfterMs } = decideNode(observed(state).observation);
    const names = steps.map(({ step }) => step).join(' ');
    const again = requeueAfterMs === undefined ? '' : ` ${requeueAfterMs / 1000} s`;
    assert.equal(again === '' && names === '' ? rule : `${rule} ${names}${again}`, expected);
  });
}

test('every rule has a row', () => {
  const met = new Set(rows.map(([, , expected]) => expected.split(' ', 1)[0]));
  assert.deepEqual([...met].sort(), nodeRules.map(({ name }) => name).sort());
});

/** What was patched, when the API server knows this of the node and of the pods. */
async function patched(heartbeat: 'same' | 'newer' | 'gone', pods: readonly Pod[]): Promise<string[]> {
  const vmi = guest();
  const { observation, node } = observed({ ageS: 900, isSchedulable: false, vmis: [vmi] });
  const annotations = { 'kubevirt.io/heartbeat': '2026-12-01T00:00:00Z' };
  const newer = { ...node, metadata: { ...node.metadata, annotations } };
  const patches: string[] = [];
  const client = {
    get: async () =>
      ({ same: node, newer, gone: { ...node, metadata: { ...node.metadata, uid: 'another' } } })[heartbeat],
    list: async () => ({ items: pods }),
    patch: async (_: object, { name }: { name: string }, body: { path: string; value: unknown }[]) => {
      patches.push(`${name} ${body.map(({ path, value }) => `${path}=${value}`).slice(2)}`);
      return vmi;
    },
  };
  const context = {
    client: client as never,
    vmis: cacheOf([vmi]),
    observation,
    noteOnVmi: (_: object, { reason }: { reason: string }) => void patches.push(reason),
    signal: AbortSignal.timeout(1000),
  };
  await executors.failVmis({ step: 'failVmis', vmis: observation.lost }, context as never);
  return patches;
}

test('a VMI fails when the API server confirms that nothing of it runs', async () => {
  const expected = ['vm1 /status/phase=Failed,/status/reason=NodeUnresponsive', 'NodeUnresponsive'];
  assert.deepEqual(await patched('same', []), expected);
  assert.deepEqual(await patched('same', [ended]), expected);
});

test('nothing is done on the word of a cache: a pod runs, the agent is back, or the node is another one', async () => {
  assert.deepEqual(await patched('same', [buildRunningPod()]), []);
  assert.deepEqual(await patched('newer', []), []);
  assert.deepEqual(await patched('gone', []), []);
});
