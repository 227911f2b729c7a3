import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Condition, finalizers, findCondition, type Pod, type VmiPhase } from '../../../../src/api/index.ts';
import type { VmiFacts } from '../../../../src/controller/vmi/observation.ts';
import { projectVmi } from '../../../../src/controller/vmi/project.ts';
import { buildPod, buildRunningPod, buildVmi, buildVmiFacts } from '../builders.ts';

const now = new Date('2026-01-01T00:00:00Z');
const randomUuid = () => '00000000-0000-4000-8000-000000000000';

function observe(phase: VmiPhase, pod: Pod | undefined, extra: { deleting?: boolean; node?: string } = {}): VmiFacts {
  const metadata = {
    finalizers: [finalizers.vmi],
    ...(extra.deleting ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}),
  };
  const vmi = buildVmi({}, { phase, ...(extra.node ? { nodeName: extra.node } : {}) }, phase === '' ? {} : metadata);
  return buildVmiFacts({ vmi, pod, now });
}

const project = (seen: VmiFacts, failure?: { reason: string; message: string }) =>
  projectVmi(seen, { failure, randomUuid, vsockCid: () => 4711 });

const terminating = buildPod({ phase: 'Running' }, { deletionTimestamp: '2026-01-01T00:00:00Z' });
const failed = buildPod({ phase: 'Failed' });
function endedPod(exitCode: number, message?: string): Pod {
  const state = { terminated: { exitCode, ...(message !== undefined && { message }) } };
  const compute = { name: 'compute', state, ready: false, restartCount: 0, image: '', imageID: '' };
  return buildRunningPod({ containerStatuses: [compute] });
}
const crashed = endedPod(1);
const completed = endedPod(0);

/** Phase, pod, being deleted → next phase. */
const table: readonly (readonly [VmiPhase, string, Pod | undefined, boolean, VmiPhase])[] = [
  ['', 'no pod', undefined, false, 'Pending'],
  ['Pending', 'no pod', undefined, false, 'Pending'],
  ['Pending', 'no pod', undefined, true, 'Failed'],
  ['Pending', 'a pod', buildPod(), false, 'Scheduling'],
  ['Scheduling', 'a pod that waits', buildPod(), false, 'Scheduling'],
  ['Scheduling', 'a running pod', buildRunningPod(), false, 'Scheduled'],
  ['Scheduling', 'a running pod', buildRunningPod(), true, 'Scheduling'],
  ['Scheduling', 'a terminating pod', terminating, false, 'Failed'],
  ['Scheduling', 'a failed pod', failed, false, 'Failed'],
  ['Scheduling', 'a pod whose launcher has ended', crashed, false, 'Failed'],
  ['Scheduling', 'no pod', undefined, false, 'Failed'],
  ['Scheduled', 'a running pod', buildRunningPod(), false, 'Scheduled'],
  ['Scheduled', 'a failed pod', failed, false, 'Scheduled'],
  ['Scheduled', 'a pod whose launcher has ended with an error', crashed, false, 'Failed'],
  ['Scheduled', 'a pod whose launcher has ended with an error', crashed, true, 'Scheduled'],
  ['Scheduled', 'a pod whose launcher has ended well', completed, false, 'Scheduled'],
  ['Scheduled', 'no pod', undefined, false, 'Failed'],
  ['Running', 'a running pod', buildRunningPod(), false, 'Running'],
  ['Running', 'a terminating pod', terminating, true, 'Running'],
  ['Running', 'a pod whose launcher has ended', crashed, false, 'Running'],
  ['Running', 'no pod', undefined, false, 'Failed'],
  ['Succeeded', 'no pod', undefined, false, 'Succeeded'],
  ['Failed', 'a running pod', buildRunningPod(), false, 'Failed'],
  ['Unknown', 'no pod', undefined, false, 'Unknown'],
];
test('what features of Hyper-V need is switched on where no webhook has done so', () => {
  const features = { hyperv: { synictimer: { enabled: true }, evmcs: { enabled: true }, vapic: { enabled: false } } };
  const vmi = buildVmi({ domain: { ...buildVmi().spec.domain, features } });
  const { domain } = project(buildVmiFacts({ vmi, pod: undefined, now })).spec;
  const on = { enabled: true };
  assert.deepEqual(domain.features?.hyperv, { ...features.hyperv, synic: on, vpindex: on });
  assert.deepEqual(domain.cpu?.features, [{ name: 'vmx', policy: 'require' }]);
});

for (const [phase, what, pod, deleting, next] of table) {
  const name = phase === '' ? 'without a phase' : phase;
  test(`a VMI ${name}${deleting ? ' that is being deleted' : ''} with ${what} becomes ${next}`, () => {
    assert.equal(project(observe(phase, pod, { deleting })).status?.phase, next);
  });
}

