import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { VirtualMachineBackupTracker, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { backupTrackerRules, decideTracker } from '../../../../src/controller/backup-tracker/decide.ts';
import { observeTracker } from '../../../../src/controller/backup-tracker/observe.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildVm, buildVmi, cacheOf } from '../builders.ts';

const time = '2026-01-01T00:10:00Z';
const checkpoint = { latestCheckpoint: { name: 'c1' } };
const untold = { ...checkpoint, checkpointRedefinitionRequired: true };

function trackerOf(status: VirtualMachineBackupTracker['status'], metadata: object = {}): VirtualMachineBackupTracker {
  return {
    ...{ apiVersion: 'backup.kubevirt.io/v1alpha1', kind: 'VirtualMachineBackupTracker', ...(status && { status }) },
    metadata: { name: 'daily', namespace: 'default', uid: 't', ...metadata },
    spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' } },
  };
}

const guest = (status: object = {}, metadata: object = {}) =>
  buildVmi({}, { phase: 'Running', changedBlockTracking: { state: 'Enabled' }, ...status } as never, metadata);

interface World {
  readonly tracker?: VirtualMachineBackupTracker;
  readonly vmi?: VirtualMachineInstance;
  readonly hasVm?: boolean;
}

function decide({ tracker = trackerOf(untold), vmi, hasVm = true }: World) {
  return decideTracker(
    observeTracker('default/daily', {
      ...{ trackers: cacheOf([tracker]), vms: cacheOf(hasVm ? [buildVm()] : []), vmis: cacheOf(vmi ? [vmi] : []) },
      clock: new FakeClock(),
    }),
  );
}

const rows: readonly (readonly [rule: string, what: string, world: World, steps?: string])[] = [
  ['deleted', 'marked', { tracker: trackerOf(untold, { deletionTimestamp: time }), vmi: guest() }],
  ['checkpoint-none', 'new', { tracker: trackerOf(undefined), vmi: guest() }],
  ['checkpoint-none', 'given up', { tracker: trackerOf({ checkpointRedefinitionRequired: true }), vmi: guest() }],
  ['checkpoint-known', 'not marked', { tracker: trackerOf(checkpoint), vmi: guest() }],
  ['vm-missing', 'neither', { hasVm: false }],
  ['not-running', 'no VMI', {}],
  ['not-running', 'it boots', { vmi: guest({ phase: 'Scheduled' }) }],
  ['not-running', 'it is being deleted', { vmi: guest({}, { deletionTimestamp: time }) }],
  ['not-tracked', 'not yet', { vmi: guest({ changedBlockTracking: { state: 'Initializing' } }) }],
  ['migrating', 'begun', { vmi: guest({ migrationState: { startTimestamp: time } }) }],
  ['checkpoint-untold', 'it runs', { vmi: guest() }, 'redefineCheckpoint'],
  ['checkpoint-untold', 'a VMI without a VM', { vmi: guest(), hasVm: false }, 'redefineCheckpoint'],
];

describe('rules of backup trackers', () => {
  for (const [rule, what, world, steps = ''] of rows) {
    test(`${rule}, ${what}: ${steps || 'nothing'}`, () => {
      const decision = decide(world);
      assert.deepEqual([decision.rule, decision.steps.map(({ step }) => step).join(' ')], [rule, steps]);
    });
  }

  test('every rule has a row', () => {
    const known = new Set(rows.map(([rule]) => rule));
    const missing = backupTrackerRules.map(({ name }) => name).filter((name) => !known.has(name));
    assert.deepEqual(missing, ['gone']);
    assert.equal(decideTracker({ kind: 'absent', key: 'default/x', uid: '', now: new Date() }).rule, 'gone');
  });
});
