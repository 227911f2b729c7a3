import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finalizers, type Key, type VirtualMachine, type VirtualMachineInstance } from '../../../../src/api/index.ts';
import { decideVm } from '../../../../src/controller/vm/decide.ts';
import { observeVm } from '../../../../src/controller/vm/observe.ts';
import { type CachedObjects, ReadYourWrites } from '../../../../src/reconcile/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildVm, buildVmi } from '../builders.ts';

const key = 'default/vm1';
const clock = new FakeClock();
const client = { get: () => Promise.reject(new Error('the API is not asked here')) };

/** What a watch shows that shows nothing new. */
function cached<T>(...objects: readonly T[]): CachedObjects<T> {
  const shown = new Map<Key, T>(objects.map((object) => [key, object]));
  return { synced: true, get: (each) => shown.get(each), keys: () => shown.keys(), onChange: () => () => undefined };
}

async function decisionOn(metadata: Partial<VirtualMachine['metadata']>) {
  const overlay = { giveUp: { afterMs: 10_000, clock } };
  const vm = buildVm();
  const vms = new ReadYourWrites(cached({ ...vm, metadata: { ...vm.metadata, ...metadata } }), overlay);
  const vmis = new ReadYourWrites<VirtualMachineInstance>(cached(), overlay);
  const controller = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    name: 'vm1',
    uid: 'uid-vm',
    controller: true,
  };
  vmis.created(key, buildVmi({}, undefined, { ownerReferences: [controller] }));
  const { rule, steps } = decideVm(await observeVm(key, { client, vms, vmis, clock }, new AbortController().signal));
  return [rule, ...steps.map(({ step }) => step)];
}

const deletionTimestamp = '2026-01-01T00:10:00Z';

test('a VM waits for the VMI that it made and the cache does not show yet', async () => {
  assert.deepEqual(await decisionOn({ finalizers: [finalizers.vm] }), ['own-write-not-shown']);
});

test('a VM that is deleted before the cache shows its new VMI takes it along', async () => {
  const decision = await decisionOn({ finalizers: [finalizers.vm], deletionTimestamp });
  assert.deepEqual(decision, ['deleted-with-vmi', 'stopVmi']);
});

test('a VM that is deleted and leaves its VMI behind leaves the one that the cache does not show yet, too', async () => {
  const decision = await decisionOn({ finalizers: [finalizers.vm, 'orphan'], deletionTimestamp });
  assert.deepEqual(decision, ['deleted', 'removeFinalizer']);
});
