import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  claimAdmission,
  dataVolumeAdmission,
  snapshotAdmission,
  snapshotClassAdmission,
  snapshotContentAdmission,
  storageClassAdmission,
  volumeAdmission,
} from '../../../src/apiserver/admission/index.ts';
import type { Admission, AdmissionContext } from '../../../src/apiserver/api-type.ts';
import type { ApiObject } from '../../../src/apiserver/object.ts';

const object = (fields: object): ApiObject =>
  ({ apiVersion: 'v1', kind: 'X', metadata: { name: 'x' }, ...fields }) as ApiObject;
const context = (old?: ApiObject) => ({ old }) as unknown as AdmissionContext;

function problems(admission: Admission, fields: object, old?: ApiObject): string {
  const made = object(fields);
  admission.fill?.(made, context(old));
  return (admission.validate?.(made, context(old)) ?? [])
    .map(({ field, message }) => `${field}: ${message}`)
    .join('\n');
}

const size = { resources: { requests: { storage: '1Gi' } } };
const claim = { accessModes: ['ReadWriteOnce'], ...size };
const volume = {
  capacity: { storage: '1Gi' },
  accessModes: ['ReadWriteOnce'],
  csi: { driver: 'd', volumeHandle: 'h' },
};
const snapshotRef = { name: 's', namespace: 'n' };

const named = { ...size, volumeName: 'kept' };
const origin = { namespace: 'n', name: 'origin' };

const wrong: readonly [string, Admission, object, RegExp][] = [
  [
    'a copy of a claim in a volume that exists',
    dataVolumeAdmission,
    { spec: { source: { pvc: origin }, pvc: named } },
    /^spec\.pvc\.volumeName: Forbidden: a copy gets a volume of its own/,
  ],
  [
    'a copy of a snapshot in a volume that exists',
    dataVolumeAdmission,
    { spec: { source: { snapshot: origin }, storage: named } },
    /^spec\.storage\.volumeName: Forbidden/,
  ],
  [
    'a copy of a DataSource in a volume that exists',
    dataVolumeAdmission,
    { spec: { sourceRef: { kind: 'DataSource', name: 'd' }, storage: named } },
    /^spec\.storage\.volumeName: Forbidden/,
  ],
  ['a claim without a spec', claimAdmission, {}, /spec\.resources: Required/],
  [
    'a claim without a size',
    claimAdmission,
    { spec: { ...claim, resources: { requests: {} } } },
    /spec\.resources\.requests\.storage: Required/,
  ],
  [
    'a claim of no bytes',
    claimAdmission,
    { spec: { ...claim, resources: { requests: { storage: '0' } } } },
    /must be greater than zero/,
  ],
  [
    'a claim of a word',
    claimAdmission,
    { spec: { ...claim, resources: { requests: { storage: 'much' } } } },
    /must be greater than zero/,
  ],
  ['a claim without access modes', claimAdmission, { spec: size }, /spec\.accessModes: Required value: at least 1/],
  [
    'an access mode of no list',
    claimAdmission,
    { spec: { ...size, accessModes: 'RWO' } },
    /spec\.accessModes: Invalid value.*must be a list/,
  ],
  ['an unknown access mode', claimAdmission, { spec: { ...claim, accessModes: ['RWO'] } }, /Unsupported value: "RWO"/],
  [
    'ReadWriteOncePod with another mode',
    claimAdmission,
    { spec: { ...size, accessModes: ['ReadWriteOncePod', 'ReadWriteOnce'] } },
    /may not use ReadWriteOncePod/,
  ],
  ['an unknown volume mode', claimAdmission, { spec: { ...claim, volumeMode: 'Tape' } }, /Unsupported value: "Tape"/],
  [
    'a source without a name',
    claimAdmission,
    { spec: { ...claim, dataSource: { kind: 'VolumeSnapshot' } } },
    /spec\.dataSource\.name: Required/,
  ],
  ['a volume without a source', volumeAdmission, { spec: { ...volume, csi: undefined } }, /must specify a volume type/],
  [
    'a volume with two sources',
    volumeAdmission,
    { spec: { ...volume, hostPath: { path: '/x' } } },
    /more than 1 volume type/,
  ],
  [
    'a volume that is recycled',
    volumeAdmission,
    { spec: { ...volume, persistentVolumeReclaimPolicy: 'Recycle' } },
    /Unsupported value: "Recycle"/,
  ],
  ['a class without a provisioner', storageClassAdmission, {}, /^provisioner: Required/],
  [
    'a class with a strange policy',
    storageClassAdmission,
    { provisioner: 'p', reclaimPolicy: 'Burn' },
    /^reclaimPolicy: Unsupported/,
  ],
  [
    'a class with numbers as parameters',
    storageClassAdmission,
    { provisioner: 'p', parameters: { size: 1 } },
    /parameters\.size: .*must be a string/,
  ],
  ['a snapshot of nothing', snapshotAdmission, { spec: { source: {} } }, /exactly one of/],
  [
    'a snapshot of two things',
    snapshotAdmission,
    { spec: { source: { persistentVolumeClaimName: 'a', volumeSnapshotContentName: 'b' } } },
    /exactly one of/,
  ],
  [
    'a content of nobody',
    snapshotContentAdmission,
    { spec: { driver: 'd', deletionPolicy: 'Delete', source: { snapshotHandle: 'h' } } },
    /volumeSnapshotRef: Required/,
  ],
  [
    'a content without a policy',
    snapshotContentAdmission,
    { spec: { driver: 'd', volumeSnapshotRef: snapshotRef, source: { snapshotHandle: 'h' } } },
    /deletionPolicy: Required/,
  ],
  ['a snapshot class without a policy', snapshotClassAdmission, { driver: 'd' }, /deletionPolicy: Unsupported/],
];
for (const [title, admission, fields, words] of wrong) {
  test(`${title} is refused`, () => assert.match(problems(admission, fields), words));
}

