import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stillHolds } from '../../../../../src/agent/vmi/loop/still-holds.ts';
import type { VirtualMachineInstance } from '../../../../../src/api/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';

const state = { migrationUid: 'm1', sourceNode: 'node2', targetNode: 'node1' };

function changed(change: (vmi: VirtualMachineInstance) => void): [VirtualMachineInstance, VirtualMachineInstance] {
  const before = vmiOf('Running', { status: { migrationState: state } });
  const newest = structuredClone(before);
  change(newest);
  return [before, newest];
}

const decisive: readonly (readonly [what: string, change: (vmi: VirtualMachineInstance) => void])[] = [
  ['another migration', ({ status }) => Object.assign(status?.migrationState ?? {}, { migrationUid: 'm2' })],
  ['a start', ({ status }) => Object.assign(status?.migrationState ?? {}, { startTimestamp: '2026-01-02T03:00:00Z' })],
  ['an end', ({ status }) => Object.assign(status?.migrationState ?? {}, { endTimestamp: '2026-01-02T03:00:00Z' })],
  ['a wish to abort', ({ status }) => Object.assign(status?.migrationState ?? {}, { abortRequested: true })],
  ['its completion', ({ status }) => Object.assign(status?.migrationState ?? {}, { completed: true })],
  ['its failure', ({ status }) => Object.assign(status?.migrationState ?? {}, { failed: true })],
  ['no migration any more', ({ status }) => delete status?.migrationState],
  [
    'another target',
    ({ metadata }) => Object.assign(metadata.labels ?? {}, { 'kubevirt.io/migrationTargetNodeName': 'n' }),
  ],
  ['another owner', ({ metadata }) => Object.assign(metadata.labels ?? {}, { 'kubevirt.io/nodeName': 'n' })],
  ['a deletion', ({ metadata }) => Object.assign(metadata, { deletionTimestamp: '2026-01-02T03:00:00Z' })],
];

for (const [what, change] of decisive) {
  test(`a decision does not survive a conflict that brings ${what}`, () => {
    assert.equal(stillHolds(...changed(change)), false);
  });
}

test('a decision survives a conflict that brings what no rule reads, and false for absent', () => {
  const harmless = changed((vmi) => {
    vmi.metadata.annotations = { touched: 'yes' };
    Object.assign(vmi.status?.migrationState ?? {}, { completed: false, migrationPolicyName: 'p' });
  });
  assert.equal(stillHolds(...harmless), true);
});

test('a decision is judged without a throw when the newest object has a migration state of a wrong type', () => {
  const [before, newest] = changed(({ status }) => Object.assign(status ?? {}, { migrationState: 'broken' }));
  assert.equal(stillHolds(before, newest), false);
});
