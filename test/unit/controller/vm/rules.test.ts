import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  finalizers,
  type MigrationState,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../../../src/api/index.ts';
import type { Referred } from '../../../../src/controller/instancetypes/index.ts';
import type { TemplateFact } from '../../../../src/controller/vm/data-volume-facts.ts';
import { decideVm, vmRules } from '../../../../src/controller/vm/decide.ts';
import type { PresentVm, VmObservation } from '../../../../src/controller/vm/observation.ts';
import { buildVm, buildVmi } from '../builders.ts';

const deletionTimestamp = '2026-01-01T00:10:00Z';
const now = new Date('2026-01-01T00:20:00Z');
const base = { key: 'default/vm1', uid: 'uid-vm', now };

function vmWith(spec: Partial<VirtualMachine['spec']>, status: VirtualMachine['status'] = {}): VirtualMachine {
  const vm = buildVm(spec, status);
  return { ...vm, metadata: { ...vm.metadata, finalizers: [finalizers.vm] } };
}

function deletedVm(...names: string[]): VirtualMachine {
  const vm = vmWith({ runStrategy: 'Always' });
  return { ...vm, metadata: { ...vm.metadata, deletionTimestamp, finalizers: names } };
}

const always = vmWith({ runStrategy: 'Always' });
const newVm = buildVm({ runStrategy: 'Always' });
delete newVm.metadata.finalizers;
const running = buildVmi({}, { phase: 'Running' }, { finalizers: [finalizers.vmi, finalizers.vm] });
const ended = buildVmi({}, { phase: 'Failed' }, { finalizers: [finalizers.vm] });
const receiving = vmWith({ runStrategy: 'WaitAsReceiver' });
const restoring = {
  ...receiving,
  metadata: { ...receiving.metadata, annotations: { 'kubevirt.io/restore-run-strategy': 'Always' } },
};
const received = buildVmi({}, { phase: 'Running', migrationState: { completed: true } });
const waitingNoMore = buildVmi(
  {},
  { phase: 'WaitingForSync' },
  {
    deletionTimestamp,
    finalizers: [finalizers.vm],
    annotations: { 'kubevirt.io/create-migration-target': 'true' },
  },
);
const leftWith = (more: MigrationState) => {
  const targetState = { syncAddress: '10.0.0.9:9185', nodeAddress: '10.0.0.2' };
  const migrationState = { startTimestamp: deletionTimestamp, targetState, ...more };
  return buildVmi({}, { phase: 'Succeeded', migrationState }, { finalizers: [finalizers.vm] });
};
const retryAfterTimestamp = '2026-01-01T00:21:00Z';

const templateWithClaim = vmWith({
  runStrategy: 'Always',
  template: { spec: { domain: {}, volumes: [{ name: 'a', dataVolume: { name: 'a', hotpluggable: true } }] } },
});

const devices = { interfaces: [{ name: 'blue', bridge: {} }] };
const templateWithBridge = vmWith({
  runStrategy: 'Always',
  template: { spec: { domain: { devices }, networks: [{ name: 'blue', multus: { networkName: 'blue' } }] } },
});

const template = (state: TemplateFact['state']): TemplateFact => ({ name: 'disk', state, detail: `disk is ${state}` });
const late = (vm: VirtualMachine): VirtualMachine => {
  const annotations = { 'kubevirt.io/immediate-data-volume-creation': 'false' };
  return { ...vm, metadata: { ...vm.metadata, annotations } };
};

const refused: Referred = { kind: 'refused', refusal: { code: 'INSTANCETYPE_MISSING', message: 'there is none' } };
const keptVm = vmWith(
  { runStrategy: 'Always', instancetype: { name: 'small' } },
  { instancetypeRef: { name: 'small', controllerRevisionRef: { name: 'small-1' } } },
);
const kept: Referred = { kind: 'found', whole: always, names: {}, unkept: [] };
const unkept: Referred = { ...kept, unkept: [{ field: 'instancetype', ref: { name: 'small' } }] };

interface Row {
  readonly rule: string;
  readonly when: string;
  readonly seen: Partial<PresentVm>;
  readonly steps?: readonly string[];
  readonly releases?: VirtualMachineInstance;
}

