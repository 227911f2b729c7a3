import assert from 'node:assert/strict';
import { test } from 'node:test';
import { vmBackupAdmission, vmBackupTrackerAdmission } from '../../../src/apiserver/admission/index.ts';
import type { AdmissionContext, StoredObjects } from '../../../src/apiserver/api-type.ts';
import type { ApiObject } from '../../../src/apiserver/object.ts';
import { clusterDefaultsWith } from '../../fixtures/cluster-defaults.ts';

const ofVm = { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' };
const ofTracker = { apiGroup: 'backup.kubevirt.io', kind: 'VirtualMachineBackupTracker', name: 'daily' };
const object = (kind: string, spec: unknown, more: object = {}): ApiObject => ({
  apiVersion: 'backup.kubevirt.io/v1alpha1',
  ...{ kind, metadata: { name: 'one', namespace: 'default' } },
  spec,
  ...more,
});
const backup = (spec: object, more: object = {}) =>
  object('VirtualMachineBackup', { source: ofVm, pvcName: 'target', ...spec }, more);
const tracker = (source: object) => object('VirtualMachineBackupTracker', { source });
const context = (old: ApiObject | undefined, isOn = true): AdmissionContext => {
  const cluster = clusterDefaultsWith();
  return {
    ...{ old, hasNewSpec: true, now: new Date(), privileged: false, randomUuid: () => 'u' },
    cluster: { ...cluster, gates: { ...cluster.gates, IncrementalBackup: isOn } },
  };
};
const stored = (...backups: readonly ApiObject[]): StoredObjects => ({
  ...{ vmi: () => undefined, migrations: () => [], storageClass: () => undefined, restores: () => [] },
  backups: () => backups,
});

function problems(made: ApiObject, old?: ApiObject): string {
  const admission = made.kind === 'VirtualMachineBackup' ? vmBackupAdmission : vmBackupTrackerAdmission;
  const errors = admission.validate?.(made, context(old)) ?? [];
  return errors.map(({ field, message }) => `${field}: ${message}`).join('\n');
}

const rows: readonly (readonly [what: string, made: ApiObject, says: RegExp])[] = [
  ['a backup of a VM', backup({}), /^$/],
  ['a backup by a tracker', backup({ source: ofTracker, mode: 'Push' }), /^$/],
  ['a pull with its secret', backup({ mode: 'Pull', tokenSecretRef: 'token', ttlDuration: '2h' }), /^$/],
  ['a pull without a secret', backup({ mode: 'Pull' }), /^spec\.tokenSecretRef: Required value: the secret/],
  ['a mode that there is not', backup({ mode: 'Throw' }), /^spec\.mode: Unsupported value: "Throw".*"Push", "Pull"$/],
  ['no claim', backup({ pvcName: '' }), /^spec\.pvcName: Required value$/],
  ['no source', backup({ source: undefined }), /^spec\.source\.apiGroup: Required value$/],
  ['no group', backup({ source: { kind: 'VirtualMachine', name: 'x' } }), /^spec\.source\.apiGroup: Required value$/],
  [
    'a group of others',
    backup({ source: { ...ofVm, apiGroup: 'apps' } }),
    /^spec\.source\.apiGroup: Invalid value: "apps": must be kubevirt\.io or backup\.kubevirt\.io$/,
  ],
  [
    'a kind of the other group',
    backup({ source: { ...ofVm, kind: ofTracker.kind } }),
    /^spec\.source\.kind: Invalid value: "VirtualMachineBackupTracker": must be VirtualMachine where/,
  ],
  ['no name', backup({ source: { ...ofTracker, name: '' } }), /^spec\.source\.name: Required value$/],
  ['a time to live of nothing', backup({ ttlDuration: '0s' }), /^spec\.ttlDuration: Invalid value: "0s"/],
  ['a tracker of a VM', tracker(ofVm), /^$/],
  ['a tracker of a tracker', tracker(ofTracker), /^spec\.source\.apiGroup: Invalid value.*must be kubevirt\.io$/],
  ['a tracker of a VMI', tracker({ ...ofVm, kind: 'VirtualMachineInstance' }), /^spec\.source\.kind: Invalid value/],
];
for (const [what, made, says] of rows) {
  test(`${what}: ${says.source === '^$' ? 'taken' : 'refused with the field'}`, () => {
    assert.match(problems(made), says);
  });
}

test('neither kind changes what it is of', () => {
  assert.match(problems(backup({ pvcName: 'other' }), backup({})), /^spec: .*spec is immutable after creation$/);
  assert.match(problems(tracker({ ...ofVm, name: 'vm2' }), tracker(ofVm)), /spec is immutable after creation$/);
  assert.equal(problems(backup({}, { status: { type: 'Full' } }), backup({})), '');
});

test('without the gate none is made, and those that are there can be changed and deleted', () => {
  for (const [admission, made] of [
    [vmBackupAdmission, backup({})],
    [vmBackupTrackerAdmission, tracker(ofVm)],
  ] as const) {
    const denial = admission.deny?.(made, context(undefined, false), stored());
    assert.equal(denial?.message, 'IncrementalBackup feature gate not enabled');
    assert.equal(admission.deny?.(made, context(made, false), stored()), undefined);
    assert.equal(admission.deny?.(made, context(undefined), stored()), undefined);
  }
});

test('a second backup of the same source waits for the end of the first', () => {
  const denied = (...others: readonly ApiObject[]) =>
    vmBackupAdmission.deny?.(backup({}), context(undefined), stored(...others))?.message;
  const over = (type: string) => backup({}, { status: { conditions: [{ type, status: 'True' }] } });
  const inProgress = 'spec.source: VirtualMachineBackup "one" in progress for source';
  assert.equal(denied(backup({})), inProgress);
  assert.equal(denied(over('Complete'), over('Failed')), undefined);
  assert.equal(denied(over('Progressing')), inProgress);
  assert.equal(denied(backup({ source: ofTracker })), undefined);
  const again = vmBackupAdmission.deny?.(backup({}), context(backup({})), stored(backup({})));
  assert.equal(again, undefined, 'of itself nobody says so');
});
