import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolumeClaim } from '../../../../src/api/index.ts';
import { copierOf, heldProblem } from '../../../../src/standalone/storage/in-use.ts';

const claim = { metadata: { namespace: 'default', name: 'c' }, spec: {} } as PersistentVolumeClaim;

function depsOf(canShare: boolean, users: readonly string[] = ['virt-launcher-vm']) {
  const caches = { usersOf: () => users };
  return { caches, files: { canShare: async () => canShare } } as unknown as Parameters<typeof heldProblem>[2];
}

function volumeSnapshot(owner?: string) {
  const reference = { apiVersion: 'v1', kind: owner ?? '', name: 'o', uid: 'u', controller: true };
  return {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshot',
    metadata: { name: 's', ...(owner && { ownerReferences: [reference] }) },
  };
}

test('who copies the disk of a guest that runs is told what can be done: a VM that its snapshot locks cannot be stopped', async () => {
  const wordsOf = async (owner?: string) =>
    (await heldProblem(claim, copierOf(volumeSnapshot(owner)), depsOf(false)))?.why ?? '';
  assert.match(await wordsOf(), /claim c is in use by pod virt-launcher-vm, .*: stop the VM; on XFS or Btrfs/);
  assert.match(await wordsOf('Backup'), /: stop the VM; on/);
  const ofVm = await wordsOf('VirtualMachineSnapshotContent');
  assert.match(ofVm, /: restart the VM or shut its guest down from within \(it cannot be stopped/);
  assert.match(ofVm, /or delete the snapshot and stop the VM first;/);
});

test('nobody waits where the copy is of one moment, or nothing runs', async () => {
  assert.equal(await heldProblem(claim, 'claim', depsOf(true)), undefined);
  assert.equal(await heldProblem(claim, 'claim', depsOf(false, [])), undefined);
});
