import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  annotations,
  type DataVolume,
  finalizers,
  type PersistentVolumeClaim,
  type VirtualMachineRestore,
  type VolumeSnapshot,
} from '../../../../src/api/index.ts';
import { makeClaim } from '../../../../src/controller/restore/claims.ts';
import { decideRestore, restoreRules } from '../../../../src/controller/restore/decide.ts';
import { restoredName } from '../../../../src/controller/restore/names.ts';
import type {
  DataVolumeFacts,
  PresentRestore,
  RestoreObservation,
  SourceFacts,
  VolumeFacts,
} from '../../../../src/controller/restore/observation.ts';
import { RestoreError, restoredVm } from '../../../../src/controller/restore/restored-vm.ts';
import { buildVm } from '../builders.ts';
import { buildContent, buildSnapshot } from './builders.ts';

const now = new Date('2026-01-01T00:10:00Z');
const owner = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', name: 'vm1', uid: 'uid-vm', controller: true };
type Spec = Partial<VirtualMachineRestore['spec']>;

function restoreOf(
  spec: Spec = {},
  status: VirtualMachineRestore['status'] | null = {},
  metadata: object = {},
): VirtualMachineRestore {
  return {
    ...{ apiVersion: 'snapshot.kubevirt.io/v1beta1', kind: 'VirtualMachineRestore' },
    metadata: {
      ...{ name: 'back', namespace: 'default', uid: 'u', finalizers: [finalizers.vmRestore] },
      ...{ ownerReferences: [owner], ...metadata },
    },
    spec: {
      target: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' },
      virtualMachineSnapshotName: 'snap',
      ...spec,
    },
    ...(status && { status }),
  };
}

const named = { volumeName: 'root', persistentVolumeClaim: 'restore-u-root', volumeSnapshotName: 'v' };
const listed = { restores: [named] };
const volumeSnapshot: VolumeSnapshot = {
  ...{ apiVersion: 'snapshot.storage.k8s.io/v1', kind: 'VolumeSnapshot', metadata: { name: 'v' } },
  spec: { source: {} },
  status: { readyToUse: true, restoreSize: '3Gi' },
};

function claimOf(phase = 'Bound', metadata: object = {}): PersistentVolumeClaim {
  return {
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', spec: {}, status: { phase } },
    metadata: { name: 'restore-u-root', namespace: 'default', uid: 'uid-claim', ...metadata },
  };
}

function volumeOf(facts: Partial<VolumeFacts> = {}): VolumeFacts {
  const backup = { volumeName: 'root', volumeSnapshotName: 'v', persistentVolumeClaim: { spec: {} } };
  const none = { dataVolumeName: undefined, filledBy: undefined, bindsLater: false, others: undefined };
  return { restore: named, backup, volumeSnapshot, claim: claimOf(), isOurs: true, ...none, ...facts };
}

const vm = buildVm();
const wanted = buildVm({ runStrategy: 'Halted' });

function sourceOf(facts: Partial<SourceFacts> = {}): SourceFacts {
  const kept = { vmUid: 'uid-vm', snapshot: buildSnapshot(), content: buildContent() };
  const none = { dataVolumes: [], obsolete: [], unkept: [], state: undefined };
  return { ...kept, ...none, volumes: [volumeOf()], wanted, ...facts };
}

function seen(facts: Partial<PresentRestore> = {}): PresentRestore {
  const base = { kind: 'present' as const, key: 'default/back', uid: 'u', now, problem: undefined, busy: undefined };
  const more = {
    isRestored: false,
    isLocked: true,
    isRunning: false,
    isLate: false,
    leftover: [],
    formerState: [],
    held: [],
  };
  return { ...base, ...more, restore: restoreOf({}, listed), target: vm, source: sourceOf(), ...facts };
}

const deleted = { deletionTimestamp: '2026-01-01T00:09:00Z' };
const failure = { conditions: [{ type: 'Failure', status: 'True' as const }] };
const dataVolume = {
  apiVersion: 'cdi.kubevirt.io/v1beta1',
  kind: 'DataVolume',
  metadata: { name: 'd' },
  spec: {},
} as DataVolume;
const template: DataVolumeFacts = { name: 'd', template: {}, object: dataVolume, isFilled: true, isUnread: false };
const foreign = volumeOf({ isOurs: false });
const inPlace = (status: object = listed) => restoreOf({ volumeRestorePolicy: 'InPlace' }, status);
const policy = (targetReadinessPolicy: NonNullable<Spec['targetReadinessPolicy']>) =>
  restoreOf({ targetReadinessPolicy }, listed);
