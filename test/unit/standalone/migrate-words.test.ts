import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance, VirtualMachineInstanceMigration } from '../../../src/api/index.ts';
import { progressOf } from '../../../src/standalone/cli/migrate.ts';

const migration = (phase: string): VirtualMachineInstanceMigration =>
  ({ metadata: { name: 'm', namespace: 'default', uid: 'm2' }, spec: {}, status: { phase } }) as never;
const vmi = (migrationUid: string): VirtualMachineInstance =>
  ({ metadata: { name: 'demo' }, status: { migrationState: { migrationUid, targetNode: 'node2' } } }) as never;

test('a migration is said to go to the node that it goes to, and not to that of an earlier one', () => {
  assert.equal(progressOf(migration('PreparingTarget'), vmi('m2')), 'PreparingTarget: to node2');
  assert.equal(progressOf(migration('Scheduled'), vmi('m1')), 'Scheduled');
  assert.equal(progressOf(migration('Failed'), vmi('m1')), 'Failed');
});