const sentAway = { migrationUid: 'm', startTimestamp: '2026-01-01T00:00:00Z', targetPod: 'target' };
const target = buildRunningPod();
target.metadata.name = 'target';
const targetEnded = structuredClone(target);
targetEnded.status = { phase: 'Succeeded' };
const sendings: readonly (readonly [string, object, Pod, VmiPhase])[] = [
  ['is under way, and the target pod runs', sentAway, target, 'Running'],
  ['is under way, and the target pod has ended', sentAway, targetEnded, 'Failed'],
  ['has failed', { ...sentAway, failed: true }, target, 'Failed'],
  ['has not begun', { ...sentAway, startTimestamp: undefined }, target, 'Failed'],
  ['goes to another pod', { ...sentAway, targetPod: 'another' }, target, 'Failed'],
];
for (const [when, migrationState, pod, next] of sendings) {
  test(`a running VMI without its pod, whose migration ${when}, becomes ${next}`, () => {
    const seen = observe('Running', undefined);
    Object.assign(seen.vmi.status ?? {}, { migrationState });
    assert.equal(project({ ...seen, pods: [pod] }).status?.phase, next);
  });
}

test('a launcher that fails after the hand-over and before the guest runs fails its VMI with its words', () => {
  const vmi = project(observe('Scheduled', endedPod(2, 'no libvirt here: install it')));
  assert.equal(vmi.status?.phase, 'Failed');
  const synchronized = findCondition(vmi.status?.conditions, 'Synchronized');
  assert.deepEqual([synchronized?.status, synchronized?.reason], ['False', 'PodFailed']);
  assert.match(synchronized?.message ?? '', /ended with exit code 2 before the start: no libvirt here: install it/);
});

