import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Condition, VirtualMachineInstance, VmiStatus } from '../../../../src/api/index.ts';
import { planUpdates, type UpdateFacts } from '../../../../src/controller/workload-update/plan.ts';
import { readStrategy, type Strategy } from '../../../../src/controller/workload-update/strategy.ts';
import { buildVmi } from '../builders.ts';
import { buildMigration } from '../migration/situations.ts';

const both: Strategy = { mayMigrate: true, mayEvict: true, batchSize: 10, batchIntervalMs: 60_000 };
const migratable: Condition = { type: 'LiveMigratable', status: 'True' };
const is = (type: string, status: 'True' | 'False' = 'True'): VmiStatus => ({
  conditions: [migratable, { type, status }],
});
const outdated: VmiStatus = { launcherContainerImageVersion: 'virt-launcher:old' };

function guest(status: VmiStatus = {}, metadata: Partial<VirtualMachineInstance['metadata']> = {}) {
  return buildVmi(
    {},
    { phase: 'Running', conditions: [migratable], launcherContainerImageVersion: 'new', ...status },
    metadata,
  );
}

function planned(more: Partial<UpdateFacts>) {
  const facts = { vmis: [], migrations: [], strategy: both, launcherImage: 'new', migrationsPerCluster: 5 };
  const { migrate, evict, abort, hasMore } = planUpdates({
    ...facts,
    sinceBatchMs: undefined,
    random: () => 0.5,
    ...more,
  });
  const names = (vmis: readonly VirtualMachineInstance[]) => vmis.map(({ metadata }) => metadata.name);
  return {
    migrate: names(migrate),
    evict: names(evict),
    abort: abort.map(({ migration }) => migration.metadata.name),
    hasMore,
  };
}

const own = (phase: 'Pending' | 'Running' | 'Failed', annotation = 'kubevirt.io/workloadUpdateMigration') => {
  const migration = buildMigration(phase);
  return { ...migration, metadata: { ...migration.metadata, annotations: { [annotation]: '' } } };
};
const stop = { annotations: { 'kubevirt.io/testWorkloadUpdateMigrationAbortion': '' } };
const without = { ...both, mayMigrate: false };
const moving = { migrationState: { startTimestamp: '2026-01-01T00:00:00Z' } };
const ready = { migrationState: { targetNodeDomainReadyTimestamp: '2026-01-01T00:00:00Z' } };

/** What is the matter; what becomes of the one guest. */
const cases: Readonly<
  Record<string, readonly [facts: Partial<UpdateFacts>, action: 'migrate' | 'evict' | 'abort' | 'nothing']>
> = {
  'it has all it wants': [{ vmis: [guest()] }, 'nothing'],
  'CPUs wait for it': [{ vmis: [guest(is('HotVCPUChange'))] }, 'migrate'],
  'CPUs could not be plugged, and the condition stays': [{ vmis: [guest(is('HotVCPUChange', 'False'))] }, 'migrate'],
  'memory waits for it': [{ vmis: [guest(is('HotMemoryChange'))] }, 'migrate'],
  'memory could not be plugged': [{ vmis: [guest(is('HotMemoryChange', 'False'))] }, 'nothing'],
  'a network waits for it': [{ vmis: [guest(is('MigrationRequired'))] }, 'migrate'],
  'a network may still come without it': [{ vmis: [guest(is('MigrationRequired', 'False'))] }, 'nothing'],
  'volumes move to other claims': [{ vmis: [guest(is('VolumesChange'))] }, 'migrate'],
  'its launcher is of an older image': [{ vmis: [guest(outdated)] }, 'migrate'],
  'its image is not known yet': [{ vmis: [guest({ launcherContainerImageVersion: '' })] }, 'nothing'],
  'it has ended': [{ vmis: [guest({ ...outdated, phase: 'Failed' })] }, 'nothing'],
  'it is being deleted': [{ vmis: [guest(outdated, { deletionTimestamp: '2026-01-01T00:00:00Z' })] }, 'nothing'],
  'it is on its way': [{ vmis: [guest({ ...outdated, ...moving })] }, 'nothing'],
  'a migration waits': [{ vmis: [guest(is('HotVCPUChange'))], migrations: [own('Pending')] }, 'nothing'],
  'the last migration has failed': [{ vmis: [guest(is('HotVCPUChange'))], migrations: [own('Failed')] }, 'migrate'],
  'an older image, it cannot migrate': [{ vmis: [guest({ ...outdated, conditions: [] })] }, 'evict'],
  'an older image, only evictions are allowed': [{ vmis: [guest(outdated)], strategy: without }, 'evict'],
  'CPUs wait, only evictions are allowed': [{ vmis: [guest(is('HotVCPUChange'))], strategy: without }, 'nothing'],
  'evictions were a moment ago': [{ vmis: [guest(outdated)], strategy: without, sinceBatchMs: 59_000 }, 'nothing'],
  'evictions were a minute ago': [{ vmis: [guest(outdated)], strategy: without, sinceBatchMs: 60_000 }, 'evict'],
  'nothing waits any more': [{ vmis: [guest()], migrations: [own('Pending')] }, 'abort'],
  'nothing waits any more, and a person migrates it': [
    { vmis: [guest()], migrations: [buildMigration('Pending')] },
    'nothing',
  ],
  'nothing waits any more, and it has arrived': [{ vmis: [guest(ready)], migrations: [own('Running')] }, 'nothing'],
  'it is not to be updated': [{ vmis: [guest(is('HotVCPUChange'), stop)] }, 'nothing'],
  'it is not to be updated any more': [
    { vmis: [guest(is('HotVCPUChange'), stop)], migrations: [own('Running')] },
    'abort',
  ],
};

