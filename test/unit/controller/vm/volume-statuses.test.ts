import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VolumeSnapshotStatus } from '../../../../src/api/index.ts';
import { projectVmStatus } from '../../../../src/controller/vm/status.ts';
import { buildVm } from '../builders.ts';

const root = { name: 'root', enabled: true };
const older = { name: 'root', enabled: false, reason: 'PVC not found' };

function stored(volumeStatuses: readonly VolumeSnapshotStatus[] | undefined) {
  const vm = buildVm({}, { volumeSnapshotStatuses: [older] });
  const changeTracking = { isEnabled: false, vms: undefined };
  const unless = {
    creationExpected: false,
    deletionExpected: false,
    changes: [],
    isChanged: undefined,
    changeTracking,
  };
  const seen = { vm, vmi: undefined, ...unless, disks: 'ready' as const, volumeStatuses, now: new Date(0) };
  return projectVmStatus(seen, undefined, () => 0).volumeSnapshotStatuses;
}

test('which volumes a snapshot would have is stored as soon as it is known, and stays until it is known anew', () => {
  assert.deepEqual([stored([root]), stored(undefined), stored([])], [[root], [older], undefined]);
});