const endings: readonly (readonly [log: string, reported: RegExp])[] = [
  [
    `${'noise\n'.repeat(300)}{"level":"error","err":"no libvirt: install it","msg":"failed"}\n`,
    /start: failed: no libvirt: install it$/,
  ],
  ['first\nsandbox: cannot bind /a at /b', /start: sandbox: cannot bind \/a at \/b$/],
  ['null', /start: null$/],
  ['{"err":7}', /start: \{"err":7\}$/],
  ['{"torn', /start: \{"torn$/],
  ['\n\n', /start: no reason given$/],
];
for (const [log, reported] of endings) {
  test(`of a launcher's log that ends with ${JSON.stringify(log.slice(-40))} the last words are told`, () => {
    const vmi = project(observe('Scheduled', endedPod(2, log)));
    assert.match(findCondition(vmi.status?.conditions, 'Synchronized')?.message ?? '', reported);
  });
}

test('projecting its own result changes nothing more, in every row of the table', () => {
  for (const [phase, , pod, deleting] of table) {
    const seen = observe(phase, pod, { deleting });
    let last = project(seen);
    for (let round = 0; round < 3; round++) last = project({ ...seen, vmi: last });
    assert.deepEqual(project({ ...seen, vmi: last, now: new Date('2027-01-01T00:00:00Z') }), last, `${phase}`);
  }
});

test('the observation is never changed', () => {
  for (const [phase, , pod, deleting] of table) {
    const seen = observe(phase, pod, { deleting });
    const before = structuredClone(seen);
    project(seen);
    assert.deepEqual(seen, before);
  }
});

test('the hand-over writes label, node and volumes in one go', () => {
  const seen = observe('Scheduling', buildRunningPod());
  seen.vmi.spec.volumes = [
    { name: 'b', emptyDisk: { capacity: '1Gi' } },
    { name: 'a', emptyDisk: { capacity: '1Gi' } },
  ];
  const vmi = project(seen);
  assert.equal(vmi.metadata.labels?.['kubevirt.io/nodeName'], 'node1');
  assert.equal(vmi.status?.nodeName, 'node1');
  assert.deepEqual(
    vmi.status?.volumeStatus?.map(({ name }) => name),
    ['a', 'b'],
  );
});

test('what the agent wrote about a volume stays', () => {
  const seen = observe('Running', buildRunningPod());
  seen.vmi.spec.volumes = [{ name: 'a', emptyDisk: { capacity: '1Gi' } }];
  seen.vmi.status = { ...seen.vmi.status, volumeStatus: [{ name: 'a', target: 'vda', size: 5 }] };
  assert.deepEqual(project(seen).status?.volumeStatus, [{ name: 'a', target: 'vda', size: 5 }]);
});

const readiness: readonly (readonly [string, VmiFacts, string, string])[] = [
  ['there is no pod', observe('Pending', undefined), 'False', 'PodNotExists'],
  ['the pod ends', observe('Running', terminating), 'False', 'PodTerminating'],
  ['the guest does not run', observe('Scheduled', buildRunningPod()), 'False', 'GuestNotRunning'],
  ['the pod has no condition', observe('Running', buildRunningPod()), 'False', 'PodConditionMissing'],
  [
    'the pod is ready',
    observe('Running', buildRunningPod({ conditions: [{ type: 'Ready', status: 'True', reason: 'AllGood' }] })),
    'True',
    'AllGood',
  ],
];
for (const [situation, seen, status, reason] of readiness) {
  test(`Ready is ${status} with ${reason}, when ${situation}`, () => {
    const ready = findCondition(project(seen).status?.conditions, 'Ready');
    assert.deepEqual([ready?.status, ready?.reason], [status, reason]);
  });
}

test('a condition of the agent is left alone, once the agent owns the VMI', () => {
  const synchronized: Condition = { type: 'Synchronized', status: 'False', reason: 'x', message: 'agent says' };
  const seen = observe('Running', buildRunningPod());
  seen.vmi.status = { ...seen.vmi.status, conditions: [synchronized] };
  assert.deepEqual(findCondition(project(seen).status?.conditions, 'Synchronized'), synchronized);
});

test('a failed step becomes Synchronized=False and goes with the next success', () => {
  const seen = observe('Pending', undefined);
  const failing = project(seen, { reason: 'FailedCreate', message: 'quota' });
  assert.equal(findCondition(failing.status?.conditions, 'Synchronized')?.message, 'quota');
  const healed = project({ ...seen, vmi: failing });
  assert.equal(findCondition(healed.status?.conditions, 'Synchronized'), undefined);
});

test('a final VMI is let go when its last pod is gone, and keeps the finalizer of a VM that exists', () => {
  const both = [finalizers.vmi, finalizers.vm, 'other/finalizer'];
  const seen = observe('Succeeded', undefined);
  seen.vmi.metadata.finalizers = both;
  assert.deepEqual(project(seen).metadata.finalizers, ['other/finalizer']);
  assert.deepEqual(project({ ...seen, hasOwnerVm: true }).metadata.finalizers, [finalizers.vm, 'other/finalizer']);
  const held = { ...seen, pods: [failed], pod: failed };
  assert.deepEqual(project(held).metadata.finalizers, both);
});

test('an outdated launcher image is labelled, a current one is not', () => {
  const seen = observe('Running', buildRunningPod());
  const outdated = project({ ...seen, config: { ...seen.config, launcherImage: 'virt-launcher:2' } });
  assert.equal(outdated.metadata.labels?.['kubevirt.io/outdatedLauncherImage'], '');
  const current = project({ ...seen, vmi: outdated });
  assert.deepEqual(current.metadata.labels, {});
});

test('a new VMI gets its defaults, and a second pass adds nothing', () => {
  const seen = observe('', undefined);
  seen.vmi.spec = {
    domain: {
      resources: { requests: { memory: '64Mi', cpu: '1500m' } },
      devices: { disks: [{ name: 'a', cdrom: {} }] },
    },
    volumes: [
      { name: 'a', containerDisk: { image: 'host:5000/img' } },
      { name: 'b', containerDisk: { image: 'img' } },
    ],
  };
  const vmi = project(seen);
  assert.deepEqual(vmi.spec.domain.cpu, { sockets: 2, maxSockets: 8, cores: 1, threads: 1, model: 'host-model' });
  assert.equal(vmi.spec.domain.memory?.guest, '64Mi');
  assert.equal(vmi.spec.domain.machine?.type, 'q35');
  assert.equal(vmi.spec.domain.firmware?.uuid, randomUuid());
  assert.deepEqual(vmi.spec.domain.devices?.interfaces, [{ name: 'default', bridge: {} }]);
  assert.deepEqual(vmi.spec.domain.devices?.disks, [
    { name: 'a', cdrom: { readonly: true, tray: 'closed', bus: 'sata' } },
    { name: 'b', disk: { bus: 'sata' } },
  ]);
  assert.deepEqual(
    vmi.spec.volumes?.map(({ containerDisk }) => containerDisk?.imagePullPolicy),
    ['IfNotPresent', 'Always'],
  );
  assert.ok(vmi.metadata.finalizers?.includes(finalizers.vmi));
  assert.deepEqual(project({ ...seen, vmi }), vmi);
});

test('a VMI that cannot be started stays Pending without defaults, with the reason as condition', () => {
  const vmi = project(observe('', undefined), { reason: 'FailedCreate', message: 'spec is wrong' });
  assert.equal(vmi.status?.phase, 'Pending');
  assert.equal(vmi.spec.domain.firmware, undefined);
  assert.equal(findCondition(vmi.status?.conditions, 'Synchronized')?.message, 'spec is wrong');
});

for (const [what, temporaryPod, next] of [
  ['waits for a node', buildPod(), 'Pending'],
  ['has done its work', buildPod({ phase: 'Succeeded' }), 'Pending'],
  ['has failed, which no kubelet tries again', failed, 'Failed'],
  ['is being taken away', terminating, 'Failed'],
] as const) {
  test(`a VMI whose claim waits for a temporary pod that ${what} is ${next}: nothing is waited for in vain`, () => {
    const detail = 'DataVolume data: WaitForFirstConsumer';
    const fillings = [{ claim: 'data', state: 'awaits-consumer', detail }] as const;
    const seen = { ...observe('Pending', undefined), fillings, temporaryPod };
    assert.equal(project(seen).status?.phase, next);
  });
}
