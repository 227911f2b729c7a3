import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachine, VirtualMachineInstance } from '../../../../src/api/index.ts';
import type { ControllerConfig } from '../../../../src/cluster-config/index.ts';
import { trackingOfNew, trackingStatus } from '../../../../src/controller/vm/change-tracking.ts';

const vms = { matchLabels: { backup: 'yes' } };
const on = { isEnabled: true, vms };
const off = { isEnabled: false, vms };
const unselecting = { vms: undefined };
const status = (state: string) => (state === '' ? {} : { status: { changedBlockTracking: { state } } });
const vm = (state: string, labels: Record<string, string> = { backup: 'yes' }) =>
  ({ metadata: { name: 'v', labels }, ...status(state) }) as unknown as VirtualMachine;
const vmi = (state: string) => ({ metadata: { name: 'v' }, ...status(state) }) as unknown as VirtualMachineInstance;
const none = { backup: 'no' };

test('a new VMI is told what is to be recorded, and only where the gate is on', () => {
  assert.equal(trackingOfNew(vm(''), on), 'Initializing');
  assert.equal(trackingOfNew(vm('', none), on), undefined);
  assert.equal(trackingOfNew(vm('Enabled', none), on), 'Disabled');
  assert.equal(trackingOfNew(vm(''), off), undefined);
  assert.equal(trackingOfNew(vm(''), { ...on, ...unselecting }), undefined);
});

const rows: readonly (readonly [
  of: VirtualMachine,
  guest: string | undefined,
  config: ControllerConfig['changeTracking'],
  state: string | undefined,
])[] = [
  [vm(''), undefined, on, 'Initializing'],
  [vm('Enabled'), undefined, on, 'Enabled'],
  [vm(''), '', on, 'PendingRestart'],
  [vm('PendingRestart'), 'Initializing', on, 'Initializing'],
  [vm('Initializing'), 'Enabled', on, 'Enabled'],
  [vm('Enabled', none), 'Enabled', on, 'PendingRestart'],
  [vm('PendingRestart', none), 'Disabled', on, 'Disabled'],
  [vm('Enabled', none), undefined, on, 'Disabled'],
  [vm('', none), '', on, undefined],
  [vm('', none), '', off, undefined],
  [vm(''), '', { ...on, ...unselecting }, undefined],
  [vm(''), undefined, { ...off, ...unselecting }, undefined],
  [vm(''), undefined, off, 'IncrementalBackupFeatureGateDisabled'],
  [vm('Enabled'), 'Enabled', off, 'PendingRestart'],
  [vm('Enabled', none), undefined, off, undefined],
];

for (const [of, guest, config, state] of rows) {
  const was = JSON.stringify([of.status ?? {}, of.metadata.labels, guest, config.isEnabled]);
  test(`a VM says ${state ?? 'nothing'} after ${was}`, () => {
    const said = trackingStatus(of, guest === undefined ? undefined : vmi(guest), config);
    assert.deepEqual(said, state === undefined ? undefined : { state });
  });
}
