import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  annotations,
  type Condition,
  finalizers,
  type Pod,
  type VirtualMachineInstance,
  type VmiPhase,
} from '../../../../src/api/index.ts';
import type { ClaimFilling, FillingState } from '../../../../src/controller/data-volumes/index.ts';
import { decideVmi, type Renderers, vmiRules } from '../../../../src/controller/vmi/decide.ts';
import type { PresentVmi, VmiObservation } from '../../../../src/controller/vmi/observation.ts';
import { buildConfig, buildPod, buildRunningPod, buildVmi } from '../builders.ts';
import { attached, claim, claims, pluggedSpec } from './plugged.ts';

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

const plugging: VirtualMachineInstance = { ...vmiIn('Running'), spec: pluggedSpec('data') };
const unpausedPod = unpaused('True');

function withNetwork(networkName: string, ...conditions: Condition[]): VirtualMachineInstance {
  const vmi = vmiIn('Running');
  vmi.status?.conditions?.push(...conditions);
  const networks = [{ name: 'blue', multus: { networkName } }];
  const domain = { ...vmi.spec.domain, devices: { interfaces: [{ name: 'blue', bridge: {} }] } };
  return { ...vmi, spec: { ...vmi.spec, domain, networks } };
}

const base = { key: 'default/vm1', uid: 'uid-vmi', now };

interface Row {
  readonly rule: string;
  readonly when: string;
  readonly vmi: VirtualMachineInstance;
  readonly pods?: readonly Pod[];
  readonly foreign?: readonly Pod[];
  readonly more?: Partial<PresentVmi>;
  readonly render?: () => Pod;
  readonly renderAttachment?: () => Pod;
  /** Each step with what it is about. */
  readonly plan: readonly string[];
}

const temporaryPod = buildPod({ phase: 'Succeeded' }, { name: 'temporary', uid: 'uid-temporary' });
temporaryPod.metadata.annotations = { 'kubevirt.io/ephemeral-provisioning': 'true' };
const filling = (state: FillingState): ClaimFilling => ({ claim: `claim-${state}`, state, detail: `it is ${state}` });

