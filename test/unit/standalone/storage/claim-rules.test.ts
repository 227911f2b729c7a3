import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolume, PersistentVolumeClaim, StorageClass } from '../../../../src/api/index.ts';
import { driver } from '../../../../src/standalone/index.ts';
import type { ClaimFacts } from '../../../../src/standalone/storage/claim-facts.ts';
import { claimRules, decideClaim } from '../../../../src/standalone/storage/claim-rules.ts';
import { sourceOf } from '../../../../src/standalone/storage/claim-source.ts';
import type { ClaimDeps } from '../../../../src/standalone/storage/loop.ts';

type Change = Partial<Omit<PersistentVolumeClaim, 'spec' | 'metadata'>> & {
  readonly spec?: Partial<PersistentVolumeClaim['spec']>;
  readonly metadata?: Partial<PersistentVolumeClaim['metadata']>;
};

function claimWith({ spec = {}, metadata = {}, ...more }: Change = {}): PersistentVolumeClaim {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: 'data',
      namespace: 'default',
      uid: 'u1',
      finalizers: ['kubernetes.io/pvc-protection'],
      ...metadata,
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'local',
      resources: { requests: { storage: '1Gi' } },
      ...spec,
    },
    status: { phase: 'Pending' },
    ...more,
  };
}

const storageClass: StorageClass = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: 'local' },
  provisioner: driver,
};

function volumeWith(spec: Partial<PersistentVolume['spec']> = {}): PersistentVolume {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: 'pvc-u1' },
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'local',
      claimRef: { namespace: 'default', name: 'data', uid: 'u1' },
      csi: { driver, volumeHandle: 'default_data_u1' },
      ...spec,
    },
  };
}

const base: ClaimFacts = {
  key: 'default/data',
  uid: 'u1',
  now: new Date(0),
  claim: claimWith(),
  storageClass,
  defaultClass: 'local',
  volume: undefined,
  candidate: undefined,
  users: [],
  source: { kind: 'none' },
  dataProblem: undefined,
  blockProblem: undefined,
  freeBytes: 2 ** 40,
};

const deletionTimestamp = '2026-01-01T00:00:00Z';
const bound = claimWith({
  spec: { volumeName: 'pvc-u1' },
  status: { phase: 'Bound', capacity: { storage: '1Gi' } },
});
const lost = claimWith({ spec: { volumeName: 'pvc-u1' }, status: { phase: 'Lost' } });
const volume = volumeWith();
const gone = 'is gone: disk.img';