const rows: readonly Row[] = [
  {
    rule: 'data-volume-refused',
    when: 'a template has no name',
    seen: { dataVolumes: [template('refused'), template('missing')] },
    steps: ['reportDataVolume'],
  },
  { rule: 'data-volumes-unread', when: 'the first list is not there', seen: { dataVolumes: [template('unread')] } },
  {
    rule: 'data-volumes-without-owner',
    when: 'there is one of this name',
    seen: { dataVolumes: [template('unowned')] },
    steps: ['adoptDataVolumes'],
  },
  {
    rule: 'data-volumes-missing',
    when: 'the VM shall run',
    seen: { dataVolumes: [template('ready'), template('missing')] },
    steps: ['makeDataVolumes'],
  },
  {
    rule: 'data-volumes-missing',
    when: 'the VM is halted',
    seen: { vm: vmWith({ runStrategy: 'Halted' }), dataVolumes: [template('missing')] },
    steps: ['makeDataVolumes'],
  },
  {
    rule: 'as-wanted',
    when: 'the VM is halted and wants its DataVolumes at its start',
    seen: { vm: late(vmWith({ runStrategy: 'Halted' })), dataVolumes: [template('missing')] },
  },
  {
    rule: 'data-volumes-missing',
    when: 'the VM starts and wants its DataVolumes then',
    seen: { vm: late(always), dataVolumes: [template('missing')] },
    steps: ['makeDataVolumes'],
  },
  {
    rule: 'stop',
    when: 'it shall not run, and one of its DataVolumes is refused',
    seen: { vm: vmWith({ runStrategy: 'Halted' }), vmi: running, dataVolumes: [template('refused')] },
    steps: ['stopVmi'],
  },
  { rule: 'as-wanted', when: 'it runs, and one is gone', seen: { vmi: running, dataVolumes: [template('missing')] } },
  {
    rule: 'data-volume-failed',
    when: 'the VM shall run',
    seen: { dataVolumes: [template('failed')] },
    steps: ['reportDataVolume'],
  },
  {
    rule: 'as-wanted',
    when: 'it is halted and one has failed',
    seen: { vm: vmWith({ runStrategy: 'Halted' }), dataVolumes: [template('failed')] },
  },
  { rule: 'data-volumes-not-filled', when: 'one is at it', seen: { dataVolumes: [template('filling')] } },
  { rule: 'start', when: 'all are filled', seen: { dataVolumes: [template('ready')] }, steps: ['startVmi'] },
  {
    rule: 'references-inferred',
    when: 'a volume says them',
    seen: { referred: { kind: 'inferred' } },
    steps: ['inferReferences'],
  },
  { rule: 'references-refused', when: 'it shall run', seen: { referred: refused }, steps: ['refuseReferences'] },
  {
    rule: 'references-refused',
    when: 'it shall not run and has no VMI',
    seen: { vm: vmWith({ runStrategy: 'Halted' }), referred: refused },
    steps: ['refuseReferences'],
  },
  {
    rule: 'stop',
    when: 'a VM whose instance type is gone shall not run',
    seen: { vm: vmWith({ runStrategy: 'Halted' }), vmi: running, referred: refused },
    steps: ['stopVmi'],
  },
  {
    rule: 'references-not-kept',
    when: 'the status names no revision',
    seen: { referred: unkept },
    steps: ['keepReferences'],
  },
  {
    rule: 'references-expanded',
    when: 'the cluster wants VMs without new references',
    seen: { referred: unkept, referencePolicy: 'expand' },
    steps: ['expandVm'],
  },
  {
    rule: 'start',
    when: 'the cluster wants no new references, and the VM has a revision',
    seen: { vm: keptVm, referred: kept, referencePolicy: 'expand' },
    steps: ['startVmi'],
  },
  {
    rule: 'references-expanded',
    when: 'the cluster wants no references at all',
    seen: { vm: keptVm, referred: kept, referencePolicy: 'expandAll' },
    steps: ['expandVm'],
  },
  { rule: 'start', when: 'what it refers to is kept', seen: { vm: keptVm, referred: kept }, steps: ['startVmi'] },
  {
    rule: 'interfaces-differ',
    when: 'the template has one more',
    seen: { vm: templateWithBridge, vmi: running },
    steps: ['plugInterfaces'],
  },
  {
    rule: 'volumes-differ',
    when: 'the template has one more',
    seen: { vm: templateWithClaim, vmi: running },
    steps: ['plugVolumes'],
  },
  {
    rule: 'as-wanted',
    when: 'the template has one more volume, and the cluster plugs none',
    seen: { vm: templateWithClaim, vmi: running, plugsVolumes: false },
  },
  {
    rule: 'volumes-requested',
    when: 'virt-api was asked for one, and the cluster plugs nothing of templates',
    seen: {
      vm: vmWith(
        { runStrategy: 'Always' },
        { volumeRequests: [{ addVolumeOptions: { name: 'a', volumeSource: { dataVolume: { name: 'a' } } } }] },
      ),
      vmi: running,
      plugsVolumes: false,
    },
    steps: ['plugVolumes', 'changeVolumes'],
  },
  {
    rule: 'volumes-requested',
    when: 'virt-api was asked for one, and the guest has ended',
    seen: {
      vm: vmWith(
        { runStrategy: 'Manual' },
        { volumeRequests: [{ addVolumeOptions: { name: 'a', volumeSource: { dataVolume: { name: 'a' } } } }] },
      ),
      vmi: { ...running, status: { ...running.status, phase: 'Succeeded' } },
      plugsVolumes: false,
    },
    steps: ['changeVolumes'],
  },
  {
    rule: 'memory-dump',
    when: 'virt-api was asked for one, and the guest runs',
    seen: {
      vm: vmWith({ runStrategy: 'Always' }, { memoryDumpRequest: { claimName: 'c', phase: 'Associating' } }),
      vmi: running,
    },
    steps: ['plugVolumes', 'changeVolumes'],
  },
  {
    rule: 'memory-dump',
    when: 'it is over, and the guest has its volume still',
    seen: {
      vm: vmWith({ runStrategy: 'Always' }, { memoryDumpRequest: { claimName: 'c', phase: 'Unmounting' } }),
      vmi: { ...running, spec: { ...running.spec, volumes: [{ name: 'c', memoryDump: { claimName: 'c' } }] } },
    },
    steps: ['plugVolumes'],
  },
  {
    rule: 'metadata-differs',
    when: 'the template has a label that VMIs get also later',
    seen: {
      vm: vmWith({ template: { metadata: { labels: { 'vendor.io/a': '1' } }, spec: { domain: {} } } }),
      vmi: running,
    },
    steps: ['changeVmi'],
  },
  {
    rule: 'as-wanted',
    when: 'the template has a label that VMIs get at their start only',
    seen: { vm: vmWith({ template: { metadata: { labels: { other: '1' } }, spec: { domain: {} } } }), vmi: running },
  },
  {
    rule: 'change-is-live',
    when: 'the template has more CPUs',
    seen: { vmi: running, changes: [{ kind: 'live', operations: [] }] },
    steps: ['changeVmi'],
  },
  {
    rule: 'change-waits',
    when: 'the last CPUs are still being plugged in',
    seen: { vmi: running, changes: [{ kind: 'wait', reason: 'HotPlugCPUError', message: 'another' }] },
  },
  {
    rule: 'as-wanted',
    when: 'the template has other CPUs, which need a restart',
    seen: { vmi: running, changes: [{ kind: 'restart', message: 'restart' }] },
  },
  {
    rule: 'vmi-without-owner',
    when: 'somebody has made the VMI by hand',
    seen: { adoptable: running },
    steps: ['adoptVmi'],
  },
  {
    rule: 'deleted-with-vmi',
    when: 'its VMI runs',
    seen: { vm: deletedVm(finalizers.vm), vmi: running },
    steps: ['stopVmi'],
  },
  {
    rule: 'deleted-with-vmi',
    when: 'its VMI has ended',
    seen: { vm: deletedVm(finalizers.vm), vmi: ended },
    steps: ['stopVmi'],
    releases: ended,
  },
  { rule: 'deleted', when: 'nothing is left', seen: { vm: deletedVm(finalizers.vm) }, steps: ['removeFinalizer'] },
  {
    rule: 'deleted',
    when: 'its VMI shall stay',
    seen: { vm: deletedVm(finalizers.vm, 'orphan'), vmi: running },
    steps: ['removeFinalizer'],
  },
  { rule: 'deleted', when: 'only the finalizers of others are left', seen: { vm: deletedVm('others') } },
  { rule: 'without-finalizer', when: 'the VM is new', seen: { vm: newVm }, steps: ['addFinalizer'] },
  { rule: 'own-write-not-shown', when: 'a VMI was created', seen: { creationExpected: true } },
  { rule: 'own-write-not-shown', when: 'the VMI was deleted', seen: { vmi: running, deletionExpected: true } },
  {
    rule: 'own-write-not-shown',
    when: 'the VM is deleted, and its VMI was deleted for it',
    seen: { vm: deletedVm(finalizers.vm), vmi: ended, deletionExpected: true },
    releases: ended,
  },
  {
    rule: 'own-write-not-shown',
    when: 'the VM is deleted just after its VMI was created: it must not vanish before that VMI',
    seen: { vm: deletedVm(finalizers.vm), creationExpected: true },
  },
  { rule: 'restore-under-way', when: 'it shall run', seen: { vm: vmWith({}, { restoreInProgress: 'back' }) } },
  { rule: 'strategy-refused', when: 'it is unknown', seen: { vm: vmWith({ runStrategy: 'WaitAsReceiver' }) } },
  { rule: 'start', when: 'there is no VMI', seen: {}, steps: ['startVmi'] },
  {
    rule: 'start-backs-off',
    when: 'the last starts failed',
    seen: { vm: vmWith({ runStrategy: 'Always' }, { startFailure: { consecutiveFailCount: 2, retryAfterTimestamp } }) },
  },
  {
    rule: 'failed-run-recorded',
    when: 'the VMI failed',
    seen: { vm: vmWith({ runStrategy: 'RerunOnFailure' }), vmi: ended },
  },
  {
    rule: 'halted-vm-started',
    when: 'a start was asked for',
    seen: { vm: vmWith({ runStrategy: 'Halted' }, { stateChangeRequests: [{ action: 'Start' }] }) },
    steps: ['changeStrategy'],
  },
  {
    rule: 'start',
    when: 'it waits for a guest of another VMI object',
    seen: { vm: vmWith({ runStrategy: 'WaitAsReceiver' }), noReceiving: undefined },
    steps: ['startVmi'],
  },
  {
    rule: 'guest-received',
    when: 'the VM says what counts from now on',
    seen: { vm: restoring, vmi: received },
    steps: ['changeStrategy'],
  },
  {
    rule: 'guest-gone-elsewhere',
    when: 'its migration is completed',
    seen: { vmi: leftWith({ completed: true }) },
    steps: ['changeStrategy'],
    releases: leftWith({ completed: true }),
  },
  {
    rule: 'guest-elsewhere-or-nowhere',
    when: 'nothing is known of it, and its VMI may go when somebody deletes it',
    seen: { vmi: leftWith({}) },
    releases: leftWith({}),
  },
  {
    rule: 'as-wanted',
    when: 'a VMI that waited for a guest is deleted: it may go',
    seen: { vm: vmWith({ runStrategy: 'WaitAsReceiver' }), vmi: waitingNoMore, noReceiving: undefined },
    releases: waitingNoMore,
  },
  {
    rule: 'stop',
    when: 'it shall not run',
    seen: { vm: vmWith({ runStrategy: 'Halted' }), vmi: running },
    steps: ['stopVmi'],
  },
  { rule: 'stop', when: 'the VMI has ended', seen: { vmi: ended }, steps: ['stopVmi'], releases: ended },
  { rule: 'as-wanted', when: 'the VMI runs', seen: { vmi: running } },
  {
    rule: 'as-wanted',
    when: 'a VMI that ended is kept',
    seen: { vm: vmWith({ runStrategy: 'Manual' }), vmi: ended },
    releases: ended,
  },
];

