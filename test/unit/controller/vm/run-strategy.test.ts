import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MigrationState, RunStrategy, VirtualMachine, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { makeVmi, uuidV5 } from '../../../../src/controller/vm/make-vmi.ts';
import type { VmFacts, VmFailure } from '../../../../src/controller/vm/observation.ts';
import { decideRun, runStrategyOf, startBackoffSeconds } from '../../../../src/controller/vm/run-strategy.ts';
import { projectVmStatus } from '../../../../src/controller/vm/status.ts';
import { buildVm, buildVmi } from '../builders.ts';

const now = new Date('2026-01-01T00:00:00Z');
const running = buildVmi({}, { phase: 'Running' });
const succeeded = buildVmi({}, { phase: 'Succeeded' });
const failed = buildVmi({}, { phase: 'Failed' });
const deleting = buildVmi({}, { phase: 'Failed' }, { deletionTimestamp: '2026-01-01T00:00:00Z' });
const annotated = { annotations: { 'kubevirt.io/create-migration-target': 'true' } };
/** Of a guest that leaves; the synchronization controller of the other side is known. */
const leaving = (phase: 'Succeeded' | 'Failed', more: MigrationState = {}) => {
  const ends = {
    sourceState: { virtualMachineInstanceUID: 'uid-vmi' },
    targetState: { syncAddress: 'a:1', nodeAddress: 'b' },
  };
  const migrationState = { migrationUid: 'job', startTimestamp: '2026-01-01T00:00:00Z', ...ends, ...more };
  return buildVmi({}, { phase, migrationState });
};
const arrived = {
  migrationUid: 'job',
  completed: true,
  sourceState: { syncAddress: 'a:1' },
  targetState: { pod: 'p' },
};
const vmis = {
  'a receiver': buildVmi({}, { phase: 'WaitingForSync' }, annotated),
  'a receiver that failed': buildVmi({}, { phase: 'Failed' }, annotated),
  'one that has arrived': buildVmi({}, { phase: 'Running', migrationState: arrived }),
  'one that moves within the cluster': buildVmi({}, { phase: 'Running', migrationState: { migrationUid: 'next' } }),
  'one that did not move within the cluster': buildVmi(
    {},
    { phase: 'Running', migrationState: { migrationUid: 'next', completed: true, failed: true } },
  ),
  'one that came and ended': buildVmi({}, { phase: 'Succeeded', migrationState: arrived }),
  'one that has left': leaving('Succeeded', { completed: true }),
  'one that may have left': leaving('Failed'),
  'one that did not get away': leaving('Failed', { completed: true, failed: true }),
  'no VMI': undefined,
  'one being deleted': deleting,
  'a running one': running,
  'a succeeded one': succeeded,
  'a failed one': failed,
};
const requests = {
  nothing: [],
  start: [{ action: 'Start' as const }],
  stop: [{ action: 'Stop' as const, uid: 'uid-vmi' }],
  'stop of another': [{ action: 'Stop' as const, uid: 'uid-other' }],
};

