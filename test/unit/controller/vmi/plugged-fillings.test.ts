import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FillingState } from '../../../../src/controller/data-volumes/index.ts';
import { renderTriggerPod } from '../../../../src/controller/pod/index.ts';
import { planAttachments } from '../../../../src/controller/vmi/attachments.ts';
import { volumeStatus } from '../../../../src/controller/vmi/volume-status.ts';
import { buildConfig, buildPod, buildRunningPod, buildVmi } from '../builders.ts';
import { attached, claim, pluggedSpec } from './plugged.ts';

/** A claim that a DataVolume fills, plugged into a guest that runs. */
interface Row {
  readonly state: FillingState;
  readonly phase: 'Pending' | 'Bound';
  readonly triggers?: ReturnType<typeof attached>[];
  readonly known?: string;
  readonly expected: string;
}

const trigger = attached('trigger', 'Succeeded', 'data');
const ending = { ...trigger, pod: { ...trigger.pod, metadata: { ...trigger.pod.metadata, deletionTimestamp: 'x' } } };

const rows: readonly Row[] = [
  { state: 'awaits-consumer', phase: 'Pending', expected: 'trigger data' },
  { state: 'awaits-consumer', phase: 'Pending', triggers: [trigger], expected: '-' },
  { state: 'awaits-consumer', phase: 'Pending', triggers: [ending], expected: 'trigger data' },
  { state: 'awaits-consumer', phase: 'Pending', triggers: [{ ...trigger, isOwn: false }], expected: 'trigger data' },
  { state: 'filling', phase: 'Bound', triggers: [trigger], expected: 'delete uid-trigger' },
  { state: 'filled', phase: 'Bound', triggers: [trigger], expected: 'make data; delete uid-trigger' },
  { state: 'filled', phase: 'Pending', expected: 'make data' },
  { state: 'failed', phase: 'Bound', expected: '-' },
  { state: 'missing', phase: 'Bound', expected: '-' },
  { state: 'unread', phase: 'Bound', expected: '-' },
  { state: 'unread', phase: 'Bound', known: 'Ready', expected: 'make data' },
];

function factsOf({ state, phase, triggers = [], known }: Omit<Row, 'expected'>) {
  const entries = known === undefined ? [] : [{ name: 'data', target: 'sda', phase: known, hotplugVolume: {} }];
  const vmi = buildVmi(pluggedSpec('data'), { phase: 'Running', volumeStatus: entries });
  const pod = buildRunningPod();
  const detail = `DataVolume data: ${state}`;
  return {
    ...{ vmi, pod, pods: [pod], foreignPods: [], temporaryPod: undefined, attachments: [], triggers, fillings: [] },
    claims: new Map([['data', claim('data', { status: { phase } })]]),
    pluggedFillings: [{ claim: 'data', state, detail }],
    keptState: { kind: 'none' as const },
    ...{ hasOwnerVm: false, tscFrequency: undefined, config: buildConfig(), now: new Date(0) },
  };
}

for (const { expected, ...row } of rows) {
  const pods = row.triggers?.map(
    ({ isOwn, pod }) => `${isOwn ? 'own' : 'foreign'} pod${pod === ending.pod ? ' that ends' : ''}`,
  );
  test(`a claim to be plugged in is ${row.state}, ${row.phase}, ${row.known ?? 'new'}, ${pods ?? 'no pod'}: ${expected}`, () => {
    const plan = planAttachments(factsOf(row), () => buildPod());
    const words = [
      ...(plan.wanted ? ['make data'] : []),
      ...plan.awaiting.map((name) => `trigger ${name}`),
      ...plan.superseded.map(({ metadata }) => `delete ${metadata.uid}`),
    ];
    assert.equal(words.join('; ') || '-', expected);
  });
}

test('a pod that failed to ask for its claim is replaced after a pause, whatever the clocks say', () => {
  const failed = attached('trigger', 'Failed', 'data');
  const made = Date.parse(failed.pod.metadata.creationTimestamp ?? '');
  const after = (ms: number, triggers = [failed]) => {
    const facts = factsOf({ state: 'awaits-consumer', phase: 'Pending', triggers });
    const plan = planAttachments({ ...facts, now: new Date(made + ms) }, () => buildPod());
    return [plan.awaiting, plan.superseded.map(({ metadata }) => metadata.uid), plan.againMs];
  };
  assert.deepEqual(after(1_000), [[], [], 29_000]);
  assert.deepEqual(after(-3_600_000), [[], [], 30_000]);
  assert.deepEqual(after(30_000), [['data'], ['uid-trigger'], undefined]);
  const next = attached('next', 'Pending', 'data');
  assert.deepEqual(after(30_000, [failed, next]), [[], ['uid-trigger'], undefined]);
  const facts = { ...factsOf({ state: 'filled', phase: 'Bound', triggers: [failed] }), now: new Date(made) };
  assert.deepEqual(planAttachments(facts, () => buildPod()).superseded, [failed.pod]);
});

test('the entry of the volume says how far its DataVolume is', () => {
  const [waits] = volumeStatus(factsOf({ state: 'awaits-consumer', phase: 'Pending' }));
  assert.equal(waits?.message, 'PVC is in phase ClaimPending; DataVolume data: awaits-consumer');
  const [half] = volumeStatus(factsOf({ state: 'filling', phase: 'Bound' }));
  assert.equal(half?.message, 'PVC is in phase Bound; DataVolume data: filling');
  const [whole] = volumeStatus(factsOf({ state: 'filled', phase: 'Bound' }));
  assert.equal(whole?.message, 'PVC is in phase Bound');
});

test('the pod that asks for a claim does it on the node of the guest, and nothing else', () => {
  const { metadata, spec } = renderTriggerPod('hp-volume-abcde', buildRunningPod(), 'data', buildConfig());
  assert.equal(metadata.annotations?.['kubevirt.io/ephemeral-provisioning'], 'true');
  assert.deepEqual(metadata.labels, { 'kubevirt.io': 'hotplug-disk' });
  assert.equal(metadata.ownerReferences?.[0]?.uid, 'uid-pod');
  assert.deepEqual(spec.volumes, [{ name: 'claim', persistentVolumeClaim: { claimName: 'data' } }]);
  assert.deepEqual(
    spec.containers.map(({ command, volumeMounts }) => [command, volumeMounts]),
    [[['/bin/sh', '-c', 'exit 0'], undefined]],
  );
  assert.match(JSON.stringify(spec.affinity), /"values":\["node1"\]/);
  assert.equal(spec.restartPolicy, 'Never');
});
