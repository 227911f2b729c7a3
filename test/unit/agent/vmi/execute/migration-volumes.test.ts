import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withTargetClaims } from '../../../../../src/agent/vmi/execute/migration-target-steps.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';

const before = { accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' } };
const after = { accessModes: ['ReadWriteMany'], capacity: { storage: '2Gi' } };

function withVolumes(migratedVolumes: unknown) {
  const vmi = vmiOf('Running');
  vmi.status = {
    ...vmi.status,
    volumeStatus: [
      { name: 'data', target: 'vdb', persistentVolumeClaimInfo: before },
      { name: 'other', target: 'vdc', persistentVolumeClaimInfo: before },
      { name: 'root', target: 'vda' },
    ],
    migratedVolumes,
  };
  return vmi;
}

test('a volume that moves to another claim is prepared by the facts of that claim, and the stored object is not touched', () => {
  const vmi = withVolumes([{ volumeName: 'data', sourcePVCInfo: before, destinationPVCInfo: after }]);
  const untouched = structuredClone(vmi);
  const infos = withTargetClaims(vmi).status?.volumeStatus?.map(
    ({ persistentVolumeClaimInfo }) => persistentVolumeClaimInfo,
  );
  assert.deepEqual(infos, [after, before, undefined]);
  assert.deepEqual(vmi, untouched);
});

test('moved volumes of a wrong shape are none', () => {
  for (const odd of [
    undefined,
    null,
    'all',
    [null, 7, {}],
    [{ volumeName: 'data' }],
    [{ volumeName: 1, destinationPVCInfo: after }],
  ]) {
    const vmi = withVolumes(odd);
    assert.deepEqual(withTargetClaims(vmi).status?.volumeStatus, vmi.status?.volumeStatus);
  }
});

test('a moved volume that is no claim here gets none', () => {
  const vmi = withVolumes([{ volumeName: 'root', destinationPVCInfo: after }]);
  assert.equal(withTargetClaims(vmi).status?.volumeStatus?.[2]?.persistentVolumeClaimInfo, undefined);
});