/** Strategy, VMI, request → action. */
const table: readonly (readonly [RunStrategy, keyof typeof vmis, keyof typeof requests, string])[] = [
  ['Always', 'no VMI', 'nothing', 'start'],
  ['Always', 'a running one', 'nothing', 'nothing'],
  ['Always', 'a running one', 'stop', 'stop'],
  ['Always', 'a running one', 'stop of another', 'nothing'],
  ['Always', 'a succeeded one', 'nothing', 'stop'],
  ['Always', 'a failed one', 'nothing', 'stop'],
  ['RerunOnFailure', 'no VMI', 'nothing', 'start'],
  ['RerunOnFailure', 'a running one', 'nothing', 'nothing'],
  ['RerunOnFailure', 'a running one', 'stop', 'stop'],
  ['RerunOnFailure', 'a succeeded one', 'nothing', 'stop'],
  ['RerunOnFailure', 'a failed one', 'nothing', 'requestStart'],
  ['RerunOnFailure', 'a failed one', 'start', 'stop'],
  ['RerunOnFailure', 'a failed one', 'stop', 'requestStart'],
  ['RerunOnFailure', 'one being deleted', 'nothing', 'nothing'],
  ['RerunOnFailure', 'one being deleted', 'stop', 'nothing'],
  ['Manual', 'no VMI', 'nothing', 'nothing'],
  ['Manual', 'no VMI', 'start', 'start'],
  ['Manual', 'no VMI', 'stop', 'nothing'],
  ['Manual', 'a running one', 'nothing', 'nothing'],
  ['Manual', 'a running one', 'stop', 'stop'],
  ['Manual', 'a failed one', 'nothing', 'nothing'],
  ['Manual', 'a failed one', 'stop', 'stop'],
  ['Halted', 'no VMI', 'nothing', 'nothing'],
  ['Halted', 'no VMI', 'start', 'switchTo'],
  ['Halted', 'a running one', 'nothing', 'stop'],
  ['Halted', 'a succeeded one', 'nothing', 'stop'],
  ['Halted', 'a running one', 'start', 'stop'],
  ['Once', 'no VMI', 'nothing', 'start'],
  ['Once', 'a running one', 'stop', 'nothing'],
  ['Once', 'a failed one', 'nothing', 'nothing'],
  ['WaitAsReceiver', 'no VMI', 'nothing', 'start'],
  ['WaitAsReceiver', 'a receiver', 'nothing', 'nothing'],
  ['WaitAsReceiver', 'a receiver that failed', 'nothing', 'stop'],
  ['WaitAsReceiver', 'a running one', 'nothing', 'refuse'],
  ['WaitAsReceiver', 'one that has arrived', 'nothing', 'nothing'],
  ['WaitAsReceiver', 'one that moves within the cluster', 'nothing', 'nothing'],
  ['WaitAsReceiver', 'one that did not move within the cluster', 'nothing', 'nothing'],
  ['Always', 'one that has left', 'nothing', 'switchTo'],
  ['RerunOnFailure', 'one that has left', 'nothing', 'switchTo'],
  ['Once', 'one that has left', 'nothing', 'switchTo'],
  ['Manual', 'one that has left', 'nothing', 'nothing'],
  ['Halted', 'one that has left', 'nothing', 'stop'],
  ['Always', 'one that has left', 'stop', 'stop'],
  ['Always', 'one that may have left', 'nothing', 'unknown'],
  ['Always', 'one that may have left', 'stop', 'stop'],
  ['Always', 'one that did not get away', 'nothing', 'stop'],
  ['Always', 'one that came and ended', 'nothing', 'stop'],
];
for (const [runStrategy, vmi, request, action] of table) {
  test(`${runStrategy} with ${vmi} and a request for ${request}: ${action}`, () => {
    const vm = buildVm({ runStrategy }, { stateChangeRequests: requests[request] });
    assert.equal(decideRun(vm, vmis[vmi], now).kind, action);
  });
}

test('a VM receives no guest where the cluster does not do so, and says why', () => {
  const vm = buildVm({ runStrategy: 'WaitAsReceiver' });
  const off = 'the feature gate is not on';
  const action = decideRun(vm, undefined, now, off);
  assert.equal(
    action.kind === 'refuse' && action.message,
    `runStrategy WaitAsReceiver: this VM receives no guest: ${off}; use Manual to start here`,
  );
  assert.equal(decideRun(vm, vmis['a receiver'], now, off).kind, 'refuse');
});

test('a VM whose guest has arrived gets the strategy that its annotation names, if that is one', () => {
  const after = (value: string) => {
    const vm = buildVm({ runStrategy: 'WaitAsReceiver' });
    vm.metadata.annotations = { 'kubevirt.io/restore-run-strategy': value };
    return decideRun(vm, vmis['one that has arrived'], now, 'off by now');
  };
  for (const strategy of ['Always', 'Manual', 'Halted', 'Once', 'RerunOnFailure'])
    assert.deepEqual(after(strategy), { kind: 'switchTo', strategy, since: 'arrived' });
  for (const value of ['', 'always', 'WaitAsReceiver', 'toString', 'Never'])
    assert.equal(after(value).kind, 'refuse', value);
});

test('RerunOnFailure does not start again by itself once it has run', () => {
  const vm = buildVm({ runStrategy: 'RerunOnFailure' }, { runStrategy: 'RerunOnFailure' });
  assert.equal(decideRun(vm, undefined, now).kind, 'nothing');
});