for (const [what, [facts, action]] of Object.entries(cases)) {
  test(`a guest is ${action === 'nothing' ? 'left alone' : `to ${action}`}: ${what}`, () => {
    const { migrate, evict, abort } = planned(facts);
    const done = { migrate: migrate.length, evict: evict.length, abort: abort.length };
    const none = { migrate: 0, evict: 0, abort: 0 };
    assert.deepEqual(done, action === 'nothing' ? none : { ...none, [action]: 1 });
  });
}

test('no more migrations are made than can begin, those that users wait for first, and evictions come in batches', () => {
  const crowd = Array.from({ length: 8 }, (_, number) => guest(outdated, { name: `old-${number}` }));
  const urgent = guest(is('HotMemoryChange'), { name: 'urgent' });
  const other = (number: number, phase: 'Running' | 'Pending', migration = buildMigration(phase)) => ({
    ...migration,
    spec: { vmiName: `other-${number}` },
  });
  const running = [other(1, 'Running'), other(2, 'Running'), other(3, 'Pending'), other(4, 'Pending', own('Pending'))];
  const { migrate, hasMore } = planned({ vmis: [...crowd, urgent], migrations: running });
  assert.deepEqual([migrate.length, migrate[0], hasMore], [2, 'urgent', true]);
  const evicted = planned({ vmis: crowd, strategy: { ...without, batchSize: 3 } });
  assert.deepEqual([evicted.evict.length, evicted.hasMore], [3, true]);
});

const kubevirt = (strategy: unknown, status: object = {}) => ({
  apiVersion: 'kubevirt.io/v1',
  kind: 'KubeVirt',
  metadata: { name: 'kubevirt' },
  spec: { workloadUpdateStrategy: strategy },
  status: { phase: 'Deployed', ...status },
});

test('what the administrator allows is read with defaults, and nothing while KubeVirt is being updated or says nothing', () => {
  const methods = { workloadUpdateMethods: ['LiveMigrate', 'Evict'] };
  assert.deepEqual(readStrategy(kubevirt(methods)), both);
  assert.deepEqual(readStrategy(kubevirt({ ...methods, batchEvictionSize: 3, batchEvictionInterval: '2m0s' })), {
    ...both,
    batchSize: 3,
    batchIntervalMs: 120_000,
  });
  for (const wrong of [undefined, {}, 'x', { workloadUpdateMethods: 'LiveMigrate' }, { workloadUpdateMethods: [] }]) {
    assert.equal(readStrategy(kubevirt(wrong)), undefined);
  }
  assert.equal(readStrategy(kubevirt(methods, { phase: 'Deploying' })), undefined);
  assert.equal(readStrategy(kubevirt(methods, { observedDeploymentID: 'a', targetDeploymentID: 'b' })), undefined);
  assert.equal(readStrategy(undefined), undefined);
});
