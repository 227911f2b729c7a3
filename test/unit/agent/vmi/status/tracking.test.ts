import assert from 'node:assert/strict';
import { test } from 'node:test';
import { projectTracking } from '../../../../../src/agent/vmi/status/backup.ts';
import type { Domain, VirtualMachineInstance, VmiStatus } from '../../../../../src/api/index.ts';

const vmi = {
  spec: {
    domain: {
      devices: {
        disks: [
          { name: 'data', disk: {} },
          { name: 'cd', cdrom: {} },
          { name: 'seed', disk: {} },
        ],
      },
    },
    volumes: [
      { name: 'data', persistentVolumeClaim: { claimName: 'a' } },
      { name: 'cd', persistentVolumeClaim: { claimName: 'b' } },
      { name: 'shared', persistentVolumeClaim: { claimName: 'c' } },
      { name: 'seed', cloudInitNoCloud: { userData: '' } },
    ],
  },
} as unknown as Pick<VirtualMachineInstance, 'spec'>;

function stateAfter(state: string, ...recorded: readonly string[]): unknown {
  const Disks = ['data', 'cd', 'seed'].map((Name) => ({
    Alias: { Name },
    Source: { DataStore: recorded.includes(Name) ? {} : null },
  }));
  const domain = { Spec: { Devices: { Disks } }, Status: { Status: 'Running' } } as unknown as Domain;
  const status: VmiStatus = { changedBlockTracking: { state, backupStatus: { backupName: 'b' } } };
  projectTracking(vmi, status, domain);
  assert.deepEqual((status.changedBlockTracking as { backupStatus: unknown }).backupStatus, { backupName: 'b' });
  return (status.changedBlockTracking as { state: unknown }).state;
}

test('tracking is enabled once every disk that the guest writes on a claim has its record', () => {
  assert.equal(stateAfter('Initializing'), 'Initializing');
  assert.equal(stateAfter('Initializing', 'seed'), 'Initializing');
  assert.equal(stateAfter('Initializing', 'data'), 'Enabled');
});

test('no other state changes', () => {
  for (const state of ['Disabled', 'PendingRestart', 'Enabled']) assert.equal(stateAfter(state, 'data'), state);
});

test('a VMI without tracking gets none, whatever its domain says', () => {
  const status: VmiStatus = {};
  projectTracking({}, status, { Spec: null, Status: { Status: 'Running' } } as unknown as Domain);
  assert.deepEqual(status, {});
});