const running = { isRunning: true, isLocked: false };
const ofTemplate = volumeOf({ dataVolumeName: 'd' });
const marked = volumeOf({
  dataVolumeName: 'd',
  claim: claimOf('Bound', { annotations: { [annotations.populatedFor]: 'd' } }),
});
const noted = restoreOf({}, { restores: [{ ...named, dataVolumeName: 'd' }] });
const awaited = volumeOf({ claim: claimOf('Bound', { annotations: { [annotations.restoredOwnedByVm]: 'back' } }) });
const ofState = { restores: [named, { ...named, volumeName: 'persistent-state-for-vm1' }] };
const state = { claim: claimOf(), isMarked: false, former: [] };
const absent: RestoreObservation = { kind: 'absent', key: 'default/back', uid: '', now, marked: [] };

const rows: readonly (readonly [rule: string, seen: RestoreObservation, steps: string])[] = [
  ['deleted', seen({ restore: restoreOf({}, listed, deleted) }), 'unlockTarget release'],
  ['deleted', seen({ restore: restoreOf({}, listed, { ...deleted, finalizers: [] }), isLocked: false }), ''],
  ['deleted', seen({ restore: restoreOf({}, listed, deleted), held: [buildContent()] }), 'letGo unlockTarget release'],
  ['deleted', seen({ restore: restoreOf({}, ofState, deleted) }), 'putStateBack unlockTarget release'],
  ['deleted', seen({ restore: restoreOf({}, ofState, deleted), isRestored: true }), 'unlockTarget release'],
  ['deleted', seen({ restore: restoreOf({}, { ...ofState, complete: true }, deleted) }), 'unlockTarget release'],
  ['deleted', seen({ restore: restoreOf({}, ofState, deleted), target: undefined, isLocked: false }), 'release'],
  ['over-target-locked', seen({ restore: restoreOf({}, { complete: true }) }), 'unlockTarget'],
  ['over', seen({ restore: restoreOf({}, failure), isLocked: false }), ''],
  ['target-refused', seen({ problem: 'no VM', target: undefined, isLocked: false }), ''],
  ['unprotected', seen({ restore: restoreOf({}, null, { finalizers: [] }), isLocked: false }), 'protect'],
  ['target-runs-stop', seen({ ...running, restore: policy('StopTarget') }), 'stopTarget'],
  ['target-runs-fails', seen({ ...running, restore: policy('FailImmediate') }), ''],
  ['target-runs-late', seen({ ...running, isLate: true }), ''],
  ['target-runs', seen(running), ''],
  ['target-runs', seen({ ...running, isLate: true, restore: policy('WaitEventually') }), ''],
  ['target-runs', seen({ isRunning: true, restore: policy('FailImmediate') }), ''],
  ['source-not-usable', seen({ source: { problem: 'VMSnapshot default/snap not ready' } }), ''],
  ['target-differs', seen({ source: sourceOf({ vmUid: 'other' }), isLocked: false }), ''],
  ['target-busy', seen({ busy: 'vm restore other in progress', isLocked: false }), ''],
  ['target-unlocked', seen({ isLocked: false }), 'lockTarget'],
  ['volumes-not-listed', seen({ restore: restoreOf() }), ''],
  ['volumes-not-listed', seen({ restore: restoreOf(), target: undefined, isLocked: false }), ''],
  ['claims-of-others', seen({ source: sourceOf({ volumes: [foreign] }) }), ''],
  ['claims-of-others', seen({ isLocked: false, source: sourceOf({ volumes: [foreign] }) }), ''],
  [
    'claims-of-others',
    seen({ restore: inPlace(), source: sourceOf({ volumes: [{ ...foreign, others: 'is a disk of VM a' }] }) }),
    '',
  ],
  [
    'fillers-not-noted',
    seen({ restore: inPlace(), source: sourceOf({ volumes: [{ ...foreign, filledBy: 'd' }] }) }),
    '',
  ],
  ['claims-in-place', seen({ restore: inPlace(), source: sourceOf({ volumes: [foreign] }) }), 'replaceClaims'],
  [
    'volume-snapshots-missing',
    seen({ source: sourceOf({ volumes: [volumeOf({ claim: undefined, isOurs: false, volumeSnapshot: undefined })] }) }),
    '',
  ],
  [
    'claims-missing',
    seen({ source: sourceOf({ volumes: [volumeOf({ claim: undefined, isOurs: false })] }) }),
    'createClaims',
  ],
  ['claims-not-bound', seen({ source: sourceOf({ volumes: [volumeOf({ claim: claimOf('Pending') })] }) }), ''],
  [
    'claims-not-bound',
    seen({ source: sourceOf({ volumes: [volumeOf({ claim: claimOf('Lost'), bindsLater: true })] }) }),
    '',
  ],
  ['claims-of-templates', seen({ source: sourceOf({ volumes: [ofTemplate] }) }), 'markPopulated'],
  ['templates-not-noted', seen({ source: sourceOf({ volumes: [marked] }) }), ''],
  [
    'data-volumes-unread',
    seen({ restore: noted, source: sourceOf({ volumes: [marked], dataVolumes: [{ ...template, isUnread: true }] }) }),
    '',
  ],
  [
    'data-volumes-missing',
    seen({
      restore: noted,
      source: sourceOf({ volumes: [marked], dataVolumes: [{ ...template, object: undefined }] }),
    }),
    'createDataVolumes',
  ],
  [
    'data-volumes-not-filled',
    seen({ restore: noted, source: sourceOf({ volumes: [marked], dataVolumes: [{ ...template, isFilled: false }] }) }),
    '',
  ],
  ['obsolete-not-noted', seen({ source: sourceOf({ obsolete: ['old'] }) }), ''],
  ['target-not-restored', seen(), 'writeTarget'],
  ['target-not-restored', seen({ source: sourceOf({ state }) }), 'switchState writeTarget'],
  [
    'target-not-restored',
    seen({ source: sourceOf({ volumes: [volumeOf({ claim: claimOf('Pending'), bindsLater: true })] }) }),
    'writeTarget',
  ],
  ['claims-without-owner', seen({ isRestored: true, source: sourceOf({ volumes: [awaited] }) }), 'ownClaims'],
  [
    'without-owner',
    seen({ isRestored: true, restore: restoreOf({}, listed, { ownerReferences: undefined }) }),
    'protect',
  ],
  ['obsolete-data-volumes', seen({ isRestored: true, leftover: [dataVolume] }), 'deleteDataVolumes'],
  ['former-state', seen({ isRestored: true, formerState: [claimOf()] }), 'deleteFormerState'],
  ['restored', seen({ isRestored: true }), 'ownRevisions unlockTarget'],
  ['restored', seen({ isRestored: true, isLocked: false }), 'ownRevisions'],
  ['restored', seen({ isRestored: true, held: [buildContent()] }), 'ownRevisions letGo unlockTarget'],
  ['restored', seen({ ...running, isRestored: true, restore: policy('StopTarget') }), 'ownRevisions'],
  ['restored', seen({ ...running, isRestored: true, restore: policy('FailImmediate') }), 'ownRevisions'],
  ['restored', seen({ ...running, isRestored: true, isLate: true }), 'ownRevisions'],
  ['restored', seen({ ...running, isRestored: true }), 'ownRevisions'],
  ['gone-target-locked', { ...absent, marked: [vm] } as RestoreObservation, 'unlockVms'],
  ['gone', absent, ''],
];

