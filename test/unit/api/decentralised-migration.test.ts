import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  hasLeftForElsewhere,
  isDecentralised,
  isMigrationSource,
  isMigrationTarget,
  type MigrationState,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';

const vmi = (migrationState?: MigrationState): VirtualMachineInstance => ({
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachineInstance',
  metadata: { name: 'vm' },
  spec: { domain: { devices: {} } },
  ...(migrationState && { status: { migrationState } }),
});

test('a migration is decentralised when an end has the address of its synchronization controller, or both have', () => {
  const there = { syncAddress: '10.0.0.1:9185' };
  assert.equal(isDecentralised({ sourceState: there, targetState: {} }), true);
  assert.equal(isDecentralised({ sourceState: {}, targetState: there }), true);
  assert.equal(isDecentralised({ sourceState: there, targetState: there }), true);
  for (const state of [
    undefined,
    {},
    { targetState: there },
    { sourceState: there },
    { sourceState: {}, targetState: { syncAddress: '' } },
  ]) {
    assert.equal(isDecentralised(state), false, JSON.stringify(state));
  }
});

test('a VMI is the source once it knows the other synchronization controller and the node that waits there', () => {
  assert.equal(isMigrationSource(vmi({ targetState: { syncAddress: 'a:1', nodeAddress: '10.0.0.2' } })), true);
  for (const state of [undefined, {}, { targetState: { syncAddress: 'a:1' } }, { targetState: { nodeAddress: 'b' } }]) {
    assert.equal(isMigrationSource(vmi(state)), false, JSON.stringify(state));
  }
});

test('a VMI is no source of a migration whose source is another VMI, though the addresses of both are known', () => {
  const targetState = { syncAddress: 'a:1', nodeAddress: '10.0.0.2' };
  const of = (virtualMachineInstanceUID: string) => ({
    ...vmi({ sourceState: { virtualMachineInstanceUID, syncAddress: 'b:1' }, targetState, completed: true }),
  });
  const own = { ...of('uid-1'), metadata: { name: 'vm', uid: 'uid-1' } };
  assert.deepEqual([isMigrationSource(own), hasLeftForElsewhere(own)], [true, true]);
  const other = { ...own, metadata: { name: 'vm', uid: 'uid-2' } };
  assert.deepEqual([isMigrationSource(other), hasLeftForElsewhere(other)], [false, false]);
});

test('a VMI is a target by its annotation alone', () => {
  const annotated = vmi();
  assert.equal(isMigrationTarget(annotated), false);
  annotated.metadata.annotations = { 'kubevirt.io/create-migration-target': 'false' };
  assert.equal(isMigrationTarget(annotated), false);
  annotated.metadata.annotations = { 'kubevirt.io/create-migration-target': 'true' };
  assert.equal(isMigrationTarget(annotated), true);
});
