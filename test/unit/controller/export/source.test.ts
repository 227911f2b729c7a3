import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolumeClaim, VirtualMachineBackup, VirtualMachineExport } from '../../../../src/api/index.ts';
import { sourceOf } from '../../../../src/controller/export/source.ts';
import { buildVm, cacheOf } from '../builders.ts';
import { buildClaim } from '../restore/builders.ts';

const vmExport: VirtualMachineExport = {
  ...{ apiVersion: 'export.kubevirt.io/v1', kind: 'VirtualMachineExport' },
  metadata: { name: 'e', namespace: 'default', uid: 'u' },
  spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' } },
};
const volumes = [{ name: 'root', persistentVolumeClaim: { claimName: 'root' } }];
const vm = buildVm({ template: { spec: { domain: { devices: { tpm: { persistent: true } } }, volumes } } as never });
const labels = { 'persistent-state-for': 'vm1' };
const state = { ...buildClaim('state'), metadata: { ...buildClaim('state').metadata, labels } };

function exported(...states: readonly PersistentVolumeClaim[]) {
  const none = { snapshots: cacheOf([]), contents: cacheOf([]), volumeSnapshots: cacheOf([]), vmis: cacheOf([]) };
  const ofBackups = { backups: cacheOf([]), trackers: cacheOf([]) };
  const { volumes, problem } = sourceOf(vmExport, {
    ...{ ...none, ...ofBackups, vms: cacheOf([vm]), claims: cacheOf([buildClaim('root'), ...states]) },
    ...{ stateClaims: () => states, dataVolumes: { fillingOf: () => undefined } },
  });
  return [volumes.map(({ claim, isDisk }) => [claim.metadata.name, isDisk]), problem];
}

test('what a TPM keeps is exported with the disks of its VM, as files, once there is something', () => {
  const root = ['root', true];
  assert.deepEqual(exported(state), [[root, ['state', false]], undefined]);
  assert.deepEqual(exported(), [[root], undefined]);
});

test('a backup is exported by the export that is made for it, while it is under way and has disks', () => {
  const owner = {
    apiVersion: 'backup.kubevirt.io/v1alpha1',
    kind: 'VirtualMachineBackup',
    name: 'b',
    controller: true,
  };
  const of = (uid: string, tokenSecretRef = 'token'): VirtualMachineExport => ({
    ...vmExport,
    metadata: { ...vmExport.metadata, name: 'b', ownerReferences: [{ ...owner, uid }] },
    spec: { source: { apiGroup: 'backup.kubevirt.io', kind: 'VirtualMachineBackup', name: 'b' }, tokenSecretRef },
  });
  const backupOf = (status: VirtualMachineBackup['status']): VirtualMachineBackup => ({
    ...{ apiVersion: 'backup.kubevirt.io/v1alpha1', kind: 'VirtualMachineBackup', ...(status && { status }) },
    metadata: { name: 'b', namespace: 'default', uid: 'u' },
    spec: {
      source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' },
      mode: 'Pull',
      tokenSecretRef: 'token',
    },
  });
  const facts = (backup: VirtualMachineBackup | undefined, uid = 'u', token = 'token') =>
    sourceOf(of(uid, token), {
      ...{ snapshots: cacheOf([]), contents: cacheOf([]), volumeSnapshots: cacheOf([]), vmis: cacheOf([]) },
      ...{ backups: cacheOf(backup ? [backup] : []), trackers: cacheOf([]), vms: cacheOf([]), claims: cacheOf([]) },
      ...{ stateClaims: () => [], dataVolumes: { fillingOf: () => undefined } },
    });
  const conditions = [{ type: 'Progressing', status: 'True' as const }];
  const includedVolumes = [{ volumeName: 'root', diskTarget: 'vda' }];
  const whole = backupOf({ type: 'Full', conditions, includedVolumes });
  assert.deepEqual([facts(whole).problem, facts(whole).vmName, facts(whole).backup], [undefined, 'vm1', whole]);
  assert.match(facts(whole, 'another').problem?.message ?? '', /read by the export of its own name/);
  // The owner alone proves nothing: whoever made it may have written that.
  assert.match(facts(whole, 'u', 'mine').problem?.message ?? '', /read by the export of its own name/);
  assert.match(facts(undefined).problem?.message ?? '', /default\/b not found/);
  assert.match(facts(backupOf({ type: 'Full', conditions })).problem?.message ?? '', /no disks to be read yet/);
  assert.match(facts(backupOf({ type: 'Full', includedVolumes })).problem?.message ?? '', /is not under way/);
});