/** Facts, the rule that decides, its steps, and the reason of its event. */
const rows: readonly [Partial<ClaimFacts>, string, string, string?][] = [
  [{ claim: undefined }, 'claim-gone', ''],
  [{ claim: claimWith({ metadata: { deletionTimestamp } }), users: ['vm'] }, 'claim-held', ''],
  [{ claim: claimWith({ metadata: { deletionTimestamp } }) }, 'claim-let-go', 'discard release'],
  [{ claim: { ...bound, metadata: { ...bound.metadata, deletionTimestamp } }, volume }, 'claim-let-go', 'release'],
  [{ claim: bound }, 'claim-lost', 'lose'],
  [{ claim: bound, volume, dataProblem: gone }, 'claim-lost', 'lose'],
  [
    {
      claim: bound,
      volume: volumeWith({ claimRef: { namespace: 'default', name: 'data', uid: 'of the one before' } }),
    },
    'claim-lost',
    'lose',
  ],
  [{ claim: lost, volume, dataProblem: gone }, 'claim-lost', ''],
  [{ claim: lost, volume }, 'volume-there', 'reserve bind'],
  [{ claim: bound, volume: volumeWith({ capacity: { storage: '512Mi' } }) }, 'claim-grows', 'grow'],
  // The node ended when the volume was written, and the claim was not.
  [{ claim: { ...bound, status: { phase: 'Bound', capacity: { storage: '512Mi' } } }, volume }, 'claim-grows', 'grow'],
  [{ claim: bound, volume: volumeWith({ capacity: { storage: '2Gi' } }) }, 'claim-grows', 'grow'],
  [{ claim: bound, volume }, 'claim-bound', ''],
  [{ claim: { ...bound, metadata: { ...bound.metadata, finalizers: [] } }, volume }, 'claim-bound', 'protect'],
  [
    { claim: claimWith({ spec: { volumeName: 'x' } }), volume, source: { kind: 'wrong', why: 'w' } },
    'source-besides-volume',
    '',
    'ProvisioningFailed',
  ],
  [{ claim: claimWith({ spec: { volumeName: 'x' } }) }, 'volume-missing', '', 'FailedBinding'],
  [
    { volume: volumeWith({ claimRef: { namespace: 'default', name: 'data', uid: 'u2' } }) },
    'volume-does-not-fit',
    '',
    'FailedBinding',
  ],
  [
    { volume: volumeWith({ claimRef: undefined as never, csi: { driver: 'other', volumeHandle: 'x' } }) },
    'volume-does-not-fit',
    '',
    'FailedBinding',
  ],
  [{ volume, dataProblem: gone }, 'volume-without-data', '', 'FailedBinding'],
  [
    { claim: claimWith({ spec: { storageClassName: undefined as never } }), storageClass: undefined },
    'class-by-default',
    'useClass',
  ],
  [{ candidate: volume }, 'volume-free', 'reserve bind'],
  [{ claim: claimWith({ spec: { storageClassName: '' } }), storageClass: undefined }, 'no-class', '', 'FailedBinding'],
  [{ storageClass: undefined }, 'class-unknown', '', 'ProvisioningFailed'],
  [{ storageClass: { ...storageClass, provisioner: 'x' } }, 'class-of-others', '', 'ProvisioningFailed'],
  [{ storageClass: { ...storageClass, mountOptions: ['ro'] } }, 'claim-refused', '', 'ProvisioningFailed'],
  [{ blockProblem: 'no loop devices' }, 'claim-refused', '', 'ProvisioningFailed'],
  [{ source: { kind: 'wrong', why: 'w' } }, 'claim-refused', '', 'ProvisioningFailed'],
  [{ source: { kind: 'waits', why: 'w' } }, 'source-awaited', '', 'ProvisioningFailed'],
  [
    { storageClass: { ...storageClass, volumeBindingMode: 'WaitForFirstConsumer' } },
    'consumer-awaited',
    '',
    'WaitForFirstConsumer',
  ],
  [
    { storageClass: { ...storageClass, volumeBindingMode: 'WaitForFirstConsumer' }, users: ['vm'] },
    'volume-wanted',
    'provision bind',
  ],
  [
    {
      storageClass: { ...storageClass, volumeBindingMode: 'WaitForFirstConsumer' },
      claim: claimWith({ metadata: { annotations: { 'cdi.kubevirt.io/storage.bind.immediate.requested': '' } } }),
    },
    'volume-wanted',
    'provision bind',
  ],
  [{}, 'volume-wanted', 'provision bind'],
  [{ claim: claimWith({ metadata: { finalizers: [] } }) }, 'volume-wanted', 'protect provision bind'],
];

for (const [index, [facts, rule, steps, event]] of rows.entries()) {
  test(`${rule}, ${index}: ${steps || 'nothing is done'}${event ? `, ${event}` : ''}`, () => {
    const decision = decideClaim({ ...base, ...facts });
    assert.deepEqual(
      [decision.rule, decision.steps.map(({ step }) => step).join(' '), decision.events?.[0]?.reason],
      [rule, steps, event],
    );
  });
}

test('every rule has a row', () => {
  const names = rows.map(([, rule]) => rule);
  assert.deepEqual(
    claimRules.map(({ name }) => name).filter((name) => !names.includes(name)),
    [],
  );
});

const dataSource = { kind: 'PersistentVolumeClaim', name: 'origin' };
for (const [title, volumeName, phase, kind] of [
  ['that exists', 'kept', 'Pending', 'wrong'],
  ['that it is bound to', 'kept', 'Bound', 'none'],
  ['that it was bound to, and whose data is gone', 'kept', 'Lost', 'none'],
  ['that was made for it, before its status says so', 'pvc-u1', 'Pending', 'none'],
] as const) {
  test(`a copy with the name of a volume ${title}: ${kind}`, async () => {
    const claim = claimWith({ spec: { dataSource, volumeName }, status: { phase } });
    assert.equal((await sourceOf(claim, {} as ClaimDeps)).kind, kind);
  });
}