const backoffs: readonly (readonly [RunStrategy, keyof typeof requests, ReturnType<typeof decideRun>])[] = [
  ['Always', 'nothing', { kind: 'wait', ms: 7000 }],
  ['Always', 'start', { kind: 'wait', ms: 7000 }],
  ['RerunOnFailure', 'nothing', { kind: 'wait', ms: 7000 }],
  ['RerunOnFailure', 'start', { kind: 'wait', ms: 7000 }],
  ['Manual', 'start', { kind: 'start', paused: false }],
  ['Halted', 'start', { kind: 'switchTo', strategy: 'Always', since: 'asked' }],
  ['Once', 'nothing', { kind: 'start', paused: false }],
];
for (const [runStrategy, request, action] of backoffs) {
  test(`${runStrategy} without a VMI and with a request for ${request}, in back-off: ${action.kind}`, () => {
    const startFailure = { retryAfterTimestamp: '2026-01-01T00:00:07Z' };
    const vm = buildVm({ runStrategy }, { startFailure, stateChangeRequests: requests[request] });
    assert.deepEqual(decideRun(vm, undefined, now), action);
  });
}

test('a start may be asked for with the guest paused', () => {
  for (const runStrategy of ['Always', 'RerunOnFailure', 'Manual'] as const) {
    const vm = buildVm({ runStrategy }, { stateChangeRequests: [{ action: 'Start', data: { paused: 'true' } }] });
    assert.deepEqual(decideRun(vm, undefined, now), { kind: 'start', paused: true }, runStrategy);
  }
});

test('the deprecated field running means Always or Halted, and both fields together are refused', () => {
  const only = (running: boolean): VirtualMachine => ({
    ...buildVm(),
    spec: { running, template: { spec: { domain: {} } } },
  });
  assert.equal(runStrategyOf(only(true)), 'Always');
  assert.equal(runStrategyOf(only(false)), 'Halted');
  assert.equal(decideRun(buildVm({ running: true }), undefined, now).kind, 'refuse');
});

test('the delay grows with the square of the failures up to five minutes', () => {
  const range = (failures: number) => [startBackoffSeconds(failures, () => 0), startBackoffSeconds(failures, () => 1)];
  assert.deepEqual([1, 2, 3, 4, 5, 50].map(range), [
    [10, 15],
    [40, 60],
    [90, 135],
    [160, 240],
    [250, 300],
    [300, 300],
  ]);
});

function status({
  failure,
  ...seen
}: Partial<VmFacts> & { failure?: VmFailure }): NonNullable<VirtualMachine['status']> {
  return projectVmStatus(
    {
      vm: buildVm(),
      vmi: undefined,
      creationExpected: false,
      deletionExpected: false,
      changes: [],
      isChanged: undefined,
      disks: 'ready',
      volumeStatuses: undefined,
      changeTracking: { isEnabled: false, vms: undefined },
      now,
      ...seen,
    },
    failure,
    () => 0,
  );
}