const right: readonly [string, Admission, object][] = [
  ['a claim', claimAdmission, { spec: claim }],
  [
    'a claim of a snapshot',
    claimAdmission,
    { spec: { ...claim, dataSource: { kind: 'VolumeSnapshot', name: 's', apiGroup: 'g' } } },
  ],
  ['a volume', volumeAdmission, { spec: { ...volume, claimRef: { name: 'a', namespace: 'n' } } }],
  [
    'a class',
    storageClassAdmission,
    { provisioner: 'p', parameters: { a: 'b' }, mountOptions: ['ro'], allowVolumeExpansion: true },
  ],
  ['a snapshot', snapshotAdmission, { spec: { source: { persistentVolumeClaimName: 'a' } } }],
  [
    'a content',
    snapshotContentAdmission,
    {
      spec: { driver: 'd', deletionPolicy: 'Retain', volumeSnapshotRef: snapshotRef, source: { snapshotHandle: 'h' } },
    },
  ],
  ['a snapshot class', snapshotClassAdmission, { driver: 'd', deletionPolicy: 'Delete' }],
];
for (const [title, admission, fields] of right) {
  test(`${title} is taken`, () => assert.equal(problems(admission, fields), ''));
}

const stored = (spec: object, phase: string) =>
  object({ spec: { volumeMode: 'Filesystem', ...claim, ...spec }, status: { phase, capacity: { storage: '1Gi' } } });
const grown = (storage: string) => ({ resources: { requests: { storage } } });

const changes: readonly [string, object, object, string, RegExp][] = [
  ['a claim that is bound grows', {}, grown('2Gi'), 'Bound', /^$/],
  ['one that is not bound does not', {}, grown('2Gi'), 'Pending', /spec is immutable/],
  ['none shrinks below what it has', {}, grown('512Mi'), 'Bound', /can not be less than status\.capacity/],
  ['a growth that has not come yet is taken back', grown('4Gi'), grown('2Gi'), 'Bound', /^$/],
  ['the class is set once', {}, { storageClassName: 'local' }, 'Pending', /^$/],
  ['and not twice', { storageClassName: 'a' }, { storageClassName: 'local' }, 'Pending', /spec is immutable/],
  ['the volume is set once', {}, { volumeName: 'v' }, 'Pending', /^$/],
  ['access modes stay', {}, { accessModes: ['ReadWriteMany'] }, 'Bound', /spec is immutable/],
];
for (const [title, before, after, phase, words] of changes) {
  test(`changes of claims: ${title}`, () => {
    const old = stored(before, phase);
    assert.match(
      problems(claimAdmission, { spec: { ...(old.spec as object), ...after }, status: old.status }, old),
      words,
    );
  });
}

test('a claim of a version that did not look at claims can be bound, and is not made worse', () => {
  const old = object({ spec: size, status: { phase: 'Pending' } });
  assert.equal(problems(claimAdmission, { spec: { ...size, volumeName: 'v', storageClassName: 'local' } }, old), '');
  assert.match(problems(claimAdmission, { spec: { ...size, accessModes: ['RWO'] } }, old), /Unsupported value: "RWO"/);
});

test('a claim says by both of its fields what it begins with, and is pending', () => {
  const dataSource = { kind: 'PersistentVolumeClaim', name: 'a' };
  for (const given of [{ dataSource }, { dataSourceRef: dataSource }]) {
    const made = object({ spec: { ...claim, ...given } });
    claimAdmission.fill?.(made, context());
    assert.deepEqual(made.spec, { ...claim, volumeMode: 'Filesystem', dataSource, dataSourceRef: dataSource });
    assert.deepEqual(made.status, { phase: 'Pending' });
  }
});
