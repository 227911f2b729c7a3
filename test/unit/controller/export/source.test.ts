import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolumeClaim, VirtualMachineExport } from '../../../../src/api/index.ts';
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
  const { volumes, problem } = sourceOf(vmExport, {
    ...{ ...none, vms: cacheOf([vm]), claims: cacheOf([buildClaim('root'), ...states]) },
    ...{ stateClaims: () => states, dataVolumes: { fillingOf: () => undefined } },
  });
  return [volumes.map(({ claim, isDisk }) => [claim.metadata.name, isDisk]), problem];
}

test('what a TPM keeps is exported with the disks of its VM, as files, once there is something', () => {
  const root = ['root', true];
  assert.deepEqual(exported(state), [[root, ['state', false]], undefined]);
  assert.deepEqual(exported(), [[root], undefined]);
});