const deletingVmi: VirtualMachineInstance = {
  ...running,
  metadata: { ...running.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
};
const withCondition = (
  phase: 'Pending' | 'Scheduling' | 'Running',
  type: string,
  value: 'True' | 'False',
  reason = '',
) => buildVmi({}, { phase, conditions: [{ type, status: value, reason }] });
const ended = buildVmi(
  {},
  {
    phase: 'Succeeded',
    phaseTransitionTimestamps: [{ phase: 'Running', phaseTransitionTimestamp: '2026-01-01T00:00:00Z' }],
  },
);
const prints: readonly (readonly [string, string, Partial<VmFacts>])[] = [
  ['Stopped', 'there is no VMI', {}],
  ['Starting', 'a VMI was just created', { creationExpected: true }],
  ['Starting', 'the VMI is on its way', { vmi: buildVmi({}, { phase: 'Scheduled' }) }],
  ['Running', 'the guest runs', { vmi: running }],
  ['Paused', 'the guest is paused', { vmi: withCondition('Running', 'Paused', 'True') }],
  ['Stopping', 'the VMI is being deleted', { vmi: deletingVmi }],
  ['Stopping', 'the VMI was just deleted', { vmi: running, deletionExpected: true }],
  ['Stopped', 'the guest has run and ended', { vmi: ended }],
  ['CrashLoopBackOff', 'the guest never came up', { vmi: failed }],
  [
    'ErrorUnschedulable',
    'no node fits',
    { vmi: withCondition('Scheduling', 'PodScheduled', 'False', 'Unschedulable') },
  ],
  [
    'ErrorPvcNotFound',
    'a claim is not there',
    { vmi: withCondition('Pending', 'Synchronized', 'False', 'FailedPvcNotFound') },
  ],
  [
    'DataVolumeError',
    'a DataVolume has failed',
    { vmi: withCondition('Pending', 'Synchronized', 'False', 'FailedDataVolumeImport') },
  ],
  [
    'Provisioning',
    'a DataVolume is being filled',
    { vmi: withCondition('Pending', 'DataVolumesReady', 'False', 'NotAllDVsReady') },
  ],
  ['DataVolumeError', 'a DataVolume of a halted VM has failed', { disks: 'failed' }],
  ['Provisioning', 'a DataVolume of a halted VM is being filled', { disks: 'filling' }],
  ['Running', 'the guest runs, whatever a DataVolume says', { vmi: running, disks: 'failed' }],
  [
    'WaitingForVolumeBinding',
    'a DataVolume waits for its first consumer',
    { vmi: withCondition('Pending', 'Provisioning', 'True') },
  ],
  [
    'ErrImagePull',
    'the image is missing',
    { vmi: withCondition('Scheduling', 'Synchronized', 'False', 'ErrImagePull') },
  ],
  [
    'Migrating',
    'it moves',
    { vmi: buildVmi({}, { phase: 'Running', migrationState: { startTimestamp: '2026-01-01T00:00:00Z' } }) },
  ],
  [
    'Terminating',
    'the VM is being deleted',
    { vm: { ...buildVm(), metadata: { ...buildVm().metadata, deletionTimestamp: 'x' } }, vmi: running },
  ],
];
for (const [value, situation, seen] of prints) {
  test(`a VM is printed as ${value}, when ${situation}`, () => {
    assert.equal(status(seen).printableStatus, value);
  });
}

test('a failed start counts once per VMI and is forgotten after a run', () => {
  const once = status({ vmi: failed });
  assert.deepEqual(once.startFailure, {
    consecutiveFailCount: 1,
    lastFailedVMIUID: 'uid-vmi',
    retryAfterTimestamp: '2026-01-01T00:00:10Z',
  });
  assert.deepEqual(status({ vm: buildVm({}, once), vmi: failed }).startFailure, once.startFailure);
  assert.equal(status({ vm: buildVm({}, once), vmi: running }).startFailure, undefined);
});

test("conditions of the VMI are copied, and gone with the VMI; the VM's own stay", () => {
  const agent = withCondition('Running', 'AgentConnected', 'True');
  const withVmi = status({ vmi: agent, failure: { reason: 'r', message: 'm' } });
  assert.deepEqual(withVmi.conditions?.map(({ type }) => type).sort(), ['AgentConnected', 'Failure', 'Ready']);
  const without = status({ vm: buildVm({}, withVmi) });
  assert.deepEqual(
    without.conditions?.map(({ type }) => type),
    ['Ready'],
  );
});

test('the status is the same when nothing has changed', () => {
  for (const [, , seen] of prints) {
    const first = status(seen);
    const vm = { ...(seen.vm ?? buildVm()), status: first };
    assert.deepEqual(
      projectVmStatus(
        {
          creationExpected: false,
          deletionExpected: false,
          changes: [],
          isChanged: undefined,
          disks: 'ready',
          volumeStatuses: undefined,
          changeTracking: { isEnabled: false, vms: undefined },
          vmi: undefined,
          ...seen,
          vm,
          now: new Date(),
        },
        undefined,
        () => 1,
      ),
      first,
    );
  }
});

test('the VMI of a VM is its template with owner, finalizer and a stable machine id', () => {
  const vm = buildVm({ template: { metadata: { labels: { a: 'b' } }, spec: { domain: { cpu: { cores: 2 } } } } });
  const vmi = makeVmi(vm, true);
  assert.deepEqual(vmi.metadata.labels, { a: 'b' });
  assert.equal(vmi.spec.domain.firmware?.uuid, makeVmi(vm, false).spec.domain.firmware?.uuid);
  assert.equal(vmi.spec.startStrategy, 'Paused');
  assert.equal(vmi.metadata.annotations?.['kubevirt.io/vm-generation'], '1');
  assert.equal(vm.spec.template.spec.domain.firmware, undefined, 'the template is not changed');
});

test('a name-based UUID is the one of RFC 4122', () => {
  assert.equal(uuidV5('python.org', '6ba7b810-9dad-11d1-80b4-00c04fd430c8'), '886313e1-3b8a-5372-9b90-0c9aee199e5d');
});
