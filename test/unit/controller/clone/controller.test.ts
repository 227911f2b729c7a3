import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineClone, VirtualMachineRestore } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { CloneController } from '../../../../src/controller/clone/index.ts';
import { ReadYourWrites } from '../../../../src/reconcile/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { cacheOf } from '../builders.ts';

const namespace = 'default';
const cloneOf = (
  name: string,
  [kind, source]: readonly [kind: string, name: string],
  target: string | undefined,
  status: VirtualMachineClone['status'] = {},
): VirtualMachineClone => ({
  ...{ apiVersion: 'clone.kubevirt.io/v1beta1', kind: 'VirtualMachineClone', status },
  metadata: { name, namespace, uid: `uid-${name}` },
  spec: {
    source: { apiGroup: 'kubevirt.io', kind, name: source },
    ...(target !== undefined && { target: { kind: 'VirtualMachine', name: target } }),
  },
});
const made = (name: string, targetName: string, status: VirtualMachineClone['status'] = {}) =>
  cloneOf(name, ['VirtualMachine', 'origin'], targetName, { phase: 'Succeeded', targetName, ...status });
const restore: VirtualMachineRestore = {
  ...{ apiVersion: 'snapshot.kubevirt.io/v1beta1', kind: 'VirtualMachineRestore' },
  metadata: { name: 'tmp-restore-uid-filling', namespace },
  spec: { target: { kind: 'VirtualMachine', name: 'filled' }, virtualMachineSnapshotName: 's' },
  status: {
    complete: true,
    restores: [{ volumeName: 'v', persistentVolumeClaim: 'new-disk', volumeSnapshotName: 'w' }],
  },
};
const clones = [
  cloneOf('named', ['VirtualMachine', 'origin'], 'copy'),
  cloneOf('unnamed', ['VirtualMachine', 'other'], undefined),
  cloneOf('ofSnapshot', ['VirtualMachineSnapshot', 'origin'], 'third'),
  cloneOf('failed', ['VirtualMachine', 'origin'], 'copy', { phase: 'Failed' }),
  made('done', 'result'),
  made('filling', 'filled', { restoreName: restore.metadata.name }),
];

async function wokenBy(change: (change: { vm(key: string): void; storage(claim?: string): void }) => void) {
  let vmChanged: (key: string) => void = () => undefined;
  let storageChanged: (claim?: string) => void = () => undefined;
  const none = { snapshots: cacheOf([]), contents: cacheOf([]), claims: cacheOf([]) };
  const onChange = (listener: (key: string) => void) => {
    vmChanged = listener;
    return () => undefined;
  };
  const deps = {
    ...{ ...none, clones: cacheOf(clones), restores: cacheOf([restore]) },
    vms: new ReadYourWrites({ synced: true, get: () => undefined, keys: () => [].values(), onChange }),
    ...{ client: {}, events: {}, clock: new FakeClock(), log: silentLogger, random: () => 0.5 },
    onStorageChange: (listener: typeof storageChanged) => {
      storageChanged = listener;
      return () => undefined;
    },
  };
  const controller = new CloneController({ workers: 1 }, deps as never);
  await controller.start();
  const woken: string[] = [];
  controller.reconciler.wake = (key) => void woken.push(key.replace('default/', ''));
  change({ vm: (name) => vmChanged(`default/${name}`), storage: (claim) => storageChanged(claim) });
  await controller.stop();
  return woken;
}

const vmRows: readonly (readonly [vm: string, woken: readonly string[]])[] = [
  ['origin', ['named']],
  ['filled', ['filling']],
  ['other', ['unnamed']],
  ['copy', ['named']],
  ['third', ['ofSnapshot']],
  ['clone-other-uid-u', ['unnamed']],
  ['result', ['done']],
  ['stranger', []],
];
for (const [vm, woken] of vmRows) {
  test(`VM ${vm} wakes ${woken.join(', ') || 'no clone'}`, async () => {
    assert.deepEqual(await wokenBy((change) => change.vm(vm)), woken);
  });
}

test('storage wakes clones that are to be made, and one that is made by its own claims alone', async () => {
  const open = ['named', 'unnamed', 'ofSnapshot'];
  assert.deepEqual(await wokenBy(({ storage }) => storage()), open);
  assert.deepEqual(await wokenBy(({ storage }) => storage('default/stranger')), open);
  assert.deepEqual(await wokenBy(({ storage }) => storage('default/new-disk')), [...open, 'filling']);
});
