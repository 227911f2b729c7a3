import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import { type Observation, withMore } from '../../../../../src/agent/vmi/observe/index.ts';
import type { MigrationState } from '../../../../../src/api/index.ts';
import { domainNone, domainOf, node, nowMs, observationOf, seen } from '../../../../fixtures/agent/builders.ts';
import { asTarget, remembered } from '../../../../fixtures/agent/remembered.ts';
import { noMigration } from '../../../../fixtures/no-migration.ts';
import { coming, here } from './rule-rows/target.ts';

const notes = {
  ...noMigration,
  UID: 'm1',
  StartTimestamp: '2026-01-02T03:04:00Z',
  EndTimestamp: '2026-01-02T03:04:04Z',
};
const arrived = seen(domainOf('Running', 'Unknown', { Migration: notes }));
const prepared = remembered({ migration: asTarget({ preparedMs: nowMs - 1_000 }) });

const decided = (given: Partial<Observation>) => decide(observationOf({ memory: prepared, ...given }));

function handOver(state: MigrationState, migration = notes) {
  const domain = seen(domainOf('Running', 'Unknown', { Migration: migration }));
  return decided({ vmi: coming(state), domain }).patch;
}

test('target-hand-over writes owner, end, start and what goes with a new launcher, in one patch', () => {
  assert.deepEqual(handOver({ targetMemoryOverhead: '300Mi', targetNodeDomainDetected: true }), {
    labels: { 'kubevirt.io/nodeName': node, 'kubevirt.io/outdatedLauncherImage': null },
    annotations: { 'kubevirt.io/eviction-source': null },
    status: {
      nodeName: node,
      launcherContainerImageVersion: null,
      evacuationNodeName: null,
      migrationTransport: 'Unix',
      memory: { memoryOverhead: '300Mi' },
      migrationState: {
        targetNodeDomainReadyTimestamp: '2026-01-02T03:04:05Z',
        startTimestamp: '2026-01-02T03:04:00Z',
        endTimestamp: '2026-01-02T03:04:04Z',
      },
    },
    events: [{ type: 'Normal', reason: 'Migrated', message: `The VirtualMachineInstance migrated to node ${node}.` }],
  });
});

test('target-hand-over keeps a start that the source has written', () => {
  const state = handOver({ startTimestamp: '2026-01-02T03:00:00Z' })?.status?.migrationState as MigrationState;
  assert.equal(state.startTimestamp, undefined);
});

test('target-hand-over is not held up by a launcher whose time is no time: it is now', () => {
  const state = handOver({}, { ...notes, StartTimestamp: 'soon', EndTimestamp: 'yesterday' })?.status?.migrationState;
  const { startTimestamp, endTimestamp } = state as MigrationState;
  assert.deepEqual([startTimestamp, endTimestamp], ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05Z']);
});

test('target-hand-over writes the mirrors where targetState exists', () => {
  const state = handOver({ targetState: { pod: 'p' } })?.status?.migrationState as MigrationState;
  assert.deepEqual(state.targetState, { domainDetected: true, domainReadyTimestamp: '2026-01-02T03:04:05Z' });
});

test('target-publish takes the ports of an earlier agent out by name', () => {
  const published = { targetNodeAddress: '10.0.0.1', targetDirectMigrationNodePorts: { '30000': 0, '30001': 49_152 } };
  const migrationProxies = {
    ...observationOf().migrationProxies,
    targetPorts: { '40000': 0, '40001': 49_152 } as const,
  };
  const { patch } = decided({ vmi: coming(published), domain: domainNone, migrationProxies });
  assert.deepEqual(patch?.status?.migrationState, {
    targetNodeAddress: '10.0.0.1',
    targetDirectMigrationNodePorts: { '30000': null, '30001': null, '40000': 0, '40001': 49_152 },
  });
});

test('target-begun forgets what belongs to an earlier stay: what was sent, signalled, killed, deleted and decided', () => {
  const memory = remembered({
    cleaned: true,
    synced: { fingerprint: 'same', atMs: 1 },
    shutdown: { firstMs: 1, deadlineMs: 2, lastSignalMs: 1 },
    killedMs: 1,
    deletedMs: 1,
    finalPhase: { phase: 'Failed', because: 'long ago' },
  });
  const { rule, remember } = decided({ vmi: coming(), domain: { kind: 'absent' }, memory });
  assert.equal(rule, 'target-begun');
  const after = withMore(memory, remember ?? {});
  assert.deepEqual(after, remembered({ migration: asTarget() }));
});

test('arrived-finalized writes completed, what was plugged in, and takes the traces of the hot-plug away', () => {
  const memory = remembered({ migration: asTarget({ finalized: { cpus: 'failed', memory: 'refused' } }) });
  const { patch } = decided({ vmi: here(), domain: arrived, memory });
  assert.deepEqual(patch, {
    labels: {
      'kubevirt.io/vmi-pod-cpu-resource-limits': null,
      'kubevirt.io/vmi-pod-memory-resource-requests': null,
      'kubevirt.io/memory-hotplug-overhead-ratio': null,
    },
    status: { migratedVolumes: null, migrationState: { completed: true } },
    removeConditions: ['HotVCPUChange', 'VolumesChange', 'HotMemoryChange'],
    setConditions: [
      {
        type: 'HotVCPUChangeFailed',
        status: 'True',
        reason: 'CPU Hotplug Failed',
        message: 'the launcher could not change the vCPUs: the event HotPlugFailed says why',
      },
    ],
  });
});

test('arrived-finalized sets block tracking back: the disks here have no checkpoints', () => {
  const vmi = here(undefined, ({ status }) =>
    Object.assign(status ?? {}, { changedBlockTracking: { state: 'Enabled' } }),
  );
  const memory = remembered({ migration: asTarget({ finalized: {} }) });
  const { patch } = decided({ vmi, domain: arrived, memory });
  assert.deepEqual(patch?.status?.changedBlockTracking, { state: 'Initializing' });
});

test('arrived-label-dropped keeps the mark of a VMI made to receive a guest when its migration failed', () => {
  const failed = here({ endTimestamp: '2026-01-02T03:04:04Z', completed: true, failed: true });
  assert.equal(decided({ vmi: failed, domain: arrived }).patch?.annotations, undefined);
  const succeeded = here({ endTimestamp: '2026-01-02T03:04:04Z', completed: true });
  const dropped = { 'kubevirt.io/create-migration-target': null };
  assert.deepEqual(decided({ vmi: succeeded, domain: arrived }).patch?.annotations, dropped);
});
