import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { finalizers, type Pod, type VirtualMachineInstance, type VmiPhase } from '../../../../src/api/index.ts';
import { decideVmi } from '../../../../src/controller/vmi/decide.ts';
import type { VmiObservation } from '../../../../src/controller/vmi/observation.ts';
import { buildConfig, buildPod, buildRunningPod, buildVmi } from '../builders.ts';

const deletionTimestamp = '2026-01-01T00:10:00Z';
const now = new Date('2026-01-01T00:20:00Z');

function vmiIn(phase: VmiPhase, metadata: Partial<VirtualMachineInstance['metadata']> = {}): VirtualMachineInstance {
  return buildVmi({}, { phase, conditions: [] }, { finalizers: [finalizers.vmi], ...metadata });
}

const pausedVmi = vmiIn('Running');
pausedVmi.status?.conditions?.push({ type: 'Paused', status: 'True' });
const terminating = buildPod({ phase: 'Running' }, { deletionTimestamp });
const another = buildPod({ phase: 'Running' }, { name: 'virt-launcher-vm1-other', uid: 'uid-other' });
const unpaused = (status: 'True' | 'False'): NonNullable<Pod['status']> => ({
  conditions: [{ type: 'kubevirt.io/virtual-machine-unpaused', status }],
});

interface Row {
  readonly rule: string;
  readonly when: string;
  readonly vmi: VirtualMachineInstance;
  readonly pods?: readonly Pod[];
  readonly foreign?: readonly Pod[];
  /** Each step with what it is about. */
  readonly plan: readonly string[];
}

const rows: readonly Row[] = [
  {
    rule: 'being-deleted',
    when: 'it has pods, of which one ends already',
    vmi: vmiIn('Running', { deletionTimestamp }),
    pods: [buildRunningPod(), another, terminating],
    plan: ['deletePod uid-pod', 'deletePod uid-other'],
  },
  { rule: 'being-deleted', when: 'it has no pod', vmi: vmiIn('', { deletionTimestamp }), plan: [] },
  {
    rule: 'being-deleted',
    when: 'it is final, too',
    vmi: vmiIn('Failed', { deletionTimestamp }),
    pods: [buildPod()],
    plan: ['deletePod uid-pod'],
  },
  {
    rule: 'being-deleted',
    when: 'a foreign pod says it is its launcher',
    vmi: vmiIn('Running', { deletionTimestamp }),
    foreign: [another],
    plan: [],
  },
  { rule: 'final', when: 'its launcher still runs', vmi: vmiIn('Succeeded'), pods: [buildRunningPod()], plan: [] },
  { rule: 'final', when: 'it failed', vmi: vmiIn('Failed'), plan: [] },
  { rule: 'not-admitted', when: 'it is new', vmi: buildVmi(), plan: [] },
  { rule: 'not-admitted', when: 'it has a phase, and no finalizer', vmi: buildVmi({}, { phase: 'Pending' }), plan: [] },
  { rule: 'not-admitted', when: 'it has a finalizer, and no phase', vmi: vmiIn(''), plan: [] },
  { rule: 'no-pod-yet', when: 'it was admitted', vmi: vmiIn('Pending'), plan: ['createPod after '] },
  {
    rule: 'no-pod-yet',
    when: 'foreign pods claim it',
    vmi: vmiIn('Pending'),
    foreign: [another, terminating],
    plan: ['createPod after uid-other'],
  },
  { rule: 'pod-lost', when: 'it waited for its pod to start', vmi: vmiIn('Scheduling'), plan: [] },
  { rule: 'pod-lost', when: 'its guest ran', vmi: vmiIn('Running'), foreign: [another], plan: [] },
  {
    rule: 'pod-there',
    when: 'the readiness gate was never written',
    vmi: vmiIn('Scheduling'),
    pods: [buildRunningPod()],
    plan: ['setPodCondition uid-pod kubevirt.io/virtual-machine-unpaused=True/NotPaused'],
  },
  {
    rule: 'pod-there',
    when: 'the guest was paused',
    vmi: pausedVmi,
    pods: [buildRunningPod(unpaused('True'))],
    plan: ['setPodCondition uid-pod kubevirt.io/virtual-machine-unpaused=False/Paused'],
  },
  {
    rule: 'pod-there',
    when: 'the guest is paused, and the pod says so',
    vmi: pausedVmi,
    pods: [buildRunningPod(unpaused('False'))],
    plan: [],
  },
  {
    rule: 'pod-there',
    when: 'the VMI was handed over to its node',
    vmi: vmiIn('Scheduled', { labels: { 'kubevirt.io/nodeName': 'node1' } }),
    pods: [buildRunningPod(unpaused('True'))],
    plan: ['labelPod uid-pod kubevirt.io/nodeName=node1'],
  },
  {
    rule: 'pod-there',
    when: 'the pod has ended',
    vmi: vmiIn('Running'),
    pods: [buildPod({ phase: 'Failed' })],
    plan: [],
  },
];

function observationOf({ vmi, pods = [], foreign = [] }: Row): VmiObservation {
  return { vmi, pods, strangers: foreign, pod: pods[0], hasOwnerVm: false, config: buildConfig(), now };
}

function planOf(seen: VmiObservation): { rule: string; plan: string[] } {
  const { rule, steps } = decideVmi(seen);
  const plan = steps.map((each) => {
    switch (each.step) {
      case 'createPod':
        return `createPod after ${each.leftovers.map(({ metadata }) => metadata.uid)}`;
      case 'deletePod':
        return `deletePod ${each.pod.metadata.uid}`;
      case 'setPodCondition':
        return `setPodCondition ${each.pod.metadata.uid} ${each.condition.type}=${each.condition.status}/${each.condition.reason}`;
      case 'labelPod':
        return `labelPod ${each.pod.metadata.uid} ${Object.entries(each.labels).map((label) => label.join('='))}`;
    }
    return each satisfies never;
  });
  return { rule, plan };
}

for (const row of rows) {
  test(`${row.rule}: ${row.when}`, () => {
    assert.deepEqual(planOf(observationOf(row)), { rule: row.rule, plan: row.plan });
  });
}

test('every rule that the matrix shows has a row', () => {
  const matrix = readFileSync('test/unit/controller/vmi/matrix.golden.txt', 'utf8');
  const shown = new Set([...matrix.matchAll(/^([a-z][a-z-]*) +\| /gm)].map(([, rule]) => rule));
  assert.ok(shown.size > 3, 'the matrix is read');
  const tested = new Set(rows.map(({ rule }) => rule));
  assert.deepEqual([...shown].sort(), [...tested].sort());
});