describe('rules of restores', () => {
  for (const [rule, observation, steps] of rows) {
    test(`${rule}: ${steps || 'nothing'}`, () => {
      const decision = decideRestore(observation);
      assert.equal(decision.rule, rule);
      assert.equal(decision.steps.map(({ step }) => step).join(' '), steps);
    });
  }

  test('every rule has a row', () => {
    const known = new Set(rows.map(([rule]) => rule));
    assert.deepEqual(
      restoreRules.map(({ name }) => name).filter((name) => !known.has(name)),
      [],
    );
  });

  test('a failure is final where nothing was changed, and told once', () => {
    const failed = decideRestore(seen({ ...running, restore: policy('FailImmediate') }));
    assert.equal(failed.says?.failure, 'Restore target VMI must be powered off before restore operation');
    assert.equal(failed.events?.[0]?.reason, 'VirtualMachineRestoreFailed');
    const locked = decideRestore(seen({ isRunning: true, restore: policy('FailImmediate') }));
    assert.equal(locked.says?.failure, undefined);
    const reason = decideRestore(seen(running)).says?.progressing?.[1] ?? '';
    const told = restoreOf({}, { ...listed, conditions: [{ type: 'Progressing', status: 'False', reason }] });
    assert.deepEqual(decideRestore(seen({ ...running, restore: told })).events, undefined);
  });
});