const rows: readonly Row[] = [
  {
    rule: 'being-deleted',
    when: 'it has pods, of which one ends already',
    vmi: vmiIn('Running', { deletionTimestamp }),
    pods: [buildRunningPod(), another, terminating],
    plan: ['deletePods uid-pod,uid-other'],
  },
  { rule: 'being-deleted', when: 'it has no pod', vmi: vmiIn('', { deletionTimestamp }), plan: [] },
  {
    rule: 'guest-awaited',
    when: 'it was made to receive a guest and is Pending, as the API server makes it',
    vmi: vmiIn('Pending', { annotations: { [annotations.createMigrationTarget]: 'true' } }),
    plan: [],
  },
  { rule: 'guest-awaited', when: 'its migration has not come yet', vmi: vmiIn('WaitingForSync'), plan: [] },
  {
    rule: 'being-deleted',
    when: 'it is final, too',
    vmi: vmiIn('Failed', { deletionTimestamp }),
    pods: [buildPod()],
    plan: ['deletePods uid-pod'],
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
    when: 'the readiness gate was never written, and the VMI is not handed over yet',
    vmi: vmiIn('Scheduling'),
    pods: [buildRunningPod()],
    plan: [],
  },
  {
    rule: 'pod-there',
    when: 'the readiness gate was never written, and the VMI was handed over',
    vmi: vmiIn('Scheduled', { labels: { 'kubevirt.io/nodeName': 'node1' } }),
    pods: [buildRunningPod()],
    plan: [
      'setPodCondition uid-pod kubevirt.io/virtual-machine-unpaused=True/NotPaused with kubevirt.io/nodeName=node1',
    ],
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
  {
    rule: 'pod-there',
    when: 'an earlier VMI of the name has left a pod',
    vmi: vmiIn('Running'),
    pods: [buildRunningPod(unpaused('True'))],
    more: { orphans: [another] },
    plan: ['deleteOrphans uid-other'],
  },
  {
    rule: 'pod-not-shown-yet',
    when: 'the API has a pod that the cache has not',
    vmi: vmiIn('Running'),
    more: { otherPods: 'unseen' },
    plan: [],
  },
  {
    rule: 'being-deleted',
    when: 'only a temporary pod is left',
    vmi: vmiIn('Running', { deletionTimestamp }),
    pods: [another],
    more: { pod: undefined, otherPods: 'cached' },
    plan: ['deletePods uid-other'],
  },
  { rule: 'malformed', when: 'it has no memory', vmi: vmiIn('Pending'), more: { problem: 'no memory' }, plan: [] },
  {
    rule: 'final',
    when: 'a volume was plugged in',
    vmi: vmiIn('Failed'),
    more: { attachments: [attached('old', 'Running')] },
    plan: ['deleteAttachmentPods uid-old'],
  },
  {
    rule: 'volumes-to-attach',
    when: 'a claim is there, and no attachment pod',
    vmi: plugging,
    pods: [buildRunningPod(unpausedPod)],
    more: { claims: claims('data') },
    plan: ['createAttachmentPod hp-volume-new'],
  },
  {
    rule: 'attachment-cannot-be-made',
    when: 'the agent has not written the SELinux label yet',
    vmi: plugging,
    pods: [buildRunningPod(unpausedPod)],
    more: { claims: claims('data') },
    renderAttachment: () => {
      throw new TypeError('VMI is missing SELinux context');
    },
    plan: [],
  },
  {
    rule: 'attachments-superseded',
    when: 'the volume of an attachment pod is gone',
    vmi: vmiIn('Running'),
    pods: [buildRunningPod(unpausedPod)],
    more: { attachments: [attached('old', 'Running', 'data')] },
    plan: ['deleteAttachmentPods uid-old'],
  },
  {
    rule: 'network-cannot-be-plugged',
    when: 'the name of its network is none, and the rest goes on',
    vmi: withNetwork('blue@eth0'),
    pods: [buildRunningPod(unpausedPod)],
    more: { attachments: [attached('old', 'Running', 'data')] },
    plan: ['deleteAttachmentPods uid-old'],
  },
  {
    rule: 'pod-there',
    when: 'the VMI has got and lost what its pod gets also later',
    vmi: vmiIn('Running', { labels: { 'vendor.io/a': '1', other: '1' }, annotations: { 'vendor.io/b': '1' } }),
    pods: [
      buildPod(
        { ...buildRunningPod(unpausedPod).status },
        { labels: { 'vendor.io/old': '1' }, annotations: { 'descheduler.alpha.kubernetes.io/evict': 'true' } },
      ),
    ],
    more: { config: { ...buildConfig(), synced: { annotations: ['vendor.io/b'], labels: ['vendor.io/*'] } } },
    plan: ['labelPod uid-pod vendor.io/a=1', 'annotatePod uid-pod vendor.io/b,descheduler.alpha.kubernetes.io/evict'],
  },
  {
    rule: 'pod-there',
    when: 'Multus has told which device of the machine a network is',
    vmi: {
      ...vmiIn('Scheduled'),
      spec: {
        domain: { memory: { guest: '128Mi' }, devices: { interfaces: [{ name: 'blue', sriov: {} }] } },
        networks: [{ name: 'blue', multus: { networkName: 'blue' } }],
      },
    },
    pods: [
      buildPod(
        { ...buildRunningPod(unpausedPod).status },
        { annotations: { 'k8s.v1.cni.cncf.io/network-status': '[{"interface":"pod16477688c0e"}]' } },
      ),
    ],
    plan: ['annotatePod uid-pod kubevirt.io/network-info'],
  },
  {
    rule: 'plugged-consumer-awaited',
    when: 'a DataVolume that is to be plugged in waits for its first consumer',
    vmi: plugging,
    pods: [buildRunningPod(unpausedPod)],
    more: { claims: claims('data'), pluggedFillings: [{ ...filling('awaits-consumer'), claim: 'data' }] },
    plan: ['createAttachmentPod trigger-data'],
  },
  {
    rule: 'plugged-consumer-failed',
    when: 'the pod that asked for a claim has failed a moment ago',
    vmi: plugging,
    pods: [buildRunningPod(unpausedPod)],
    more: {
      claims: claims('data'),
      pluggedFillings: [{ ...filling('awaits-consumer'), claim: 'data' }],
      triggers: [attached('trigger', 'Failed', 'data')],
      now: new Date('2026-01-01T00:01:10Z'),
    },
    plan: [],
  },
  {
    rule: 'plugged-consumer-awaited',
    when: 'the pod that asked for a claim has failed a while ago',
    vmi: plugging,
    pods: [buildRunningPod(unpausedPod)],
    more: {
      claims: claims('data'),
      pluggedFillings: [{ ...filling('awaits-consumer'), claim: 'data' }],
      triggers: [attached('trigger', 'Failed', 'data')],
      now: new Date('2026-01-01T00:01:31Z'),
    },
    plan: ['createAttachmentPod trigger-data', 'deleteAttachmentPods uid-trigger'],
  },
  {
    rule: 'final',
    when: 'a claim has been asked for that was to be plugged in',
    vmi: vmiIn('Failed'),
    pods: [buildPod({ phase: 'Failed' })],
    more: { triggers: [attached('trigger', 'Succeeded', 'data')] },
    plan: ['deleteAttachmentPods uid-trigger'],
  },
  {
    rule: 'pod-there',
    when: 'a network is to be plugged into the guest',
    vmi: withNetwork('blue'),
    pods: [buildRunningPod(unpausedPod)],
    plan: ['annotatePod uid-pod k8s.v1.cni.cncf.io/networks'],
  },
  {
    rule: 'multus-awaited',
    when: 'its pod has been asked for the network',
    vmi: withNetwork('blue', {
      type: 'MigrationRequired',
      status: 'False',
      lastTransitionTime: '2026-01-01T00:19:50Z',
    }),
    pods: [buildRunningPod(unpausedPod)],
    plan: ['annotatePod uid-pod k8s.v1.cni.cncf.io/networks'],
  },
  {
    rule: 'pod-there',
    when: 'the attachment pod holds what is plugged in',
    vmi: plugging,
    pods: [buildRunningPod(unpausedPod)],
    more: { claims: claims('data'), attachments: [attached('now', 'Running', 'data')] },
    plan: [],
  },
  {
    rule: 'tsc-frequency-unsaid',
    when: 'it is stored first, whatever else is missing',
    vmi: vmiIn('Pending'),
    more: { tscFrequency: 2_000_000_000, fillings: [filling('failed')] },
    plan: [],
  },
  {
    rule: 'data-volume-failed',
    when: 'one of two DataVolumes has failed',
    vmi: vmiIn('Pending'),
    more: { fillings: [filling('filling'), filling('failed')] },
    plan: [],
  },
  {
    rule: 'data-volume-gone',
    when: 'nobody knows whether the claim is whole',
    vmi: vmiIn('Pending'),
    more: { fillings: [filling('missing')] },
    plan: [],
  },
  ...(['filling', 'unread'] as const).map(
    (state): Row => ({
      rule: 'data-not-whole',
      when: `a DataVolume is ${state}, and another one waits for a consumer`,
      vmi: vmiIn('Pending'),
      more: { fillings: [filling('awaits-consumer'), filling(state)] },
      plan: [],
    }),
  ),
  {
    rule: 'state-claim-missing',
    when: 'there is no claim for its TPM, and another one waits for a consumer',
    vmi: vmiIn('Pending'),
    more: { keptState: { kind: 'missing' }, fillings: [filling('awaits-consumer')] },
    plan: ['createStateClaim'],
  },
  ...(['unusable', 'waits'] as const).map(
    (kind): Row => ({
      rule: kind === 'waits' ? 'state-claim-unbound' : 'state-claim-unusable',
      when: 'the claim of its TPM cannot be used',
      vmi: vmiIn('Pending'),
      more: { keptState: { kind, claim: claim('state'), why: 'so it is' } },
      plan: [],
    }),
  ),
  {
    rule: 'consumer-awaited',
    when: 'there is no temporary pod',
    vmi: vmiIn('Pending'),
    more: { fillings: [filling('filled'), filling('awaits-consumer')] },
    plan: ['createPod after '],
  },
  {
    rule: 'consumer-awaited',
    when: 'the temporary pod is there',
    vmi: vmiIn('Pending'),
    more: { fillings: [filling('awaits-consumer')], temporaryPod },
    plan: [],
  },
  {
    rule: 'no-pod-yet',
    when: 'all is filled',
    vmi: vmiIn('Pending'),
    more: { fillings: [filling('filled')], temporaryPod },
    plan: ['createPod after '],
  },
  {
    rule: 'pod-there',
    when: 'the pod of a first consumer has done its work, and a DataVolume is gone meanwhile',
    vmi: vmiIn('Running'),
    pods: [buildRunningPod(unpaused('True')), temporaryPod],
    more: { fillings: [filling('missing')], temporaryPod },
    plan: ['deletePods uid-temporary'],
  },
  {
    rule: 'pod-cannot-be-made',
    when: 'the pod of this VMI would have no image',
    vmi: vmiIn('Pending'),
    render: () => {
      throw new TypeError('no image');
    },
    plan: [],
  },
];

const renderers: Renderers = {
  render: () => buildPod(),
  renderTemporary: () => buildPod(),
  renderAttachment: () => attachment(),
  renderTrigger: (_, __, claim) => buildPod({}, { name: `trigger-${claim}` }),
};

const others: readonly (readonly [VmiObservation, { rule: string; plan: string[] }])[] = [
  [
    { ...base, kind: 'absent', orphans: [another] },
    { rule: 'vmi-gone', plan: ['deleteOrphans uid-other'] },
  ],
  [
    { ...base, kind: 'absent', orphans: [] },
    { rule: 'vmi-gone', plan: [] },
  ],
  [
    { ...base, kind: 'unclear', reason: 'no answer' },
    { rule: 'api-without-answer', plan: [] },
  ],
];

function observationOf({ vmi, pods = [], foreign = [], more }: Row): PresentVmi {
  return {
    ...base,
    kind: 'present',
    vmi,
    pods,
    foreignPods: foreign,
    newForeignPods: [],
    pod: pods[0],
    attachments: [],
    claims: new Map(),
    keptState: { kind: 'none' },
    orphans: [],
    otherPods: 'none',
    problem: undefined,
    temporaryPod: undefined,
    fillings: [],
    triggers: [],
    pluggedFillings: [],
    hasOwnerVm: false,
    tscFrequency: undefined,
    config: buildConfig(),
    ...more,
  };
}

const attachment = (): Pod => ({ ...buildPod(), metadata: { name: 'hp-volume-new' } });

function planOf(
  seen: VmiObservation,
  render = () => buildPod(),
  renderAttachment = attachment,
): { rule: string; plan: string[] } {
  const { rule, steps } = decideVmi(seen, { ...renderers, render, renderAttachment });
  const plan = steps.map((each) => {
    switch (each.step) {
      case 'createPod':
        return `createPod after ${each.leftovers.map(({ metadata }) => metadata.uid)}`;
      case 'createStateClaim':
        return each.step;
      case 'deletePods':
      case 'deleteOrphans':
      case 'deleteAttachmentPods':
        return `${each.step} ${each.pods.map(({ metadata }) => metadata.uid)}`;
      case 'createAttachmentPod':
        return `createAttachmentPod ${each.pod.metadata.name}`;
      case 'setPodCondition': {
        const { type, status, reason } = each.condition;
        const marks = each.labels ? ` with ${labelsOf(each.labels)}` : '';
        return `setPodCondition ${each.pod.metadata.uid} ${type}=${status}/${reason}${marks}`;
      }
      case 'annotatePod':
        return `annotatePod ${each.pod.metadata.uid} ${Object.keys(each.annotations)}`;
      case 'labelPod':
        return `labelPod ${each.pod.metadata.uid} ${labelsOf(each.labels)}`;
    }
    return each satisfies never;
  });
  return { rule, plan };
}

function labelsOf(labels: object): string {
  return Object.entries(labels)
    .map((label) => label.join('='))
    .join();
}

for (const row of rows) {
  test(`${row.rule}: ${row.when}`, () => {
    assert.deepEqual(planOf(observationOf(row), row.render, row.renderAttachment), { rule: row.rule, plan: row.plan });
  });
}

for (const [observation, plan] of others) {
  test(`${plan.rule}: ${plan.plan.join(', ') || 'nothing'}`, () => {
    assert.deepEqual(planOf(observation), plan);
  });
}

test('every rule has a row and a sentence', () => {
  const tested = new Set([...rows.map(({ rule }) => rule), ...others.map(([, { rule }]) => rule)]);
  assert.deepEqual(vmiRules.map(({ name }) => name).sort(), [...tested].sort());
  for (const { name, why } of vmiRules) assert.match(why, /^[A-Z].*\.$/, name);
});

test('what keeps a VMI from its start is a problem of the decision, and an event once', () => {
  const row: Row = { rule: '', when: '', vmi: vmiIn('Pending'), more: { problem: 'no memory' }, plan: [] };
  const { problem, events } = decideVmi(observationOf(row), renderers);
  assert.equal(problem, 'the VirtualMachineInstance cannot be started: no memory');
  assert.deepEqual(events, [{ type: 'Warning', reason: 'FailedCreate', message: problem }]);
  const reported = buildVmi(
    {},
    { phase: 'Pending', conditions: [{ type: 'Synchronized', status: 'False', message: problem }] },
  );
  assert.equal(decideVmi(observationOf({ ...row, vmi: reported }), renderers).events, undefined);
});

test('a claim for its state that has no volume yet is told in the condition alone, one that cannot be used in an event, too', () => {
  const of = (kind: 'waits' | 'unusable') => {
    const keptState = { kind, claim: claim('state'), why: 'so it is' };
    const row: Row = { rule: '', when: '', vmi: vmiIn('Pending'), more: { keptState }, plan: [] };
    const { problem, problemReason, events } = decideVmi(observationOf(row), renderers);
    return [problem, problemReason, events?.map(({ reason }) => reason)];
  };
  assert.deepEqual(of('waits'), ['so it is', 'BackendStorageNotReady', undefined]);
  assert.deepEqual(of('unusable'), ['so it is', 'FailedBackendStorageProbe', ['FailedBackendStorageProbe']]);
});

test('a VMI that waits for a guest where none comes says why', () => {
  const withGates = (featureGates: string[]) => {
    const config = buildConfig({ developerConfiguration: { featureGates } });
    const row: Row = { rule: '', when: '', vmi: vmiIn('WaitingForSync'), more: { config }, plan: [] };
    const { rule, problem } = decideVmi(observationOf(row), renderers);
    return [rule, problem];
  };
  const gate = 'DecentralizedLiveMigration';
  assert.deepEqual(withGates([gate]), ['guest-awaited', undefined]);
  const [rule, problem] = withGates([]);
  assert.equal(rule, 'guest-awaited');
  assert.match(problem ?? '', new RegExp(`^a guest of another VMI object is waited for .* none comes: .*${gate}`));
});
