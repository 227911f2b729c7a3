import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  annotations,
  type MigrationStatus,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../../src/api/index.ts';
import { moveRow } from '../../../src/web/move-row.ts';
import { nodeRow } from '../../../src/web/node-row.ts';
import { vmRow } from '../../../src/web/vm-row.ts';

const migration = (uid: string, status: MigrationStatus, metadata = {}): VirtualMachineInstanceMigration => ({
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachineInstanceMigration',
  metadata: { name: uid, namespace: 'default', uid, creationTimestamp: '2026-01-02T03:00:00Z', ...metadata },
  spec: { vmiName: 'vm' },
  status,
});

const state = { migrationUid: 'm2', sourceNode: 'a', targetNode: 'b' };
const progress = {
  ...{ migration: 'm2', mode: 'PreCopy', ports: [1], processedBytes: 2, remainingBytes: 3, bytesPerSecond: 4 },
  at: '2026-01-02T03:00:00Z',
};
const vmi = {
  metadata: { name: 'vm', uid: 'u', annotations: { [annotations.migrationProgress]: JSON.stringify(progress) } },
  spec: {},
  status: { phase: 'Running', nodeName: 'a', migrationState: state },
} as unknown as VirtualMachineInstance;

const failed = migration('m1', {
  phase: 'Failed',
  phaseTransitionTimestamps: [{ phase: 'Failed', phaseTransitionTimestamp: '2026-01-02T03:01:00Z' }],
  conditions: [{ type: 'migrationFailed', status: 'True', reason: 'TargetPodEnded', message: 'its pod ended' }],
  migrationState: { targetNode: 'b' },
});

test('a machine without migrations has no move', () => {
  assert.equal(moveRow([], vmi), undefined);
  assert.equal(vmRow(undefined, vmi)?.move, undefined);
});

test('the one under way counts before those that ended, with the nodes and the progress of its instance', () => {
  const running = migration('m2', { phase: 'Running' }, { creationTimestamp: '2026-01-01T00:00:00Z' });
  assert.deepEqual(moveRow([failed, running], vmi), {
    ...{ kind: 'under-way', phase: 'Running', from: 'a', to: 'b', isCancelled: false, progress },
  });
  const another = migration('m3', { phase: 'Pending' }, { deletionTimestamp: '2026-01-02T03:00:00Z' });
  assert.deepEqual(moveRow([another], vmi), { kind: 'under-way', phase: 'Pending', isCancelled: true });
});

test('one that waits says for what', () => {
  const conditions = [
    { type: 'migrationTargetPodUnschedulable', status: 'True', message: 'no node takes it' } as const,
  ];
  const move = moveRow([migration('m3', { phase: 'Scheduling', conditions })], vmi);
  assert.equal(move?.kind === 'under-way' && move.waitsFor, 'no node takes it');
});

test('the newest that ended is the result: arrived with its time, or failed with its reason', () => {
  const arrived = migration(
    'm0',
    {
      phase: 'Succeeded',
      phaseTransitionTimestamps: [{ phase: 'Succeeded', phaseTransitionTimestamp: '2026-01-02T04:00:09Z' }],
      migrationState: {
        ...{ sourceNode: 'b', targetNode: 'a' },
        ...{ startTimestamp: '2026-01-02T04:00:00Z', endTimestamp: '2026-01-02T04:00:08Z' },
      },
    },
    { creationTimestamp: '2026-01-02T04:00:00Z' },
  );
  assert.deepEqual(moveRow([failed, arrived], vmi), {
    ...{ kind: 'arrived', from: 'b', to: 'a', at: '2026-01-02T04:00:09Z', tookMs: 8_000 },
  });
  const reason = 'its pod ended';
  assert.deepEqual(moveRow([failed], vmi), { kind: 'failed', to: 'b', at: '2026-01-02T03:01:00Z', reason });
});

test('nonsense in a status is a move all the same, and hides no line', () => {
  const odd = migration('m', {
    phase: 'Failed',
    phaseTransitionTimestamps: 'x',
    conditions: 7,
  } as unknown as MigrationStatus);
  assert.equal(vmRow(undefined, vmi, [odd])?.move?.kind, 'failed');
});

const now = new Date('2026-01-02T03:10:00Z');
const node = (spec: object, metadata: object) => nodeRow({ metadata: { name: 'a', ...metadata }, spec } as never, now);
const beat = (at: string) => ({
  annotations: { [annotations.heartbeat]: `"${at}"` },
  labels: { 'kubevirt.io/schedulable': 'true' },
});

test('a node is ready while its agent beats and takes machines; a cordon is something else', () => {
  assert.deepEqual(node({}, beat('2026-01-02T03:09:00Z')), { name: 'a', agent: 'ready', isCordoned: false });
  assert.deepEqual(node({ unschedulable: true }, beat('2026-01-02T03:09:00Z')), {
    ...{ name: 'a', agent: 'ready', isCordoned: true },
  });
  const { annotations: heard } = beat('2026-01-02T03:09:00Z');
  const reason = { 'virt-handler.kubevirt.io/unschedulable-reason': 'AgentStarting: reads' };
  assert.deepEqual(node({}, { annotations: { ...heard, ...reason }, labels: { 'kubevirt.io/schedulable': 'false' } }), {
    ...{ name: 'a', agent: 'not-ready', isCordoned: false, reason: 'AgentStarting: reads' },
  });
});

test('an agent that has not been heard of for minutes is away, whatever it wrote last', () => {
  assert.equal(node({}, beat('2026-01-02T03:07:00Z')).agent, 'away');
  assert.equal(node({}, {}).agent, 'away');
  assert.equal(node({}, beat('when?')).agent, 'away');
});
