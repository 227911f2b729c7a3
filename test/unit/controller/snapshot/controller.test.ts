import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineSnapshot } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { awaitedVms, SnapshotController } from '../../../../src/controller/snapshot/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { cacheOf } from '../builders.ts';
import { buildSnapshot } from '../restore/builders.ts';

const withStatus = (status: object): VirtualMachineSnapshot => ({ ...buildSnapshot(), status });

test('a snapshot that is over waits for no VM', () => {
  assert.deepEqual(awaitedVms(withStatus({ phase: 'InProgress' })), ['default/vm1']);
  for (const phase of ['Succeeded', 'Failed']) assert.deepEqual(awaitedVms(withStatus({ phase })), []);
});

test('a change of storage wakes the snapshots that have no content yet and are not over', async () => {
  const snapshots = [{}, { virtualMachineSnapshotContentName: 'c' }, { phase: 'Failed' }, { phase: 'Succeeded' }].map(
    (status, at) => ({ ...withStatus(status), metadata: { name: `s${at}`, namespace: 'default', uid: `u${at}` } }),
  );
  let storageChanged: () => void = () => undefined;
  const none = { vms: cacheOf([]), vmis: cacheOf([]), contents: cacheOf([]), snapshotsOf: () => [] };
  const deps = {
    ...{ ...none, client: {}, clock: new FakeClock(), log: silentLogger, random: () => 0.5 },
    snapshots: cacheOf(snapshots),
    onStorageChange: (listener: () => void) => {
      storageChanged = listener;
      return () => undefined;
    },
  };
  const controller = new SnapshotController({ workers: 1 }, deps as never);
  await controller.start();
  const woken: string[] = [];
  controller.reconciler.wake = (key) => void woken.push(key);
  storageChanged();
  assert.deepEqual(woken, ['default/s0']);
  await controller.stop();
});
