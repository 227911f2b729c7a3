import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  finalizers,
  type PersistentVolumeClaim,
  type VirtualMachineBackup,
  type VirtualMachineBackupTracker,
  type VirtualMachineInstance,
} from '../../../../src/api/index.ts';
import { backupRules, decideBackup } from '../../../../src/controller/backup/decide.ts';
import { targetVolumeName } from '../../../../src/controller/backup/names.ts';
import { type BackupObservation, type GuestBackup, observeBackup } from '../../../../src/controller/backup/observe.ts';
import { backupStatusOf, eventsOf } from '../../../../src/controller/backup/status.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildVm, buildVmi, cacheOf } from '../builders.ts';

const createdAt = '2026-01-01T00:05:00Z';
const time = '2026-01-01T00:10:00Z';
const volumeName = 'one-backup-target-pvc';
const ofVm = { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' };
const ofTracker = { apiGroup: 'backup.kubevirt.io', kind: 'VirtualMachineBackupTracker', name: 'daily' };

function backupOf(
  status: VirtualMachineBackup['status'] = {},
  spec: object = {},
  metadata: object = {},
): VirtualMachineBackup {
  return {
    ...{ apiVersion: 'backup.kubevirt.io/v1alpha1', kind: 'VirtualMachineBackup', status },
    metadata: {
      ...{ name: 'one', namespace: 'default', uid: 'u', creationTimestamp: createdAt },
      ...{ finalizers: [finalizers.vmBackup], ...metadata },
    },
    spec: { source: ofVm, pvcName: 'target', ...spec },
  };
}

function trackerOf(status: VirtualMachineBackupTracker['status'] = {}): VirtualMachineBackupTracker {
  return {
    ...{ apiVersion: 'backup.kubevirt.io/v1alpha1', kind: 'VirtualMachineBackupTracker', status },
    metadata: { name: 'daily', namespace: 'default', uid: 't' },
    spec: { source: ofVm },
  };
}

const claimOf = (spec: object = {}, metadata: object = {}): PersistentVolumeClaim => ({
  ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
  metadata: { name: 'target', namespace: 'default', ...metadata },
  spec: { volumeMode: 'Filesystem', ...spec },
});

const disks = {
  domain: { devices: { disks: [{ name: 'root', disk: {} }] } },
  volumes: [{ name: 'root', persistentVolumeClaim: { claimName: 'root' } }],
};
const volume = { name: volumeName, claimName: 'target', type: 'Backup' };
const mounted = { name: volumeName, target: '', phase: 'MountedToPod', hotplugVolume: {} };
type Mark = Readonly<Record<string, unknown>>;
const mark: Mark = { backupName: 'one', startTimestamp: createdAt };
const begun: Mark = { ...mark, checkpointName: 'one-c', volumes: [{ volumeName: 'root', diskTarget: 'vda' }] };
const ended: Mark = { ...begun, completed: true };

interface Guest {
  readonly marked?: Mark;
  readonly attachment?: 'none' | 'asked' | 'there' | 'leaving';
  readonly status?: object;
  readonly spec?: object;
  readonly metadata?: object;
}

function guest({ marked, attachment = 'none', status = {}, spec = {}, metadata = {} }: Guest = {}) {
  const isWanted = ['asked', 'there'].includes(attachment);
  const entries = attachment === 'there' || attachment === 'leaving' ? [mounted] : [];
  const tracking = { state: 'Enabled', ...(marked && { backupStatus: marked }) };
  return buildVmi(
    { ...disks, ...(isWanted && { utilityVolumes: [volume] }), ...spec } as never,
    { phase: 'Running', volumeStatus: entries, changedBlockTracking: tracking, ...status } as never,
    { creationTimestamp: '2026-01-01T00:00:00Z', ...metadata },
  );
}

interface World {
  readonly backup?: VirtualMachineBackup;
  readonly others?: readonly VirtualMachineBackup[];
  readonly tracker?: VirtualMachineBackupTracker;
  readonly vmi?: VirtualMachineInstance | undefined;
  readonly hasVm?: boolean;
  readonly claim?: PersistentVolumeClaim | undefined;
}

function seen(world: World = {}): BackupObservation {
  const { backup = backupOf(), others = [], tracker, hasVm = true } = world;
  const vmi = 'vmi' in world ? world.vmi : guest();
  const claim = 'claim' in world ? world.claim : claimOf();
  const deps = {
    backups: cacheOf([backup, ...others]),
    trackers: cacheOf(tracker ? [tracker] : []),
    vms: cacheOf(hasVm ? [buildVm()] : []),
    vmis: cacheOf(vmi ? [vmi] : []),
    claims: cacheOf(claim ? [claim] : []),
    clock: new FakeClock(),
  };
  return observeBackup('default/one', deps);
}

const deleted = { deletionTimestamp: time };
const over = (type: string) => backupOf({ conditions: [{ type, status: 'True' }] });
const overDeleted = backupOf({ conditions: [{ type: 'Failed', status: 'True' }] }, {}, deleted);
const byTracker = (status: VirtualMachineBackup['status'] = {}, spec: object = {}) =>
  backupOf(status, { source: ofTracker, ...spec });
const latest = { latestCheckpoint: { name: 'c1', creationTime: '2026-01-01T00:04:00Z' } };
const foreign: Mark = { backupName: 'two', startTimestamp: createdAt };
const two = backupOf({}, {}, { name: 'two' });

const rows: readonly (readonly [rule: string, what: string, world: World, steps: string])[] = [
  [
    'over-left',
    'plugged and marked, by a tracker that is gone',
    {
      backup: byTracker({ conditions: [{ type: 'Failed', status: 'True' }] }),
      vmi: guest({ marked: mark, attachment: 'there' }),
    },
    'detachClaim unmarkGuest',
  ],
  [
    'under-way',
    'by a tracker that is gone',
    { backup: byTracker({ type: 'Full' }), vmi: guest({ marked: begun, attachment: 'there' }) },
    '',
  ],
  [
    'over-left',
    'plugged and marked',
    { backup: over('Failed'), vmi: guest({ marked: mark, attachment: 'there' }) },
    'detachClaim unmarkGuest',
  ],
  ['over-left', 'marked', { backup: over('Complete'), vmi: guest({ marked: ended }) }, 'unmarkGuest'],
  ['over', 'another is marked', { backup: over('Complete'), vmi: guest({ marked: foreign }) }, ''],
  [
    'over',
    'the guest has ended',
    { backup: over('Failed'), vmi: guest({ marked: mark, status: { phase: 'Failed' } }) },
    '',
  ],
  ['over-deleted', 'kept', { backup: overDeleted }, 'removeFinalizer'],
  ['deleted-before', 'no finalizer', { backup: backupOf({}, {}, { ...deleted, finalizers: [] }) }, ''],
  ['done-plugged', 'by no tracker', { vmi: guest({ marked: ended, attachment: 'there' }) }, 'detachClaim'],
  ['done-plugged', 'still leaving', { vmi: guest({ marked: ended, attachment: 'leaving' }) }, ''],
  [
    'done-plugged',
    'by a tracker',
    { backup: byTracker(), tracker: trackerOf(latest), vmi: guest({ marked: ended, attachment: 'there' }) },
    'recordCheckpoint detachClaim',
  ],
  ['done', 'free', { vmi: guest({ marked: ended }) }, ''],
  [
    'done',
    'recorded already',
    { backup: byTracker(), tracker: trackerOf({ latestCheckpoint: { name: 'one-c' } }), vmi: guest({ marked: ended }) },
    '',
  ],
  [
    'done',
    'not yet recorded',
    { backup: byTracker(), tracker: trackerOf(), vmi: guest({ marked: ended }) },
    'recordCheckpoint',
  ],
  [
    'done',
    'a failure has no checkpoint',
    { backup: byTracker(), tracker: trackerOf(), vmi: guest({ marked: { ...ended, failed: true } }) },
    '',
  ],
  ['guest-ended', 'crashed', { vmi: guest({ marked: begun, status: { phase: 'Failed' } }) }, ''],
  [
    'deleted-under-way',
    'copying',
    { backup: backupOf({ type: 'Full' }, {}, deleted), vmi: guest({ marked: begun, attachment: 'there' }) },
    'abortBackup',
  ],
  ['guest-marked', 'a controller was killed', { vmi: guest({ marked: mark, attachment: 'there' }) }, 'startBackup'],
  [
    'under-way',
    'copying',
    { backup: backupOf({ type: 'Full' }), vmi: guest({ marked: begun, attachment: 'there' }) },
    '',
  ],
  [
    'under-way',
    'the VMI is being deleted',
    { backup: backupOf({ type: 'Full' }), vmi: guest({ marked: begun, metadata: deleted }) },
    '',
  ],
  ['lost', 'no guest', { backup: backupOf({ type: 'Full' }), vmi: undefined }, ''],
  ['lost', 'no word', { backup: backupOf({ type: 'Full' }) }, ''],
  ['deleted-early', 'plugged', { backup: backupOf({}, {}, deleted), vmi: guest({ attachment: 'asked' }) }, ''],
  ['refused', 'a pull', { backup: backupOf({}, { mode: 'Pull' }) }, ''],
  ['refused', 'no claim named', { backup: backupOf({}, { pvcName: '' }) }, ''],
  ['refused', 'of a VMI', { backup: backupOf({}, { source: { ...ofVm, kind: 'VirtualMachineInstance' } }) }, ''],
  ['tracker-missing', 'none', { backup: byTracker() }, ''],
  ['vm-missing', 'none', { hasVm: false }, ''],
  ['not-running', 'no VMI', { vmi: undefined }, ''],
  ['not-running', 'it boots', { vmi: guest({ status: { phase: 'Scheduled' } }) }, ''],
  ['not-running', 'it is being deleted', { vmi: guest({ metadata: deleted }) }, ''],
  [
    'no-disks',
    'a container disk',
    { vmi: guest({ spec: { volumes: [{ name: 'root', containerDisk: { image: 'x' } }] } }) },
    '',
  ],
  ['not-tracked', 'no label', { vmi: guest({ status: { changedBlockTracking: undefined } }) }, ''],
  ['not-tracked', 'not yet', { vmi: guest({ status: { changedBlockTracking: { state: 'Initializing' } } }) }, ''],
  ['other-lost', 'its object is gone', { vmi: guest({ marked: { ...foreign, completed: true } }) }, 'unmarkGuest'],
  ['other-under-way', 'it is there', { others: [two], vmi: guest({ marked: { ...foreign, completed: true } }) }, ''],
  ['other-under-way', 'it still copies', { vmi: guest({ marked: foreign }) }, ''],
  ['other-under-way', 'of the same name, before', { vmi: guest({ marked: { ...mark, startTimestamp: time } }) }, ''],
  ['migrating', 'begun', { vmi: guest({ status: { migrationState: { startTimestamp: time } } }) }, ''],
  ['claim-missing', 'none', { claim: undefined }, ''],
  ['claim-missing', 'being deleted', { claim: claimOf({}, deleted) }, ''],
  ['claim-unfit', 'Block', { claim: claimOf({ volumeMode: 'Block' }) }, ''],
  [
    'claim-unfit',
    'a disk of the VM',
    { backup: backupOf({}, { pvcName: 'root' }), claim: claimOf({}, { name: 'root' }) },
    '',
  ],
  ['claim-unplugged', 'none', {}, 'addFinalizer attachClaim'],
  ['claim-coming', 'asked for', { vmi: guest({ attachment: 'asked' }) }, ''],
  ['ready', 'of a VM', { vmi: guest({ attachment: 'there' }) }, 'addFinalizer markGuest startBackup'],
  [
    'ready',
    'by a tracker, the first',
    { backup: byTracker(), tracker: trackerOf(), vmi: guest({ attachment: 'there' }) },
    'addFinalizer markGuest startBackup',
  ],
  [
    'ready',
    'by a tracker',
    { backup: byTracker(), tracker: trackerOf(latest), vmi: guest({ attachment: 'there' }) },
    'addFinalizer markGuest startBackup',
  ],
  [
    'ready',
    'the guest was started since',
    {
      backup: byTracker(),
      tracker: trackerOf(latest),
      vmi: guest({ attachment: 'there', metadata: { creationTimestamp: createdAt } }),
    },
    'addFinalizer redefineCheckpoint markGuest startBackup',
  ],
  [
    'ready',
    'upstream’s agent says so',
    {
      backup: byTracker(),
      tracker: trackerOf({ ...latest, checkpointRedefinitionRequired: true }),
      vmi: guest({ attachment: 'there' }),
    },
    'addFinalizer redefineCheckpoint markGuest startBackup',
  ],
  [
    'ready',
    'full by force',
    {
      backup: byTracker({}, { forceFullBackup: true }),
      tracker: trackerOf(latest),
      vmi: guest({ attachment: 'there', metadata: { creationTimestamp: createdAt } }),
    },
    'addFinalizer markGuest startBackup',
  ],
];

describe('rules of backups', () => {
  for (const [rule, what, world, steps] of rows) {
    test(`${rule}, ${what}: ${steps || 'nothing'}`, () => {
      const decision = decideBackup(seen(world));
      assert.equal(decision.rule, rule);
      assert.equal(decision.steps.map(({ step }) => step).join(' '), steps);
    });
  }

  test('every rule has a row', () => {
    const known = new Set(rows.map(([rule]) => rule));
    const missing = backupRules.map(({ name }) => name).filter((name) => !known.has(name));
    assert.deepEqual(missing, ['gone']);
    assert.equal(decideBackup({ kind: 'absent', key: 'default/x', uid: '', now: new Date() }).rule, 'gone');
  });

  test('the checkpoint that an incremental backup is of is the tracker’s; a forced full one is of none', () => {
    const started = (spec: object) => {
      const world = { backup: byTracker({}, spec), tracker: trackerOf(latest), vmi: guest({ attachment: 'there' }) };
      const { steps, says } = decideBackup(seen(world));
      return [steps.find(({ step }) => step === 'startBackup'), says?.type];
    };
    assert.deepEqual(started({}), [{ step: 'startBackup', since: 'c1' }, 'Incremental']);
    assert.deepEqual(started({ forceFullBackup: true }), [{ step: 'startBackup', since: undefined }, 'Full']);
  });

  test('whoever waits is told for what, and what to do', () => {
    const told = (world: World) => {
      const { says } = decideBackup(seen(world));
      return says?.progress?.message ?? says?.end?.message;
    };
    assert.match(told({ vmi: undefined }) ?? '', /VM default\/vm1 is not running: start it/);
    assert.match(told({ vmi: guest({ status: { changedBlockTracking: undefined } }) }) ?? '', /\(off\): let it match/);
    assert.match(told({ claim: claimOf({ volumeMode: 'Block' }) }) ?? '', /needs? volumeMode Filesystem/);
    assert.match(told({ vmi: guest({ marked: foreign }) }) ?? '', /backup two of VM default\/vm1 is under way/);
    assert.match(told({ backup: byTracker() }) ?? '', /BackupTracker default\/daily does not exist/);
    assert.match(told({ backup: backupOf({}, { mode: 'Pull' }) }) ?? '', /spec\.mode "Pull": .* mode Push/);
  });
});

describe('what is said of a backup', () => {
  const own: GuestBackup = {
    ...{ name: 'one', startTime: createdAt, isOver: true, hasFailed: false, message: undefined },
    ...{ checkpoint: 'c', quiesced: 'Succeeded', volumes: [{ volumeName: 'root', diskTarget: 'vda' }] },
  };
  const conditionsOf = (status: VirtualMachineBackup['status']) =>
    status?.conditions?.map(({ type, status: value, reason }) => `${type}=${value} ${reason}`).join(', ');

  test('a whole one, one with a warning, one that failed: conditions and event', () => {
    const end = (change: object) => {
      const vmi = guest({ marked: { ...ended, quiesceStatus: 'Failed', ...change } });
      const backup = backupOf({ type: 'Full' });
      const { says = {} } = decideBackup(seen({ backup, vmi }));
      const status = backupStatusOf(backup, says, time);
      return [conditionsOf(status), ...eventsOf(backup, status).map(({ type, reason }) => `${type} ${reason}`)];
    };
    assert.deepEqual(end({}), [
      'Quiesced=False QuiesceFailed, Complete=True Completed, Progressing=False Completed',
      'Normal VirtualMachineBackupCompletedSuccessfully',
    ]);
    assert.deepEqual(end({ backupMsg: 'not frozen' }), [
      'Quiesced=False QuiesceFailed, Complete=True CompletedWithWarning, Progressing=False CompletedWithWarning',
      'Warning VirtualMachineBackupCompletedWithWarning',
    ]);
    assert.deepEqual(end({ failed: true, backupMsg: 'no room' }), [
      'Quiesced=False QuiesceFailed, Failed=True Failed, Progressing=False Failed',
      'Warning VirtualMachineBackupFailed',
    ]);
  });

  test('what does not change is not written again, and a time changes with the status alone', () => {
    const progress = { reason: 'Initiated', message: 'x' };
    const first = backupStatusOf(backupOf(), { progress, guest: own, type: 'Full' }, createdAt);
    assert.equal(first.checkpointName, 'c');
    assert.deepEqual(first.includedVolumes, own.volumes);
    const backup = backupOf(first);
    assert.deepEqual(backupStatusOf(backup, { progress, guest: own }, time), first);
    const later = backupStatusOf(backup, { progress: { ...progress, message: 'y' } }, time);
    assert.deepEqual(
      later.conditions?.map(({ lastTransitionTime }) => lastTransitionTime),
      [createdAt, createdAt],
    );
  });

  test('that it is being ended is told once', () => {
    const aborting = { progress: { reason: 'Aborting', message: 'x' } };
    const backup = backupOf();
    const status = backupStatusOf(backup, aborting, time);
    assert.deepEqual(eventsOf(backup, status), [
      { type: 'Warning', reason: 'VirtualMachineBackupAborting', message: 'x' },
    ]);
    assert.deepEqual(eventsOf(backupOf(status), status), []);
  });
});

test('the name of a volume is upstream’s, and a label whatever the backup is called', () => {
  assert.equal(targetVolumeName('one'), volumeName);
  const names = ['a.b', 'a-b', 'x'.repeat(80), `${'x'.repeat(80)}y`, `${'a'.repeat(35)}.b`].map(targetVolumeName);
  assert.equal(new Set(names).size, names.length);
  for (const name of names) assert.match(name, /^(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
});