function observationOf(seen: Partial<PresentVm>): PresentVm {
  const expected = { creationExpected: false, deletionExpected: false };
  const unless = {
    vm: always,
    vmi: undefined,
    adoptable: undefined,
    plugsVolumes: true,
    noReceiving: 'off',
    changes: [],
  };
  const unknown: Pick<
    PresentVm,
    | 'isChanged'
    | 'referred'
    | 'referencePolicy'
    | 'dataVolumes'
    | 'disks'
    | 'synced'
    | 'volumeStatuses'
    | 'changeTracking'
  > = {
    dataVolumes: [],
    disks: 'ready',
    volumeStatuses: [],
    changeTracking: { isEnabled: false, vms: undefined },
    isChanged: undefined,
    referred: { kind: 'none' },
    referencePolicy: 'reference',
    synced: { annotations: [], labels: ['vendor.io/*'] },
  };
  return { ...base, kind: 'present', ...unless, ...unknown, ...expected, ...seen };
}

for (const { rule, when, seen, steps = [], releases } of rows) {
  test(`${rule}: ${when}`, () => {
    const decision = decideVm(observationOf(seen));
    assert.deepEqual([decision.rule, decision.steps.map(({ step }) => step)], [rule, steps]);
    assert.deepEqual(decision.releasesVmi, releases);
  });
}

const others: readonly (readonly [VmObservation, string])[] = [
  [{ ...base, kind: 'absent' }, 'vm-gone'],
  [{ ...base, kind: 'unclear', reason: 'no answer' }, 'api-without-answer'],
];
for (const [observation, rule] of others) {
  test(`${rule}: nothing is done`, () => {
    const decision = decideVm(observation);
    assert.deepEqual([decision.rule, decision.steps], [rule, []]);
  });
}

test('a VMI that is deleted already is not deleted again', () => {
  const vmi = buildVmi({}, { phase: 'Running' }, { deletionTimestamp });
  assert.deepEqual(decideVm(observationOf({ vm: vmWith({ runStrategy: 'Halted' }), vmi })).steps, []);
});

test('every rule has a row and a sentence', () => {
  const tested = new Set([...rows.map(({ rule }) => rule), ...others.map(([, rule]) => rule)]);
  assert.deepEqual(vmRules.map(({ name }) => name).sort(), [...tested].sort());
  for (const { name, why } of vmRules) assert.match(why, /^[A-Z].*\.$/, name);
});
