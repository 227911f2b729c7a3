import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  finalizers,
  type PersistentVolumeClaim,
  type VirtualMachineBackup,
  type VirtualMachineBackupTracker,
  type VirtualMachineExport,
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
  readonly vmExport?: VirtualMachineExport;
}

function seen(world: World = {}): BackupObservation {
  const { backup = backupOf(), others = [], tracker, hasVm = true, vmExport } = world;
  const vmi = 'vmi' in world ? world.vmi : guest();
  const claim = 'claim' in world ? world.claim : claimOf();
  const deps = {
    backups: cacheOf([backup, ...others]),
    trackers: cacheOf(tracker ? [tracker] : []),
    vms: cacheOf(hasVm ? [buildVm()] : []),
    vmis: cacheOf(vmi ? [vmi] : []),
    exports: cacheOf(vmExport ? [vmExport] : []),
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
const pullOf = (status: VirtualMachineBackup['status'] = {}, spec: object = {}) =>
  backupOf(status, { mode: 'Pull', tokenSecretRef: 'token', ttlDuration: '100000h', ...spec });
const active = { type: 'Full' } as const;
const told = { ...active, exportUID: 'e' };
const readable = {
  ...told,
  includedVolumes: [
    { volumeName: 'root', diskTarget: 'vda', dataEndpoint: 'https://s/data', mapEndpoint: 'https://s/map' },
  ],
};
const exportOf = (status: VirtualMachineExport['status'] = {}, owner = 'u'): VirtualMachineExport => ({
  ...{ apiVersion: 'export.kubevirt.io/v1', kind: 'VirtualMachineExport', status },
  metadata: {
    ...{ name: 'one', namespace: 'default', uid: 'e' },
    ownerReferences: [
      {
        apiVersion: 'backup.kubevirt.io/v1alpha1',
        kind: 'VirtualMachineBackup',
        name: 'one',
        uid: owner,
        controller: true,
      },
    ],
  },
  spec: {
    source: { apiGroup: 'backup.kubevirt.io', kind: 'VirtualMachineBackup', name: 'one' },
    tokenSecretRef: 'token',
  },
});
const withSpec = (spec: object): VirtualMachineExport => {
  const vmExport = exportOf(ready);
  return { ...vmExport, spec: { ...vmExport.spec, ...spec } };
};
const urls = (side: string) => [
  {
    name: 'root',
    endpoints: [
      { endpoint: 'data' as const, url: `https://${side}/data` },
      { endpoint: 'map' as const, url: `https://${side}/map` },
    ],
  },
];
const ready: VirtualMachineExport['status'] = {
  ...{ phase: 'Ready', serviceName: 's' },
  links: { internal: { cert: 'PEM', backups: urls('s.default.svc') } },
};
const copying = guest({ marked: begun, attachment: 'there' });
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
  ['over-kept', 'another is marked', { backup: over('Complete'), vmi: guest({ marked: foreign }) }, 'removeFinalizer'],
  [
    'over-kept',
    'the guest has ended',
    { backup: over('Failed'), vmi: guest({ marked: mark, status: { phase: 'Failed' } }) },
    'removeFinalizer',
  ],
  ['over-kept', 'deleted', { backup: overDeleted }, 'removeFinalizer'],
  [
    'over-kept',
    'deleted while its claim leaves',
    { backup: overDeleted, vmi: guest({ attachment: 'leaving' }) },
    'removeFinalizer',
  ],
  ['over', 'its claim still leaves', { backup: over('Complete'), vmi: guest({ attachment: 'leaving' }) }, ''],
  [
    'over',
    'with a finalizer of somebody else',
    { backup: backupOf({ conditions: [{ type: 'Failed', status: 'True' }] }, {}, { finalizers: ['x/y'] }) },
    '',
  ],
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
  ['refused', 'a pull without a token', { backup: backupOf({}, { mode: 'Pull' }) }, ''],
  ['refused', 'another mode', { backup: backupOf({}, { mode: 'Throw' }) }, ''],
  ['expired-early', 'its VM never ran', { backup: pullOf({}, { ttlDuration: '1m' }), vmi: undefined }, ''],
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
    'checkpoint-untold',
    'the agent says so',
    {
      backup: byTracker(),
      tracker: trackerOf({ ...latest, checkpointRedefinitionRequired: true }),
      vmi: guest({ attachment: 'there' }),
    },
    '',
  ],
  [
    'export-foreign',
    'with a forged owner and its own token',
    { backup: pullOf(active), vmi: copying, vmExport: withSpec({ tokenSecretRef: 'mine' }) },
    '',
  ],
  [
    'export-foreign',
    'with a forged owner, of something else',
    { backup: pullOf(active), vmi: copying, vmExport: withSpec({ source: ofVm }) },
    '',
  ],
  ['export-occupied', 'by a user', { backup: pullOf(), vmExport: exportOf({}, 'somebody') }, ''],
  [
    'ready',
    'a pull',
    { backup: pullOf(), vmi: guest({ attachment: 'there' }) },
    'addFinalizer checkAuthorities markGuest startBackup',
  ],
  ['pull-expired', 'it is read', { backup: pullOf(active, { ttlDuration: '1m' }), vmi: copying }, 'abortBackup'],
  ['export-foreign', 'made meanwhile', { backup: pullOf(active), vmi: copying, vmExport: exportOf({}, 'x') }, ''],
  ['export-missing', 'none yet', { backup: pullOf(active), vmi: copying }, 'createExport'],
  ['export-unserved', 'just made', { backup: pullOf(active), vmi: copying, vmExport: exportOf() }, ''],
  [
    'export-untold',
    'it has its Service',
    { backup: pullOf(active), vmi: copying, vmExport: exportOf({ serviceName: 's' }) },
    'orderExport',
  ],
  [
    'export-untold',
    'a user has deleted the first',
    { backup: pullOf({ ...active, exportUID: 'old' }), vmi: copying, vmExport: exportOf(ready) },
    'orderExport',
  ],
  [
    'export-pending',
    'its pod starts',
    { backup: pullOf(told), vmi: copying, vmExport: exportOf({ serviceName: 's' }) },
    '',
  ],
  ['export-ready', 'its pod serves', { backup: pullOf(told), vmi: copying, vmExport: exportOf(ready) }, ''],
  [
    'done-plugged',
    'a pull whose exporter is there',
    { backup: pullOf(told), vmi: guest({ marked: ended }), vmExport: exportOf(ready) },
    'deleteExport',
  ],
  [
    'done-plugged',
    'a pull that nobody could read, by a tracker',
    {
      backup: pullOf(told, { source: ofTracker }),
      tracker: trackerOf(latest),
      vmi: guest({ marked: ended, attachment: 'there' }),
      vmExport: exportOf({ serviceName: 's' }),
    },
    'deleteExport detachClaim',
  ],
  [
    'done',
    'a pull that nobody could read, by a tracker',
    { backup: pullOf(told, { source: ofTracker }), tracker: trackerOf(latest), vmi: guest({ marked: ended }) },
    '',
  ],
  [
    'done',
    'a pull that could be read, by a tracker',
    { backup: pullOf(readable, { source: ofTracker }), tracker: trackerOf(latest), vmi: guest({ marked: ended }) },
    'recordCheckpoint',
  ],
  [
    'over-left',
    'a pull whose guest ended',
    { backup: pullOf({ conditions: [{ type: 'Failed', status: 'True' }] }), vmi: undefined, vmExport: exportOf(ready) },
    'deleteExport',
  ],
  [
    'ready',
    'full by force',
    {
      backup: byTracker({}, { forceFullBackup: true }),
      tracker: trackerOf({ ...latest, checkpointRedefinitionRequired: true }),
      vmi: guest({ attachment: 'there' }),
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
    assert.match(told({ backup: backupOf({}, { mode: 'Pull' }) }) ?? '', /spec\.tokenSecretRef names no secret/);
    const untold = trackerOf({ ...latest, checkpointRedefinitionRequired: true });
    assert.match(
      told({ backup: byTracker(), tracker: untold }) ?? '',
      /redefinition on tracker daily: .* checkpoint c1/,
    );
    const late = pullOf(active, { ttlDuration: '1m' });
    assert.match(told({ backup: late, vmi: copying }) ?? '', /\(spec\.ttlDuration: 1m\) is over/);
    assert.match(told({ backup: pullOf(), vmExport: exportOf({}, 'x') }) ?? '', /default\/one exists .* delete it/);
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

  test('a pull that ends is whole if it could be read, and has failed if nobody ever could', () => {
    const end = (status: VirtualMachineBackup['status'], metadata: object = {}) => {
      const pull = pullOf(status);
      const backup = { ...pull, metadata: { ...pull.metadata, ...metadata } };
      const { says = {} } = decideBackup(seen({ backup, vmi: guest({ marked: ended }) }));
      return says.end;
    };
    assert.equal(end(readable)?.type, 'Complete');
    for (const metadata of [{}, deleted]) {
      const { type, message = '' } = end(told, metadata) ?? {};
      assert.equal(type, 'Failed');
      assert.match(message, /nobody could read it: see that the secret token is there .* make another one$/);
    }
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

  test('where a pull is read: from outside where that is possible, and nowhere once it is over', () => {
    const decided = (status: VirtualMachineExport['status']) => {
      const backup = pullOf(told);
      const { says = {} } = decideBackup(seen({ backup, vmi: copying, vmExport: exportOf(status) }));
      return backupStatusOf(backup, says, time);
    };
    const inside = decided(ready);
    const volume = { volumeName: 'root', diskTarget: 'vda' };
    const at = (side: string) => ({ dataEndpoint: `https://${side}/data`, mapEndpoint: `https://${side}/map` });
    assert.deepEqual([inside.endpointCert, inside.includedVolumes], ['PEM', [{ ...volume, ...at('s.default.svc') }]]);
    assert.match(conditionsOf(inside) ?? '', /^Progressing=True ExportReady/);
    const external = { cert: 'OUT', backups: urls('example.org') };
    const outside = decided({ ...ready, links: { ...ready.links, external } });
    assert.deepEqual([outside.endpointCert, outside.includedVolumes], ['OUT', [{ ...volume, ...at('example.org') }]]);
    const paused = backupStatusOf(pullOf(inside), { guest: { ...own, isOver: false } }, time);
    assert.deepEqual(paused.includedVolumes, inside.includedVolumes, 'an exporter that is made anew has the same');
    const end = { type: 'Complete', reason: 'Completed', message: 'x' } as const;
    assert.deepEqual(backupStatusOf(pullOf(inside), { guest: own, end }, time).includedVolumes, [volume]);
    const untold = pullOf(active);
    const { says = {} } = decideBackup(
      seen({ backup: untold, vmi: copying, vmExport: exportOf({ serviceName: 's' }) }),
    );
    assert.equal(backupStatusOf(untold, says, time).exportUID, 'e');
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