test('a claim that is taken is named, and what can be done about it', () => {
  const why = (restore: VirtualMachineRestore, others?: string) =>
    decideRestore(seen({ restore, source: sourceOf({ volumes: [{ ...foreign, others }] }) })).says?.progressing?.[1] ??
    '';
  assert.match(
    why(restoreOf({}, listed)),
    /^PVC restore-u-root exists and is not of this restore: .*make another restore/,
  );
  assert.match(why(inPlace(), 'is a disk of VM a'), /^PVC restore-u-root exists and is a disk of VM a: /);
});

test('DataVolumes that the snapshot has nothing of are told of', () => {
  const events = (unkept: readonly string[]) => decideRestore(seen({ source: sourceOf({ unkept }) })).events ?? [];
  assert.deepEqual(
    events(['new']).map(({ reason }) => reason),
    ['RestoreDataVolumesKept'],
  );
  assert.deepEqual(events([]), []);
});

describe('what a restore makes', () => {
  test('names of claims by policy and override', () => {
    const name = (spec: Spec) => restoredName(restoreOf(spec), 'root', 'old');
    assert.equal(name({}), 'restore-u-root');
    assert.equal(name({ volumeRestorePolicy: 'InPlace' }), 'old');
    assert.equal(name({ volumeRestorePolicy: 'PrefixTargetName' }), 'vm1-root');
    assert.equal(name({ volumeRestoreOverrides: [{ volumeName: 'root', restoreName: 'mine' }] }), 'mine');
    const long = (end: string) =>
      restoredName(restoreOf({ volumeRestorePolicy: 'PrefixTargetName' }), `${'x'.repeat(70)}${end}`, 'old');
    assert.ok(long('a').length <= 63 && long('a') !== long('b'));
  });

  const source = { metadata: { name: 'vm1', namespace: 'default', uid: 'uid-vm' } };
  const backed = (metadata: object): VolumeFacts =>
    volumeOf({
      backup: {
        ...{ volumeName: 'root', volumeSnapshotName: 'v' },
        persistentVolumeClaim: {
          metadata,
          spec: { accessModes: ['ReadWriteOnce'], volumeName: 'pv', resources: { requests: { storage: '2Gi' } } },
        },
      },
    });

  test('a claim begins with its VolumeSnapshot, is as large as that, and forgets who had it', () => {
    const noted = {
      'pv.kubernetes.io/bind-completed': 'yes',
      'cdi.kubevirt.io/storage.contentType': 'kubevirt',
      'cdi.kubevirt.io/storage.pod.phase': 'Succeeded',
      mine: 'stays',
    };
    const labels = { app: 'x', 'persistent-state-for': 'vm1' };
    const { metadata, spec } = makeClaim(restoreOf(), backed({ annotations: noted, labels }), vm, source);
    assert.deepEqual(metadata.annotations, {
      ...{ 'cdi.kubevirt.io/storage.contentType': 'kubevirt', mine: 'stays' },
      ...{ 'restore.kubevirt.io/name': 'back', 'restore.kubevirt.io/lastRestoreUID': 'back-u' },
    });
    assert.deepEqual(Object.keys(metadata.labels ?? {}), [
      ...['app', 'restore.kubevirt.io/source-vm-name', 'restore.kubevirt.io/source-vm-namespace'],
    ]);
    assert.equal(metadata.ownerReferences?.[0]?.uid, 'uid-vm');
    assert.deepEqual(
      [spec.resources?.requests?.storage, spec.volumeName, spec.dataSource?.name],
      ['3Gi', undefined, 'v'],
    );
  });

  test('whose a claim becomes', () => {
    const owned = backed({
      ownerReferences: [{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', name: 'vm1', uid: 'uid-vm' }],
    });
    const none = makeClaim(restoreOf({ volumeOwnershipPolicy: 'None' }), owned, vm, source);
    assert.equal(none.metadata.ownerReferences, undefined);
    const later = makeClaim(restoreOf(), owned, undefined, source);
    assert.equal(later.metadata.annotations?.[annotations.restoredOwnedByVm], 'back');
    const free = makeClaim(restoreOf(), backed({}), undefined, source);
    assert.equal(free.metadata.annotations?.[annotations.restoredOwnedByVm], undefined);
    const filled = makeClaim(restoreOf(), { ...backed({}), restore: { ...named, dataVolumeName: 'd' } }, vm, source);
    assert.equal(filled.metadata.annotations?.[annotations.populatedFor], 'd');
    assert.equal(filled.metadata.ownerReferences, undefined);
  });

  const kept = buildVm({
    dataVolumeTemplates: [{ metadata: { name: 'd' }, spec: { source: { blank: {} } } }],
    template: {
      spec: {
        domain: { firmware: { uuid: 'a', serial: 'b' } },
        volumes: [
          { name: 'root', persistentVolumeClaim: { claimName: 'old' } },
          { name: 'data', dataVolume: { name: 'd' } },
          { name: 'other', dataVolume: { name: 'not-of-template' } },
          { name: 'image', containerDisk: { image: 'i' } },
        ],
      },
    },
  });
  const restores = [
    named,
    { volumeName: 'data', persistentVolumeClaim: 'c-data', volumeSnapshotName: 'w', dataVolumeName: 'c-data' },
    { volumeName: 'other', persistentVolumeClaim: 'c-other', volumeSnapshotName: 'x' },
  ];

  test('a VM that is there gets what the snapshot has, and keeps its run strategy', () => {
    const target = buildVm({ runStrategy: 'Manual' });
    const made = restoredVm(restoreOf(), kept, target, restores);
    assert.deepEqual(made.spec.template.spec.volumes, [
      { name: 'root', persistentVolumeClaim: { claimName: 'restore-u-root' } },
      { name: 'data', dataVolume: { name: 'c-data' } },
      { name: 'other', persistentVolumeClaim: { claimName: 'c-other' } },
      { name: 'image', containerDisk: { image: 'i' } },
    ]);
    assert.deepEqual(made.spec.dataVolumeTemplates, [
      { metadata: { name: 'c-data' }, spec: { source: { blank: {} } } },
    ]);
    assert.deepEqual([made.spec.runStrategy, made.metadata.uid], ['Manual', 'uid-vm']);
    assert.equal(made.metadata.annotations?.[annotations.lastRestore], 'back-u');
    const old = buildVm({ running: true });
    delete old.spec.runStrategy;
    const { running, runStrategy } = restoredVm(restoreOf(), kept, old, restores).spec;
    assert.deepEqual([running, runStrategy], [true, undefined]);
  });

  test('a new VM is halted, patched, and what is emptied is its own; a patch of another name is refused', () => {
    const patch = (path: string, value: unknown, op = 'replace') => JSON.stringify({ op, path, value });
    const firmware = '/spec/template/spec/domain/firmware';
    const patches = [
      patch(`${firmware}/uuid`, ''),
      patch(`${firmware}/serial`, 's'),
      patch('/spec/template/metadata', {}),
    ];
    const spec: Spec = { target: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'new' }, patches };
    const made = restoredVm(restoreOf(spec), kept, undefined, restores);
    assert.deepEqual([made.metadata.name, made.metadata.uid, made.spec.runStrategy], ['new', undefined, 'Halted']);
    assert.deepEqual(made.spec.template.spec.domain?.firmware, { serial: 's' });
    for (const wrong of [patch('/metadata/name', 'x'), patch('/spec/no/where/at/all', 1), 'nonsense']) {
      const bad = restoreOf({ ...spec, patches: [wrong] });
      assert.throws(() => restoredVm(bad, kept, undefined, restores), RestoreError);
    }
  });

  test('patches that leave no VM, or none that is known again, are refused in words, and are no fault of the controller', () => {
    const spec: Spec = { target: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'new' } };
    const mark = `/metadata/annotations/${annotations.lastRestore.replace('/', '~1')}`;
    const wrongs: readonly (readonly [RegExp, object])[] = [
      [/without spec.template.spec.domain/, { op: 'replace', path: '/spec/template', value: {} }],
      [/without spec.template.spec.domain/, { op: 'remove', path: '/spec/template/spec/domain' }],
      [/without spec.template.spec.domain/, { op: 'remove', path: '/spec' }],
      [/the name of spec.target/, { op: 'remove', path: '/metadata' }],
      [/no operation/, { op: 'replace', path: 'spec', value: 1 }],
      [/annotation restore.kubevirt.io\/lastRestoreUID/, { op: 'replace', path: mark, value: 'mine' }],
      [/annotation restore.kubevirt.io\/lastRestoreUID/, { op: 'remove', path: mark }],
    ];
    for (const [message, wrong] of wrongs) {
      const bad = restoreOf({ ...spec, patches: [JSON.stringify(wrong)] });
      assert.throws(
        () => restoredVm(bad, kept, undefined, restores),
        (error: unknown) => error instanceof RestoreError && message.test(error.message),
        JSON.stringify(wrong),
      );
    }
  });
});
