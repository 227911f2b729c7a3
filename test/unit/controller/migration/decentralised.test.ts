import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MigrationState, PersistentVolumeClaim } from '../../../../src/api/index.ts';
import { copiedVolumes, isDescribed } from '../../../../src/controller/migration/decentralised-facts.ts';
import {
  announced,
  described,
  failedForBoth,
  withTarget,
} from '../../../../src/controller/migration/decentralised-steps.ts';
import { decideMigration } from '../../../../src/controller/migration/decide.ts';
import { nextInLine, underWay } from '../../../../src/controller/migration/queue.ts';
import { rivalOf } from '../../../../src/controller/migration/siblings.ts';
import { projectMigration } from '../../../../src/controller/migration/write.ts';
import { readControllerConfig } from '../../../fixtures/cluster-config.ts';
import { base } from '../builders.ts';
import { buildTarget, halfOf, now, runningVmi, uid } from './situations.ts';

const renderers = { target: () => buildTarget(), attachment: () => buildTarget() };
const over = { migrationUid: 'uid-before', completed: true, sourceState: { node: 'old' }, targetState: { pod: 'old' } };

test('a half is announced over what an earlier migration has left, which the synchronization controllers would not touch', () => {
  const source = halfOf('source', 'Synchronizing');
  assert.deepEqual(announced(runningVmi(over), source), {
    sourceState: { migrationUID: uid, virtualMachineInstanceUID: 'uid-vmi', domainNamespace: 'default' },
    targetState: { syncAddress: '10.0.0.9:9185' },
  });
  const target = halfOf('target', 'WaitingForSync');
  assert.deepEqual(announced(runningVmi(over), target), { targetState: { migrationUID: uid } });
  const called = { sourceState: { migrationUID: 'uid-source-job', syncAddress: '10.0.0.8:9185' } };
  assert.deepEqual(announced(runningVmi(called), target), { ...called, targetState: { migrationUID: uid } });
});

test('a half takes over nothing of a migration whose object went without an end, and whose addresses lead elsewhere', () => {
  const left = {
    targetNode: 'node7',
    targetNodeAddress: '10.0.0.7',
    targetState: { pod: 'old', nodeAddress: '10.0.0.7' },
  };
  const source = halfOf('source', 'Synchronizing');
  const ofSource = announced(runningVmi(), source);
  assert.deepEqual(announced(runningVmi({ ...left, migrationUid: 'uid-gone' }), source), ofSource);
  assert.deepEqual(announced(runningVmi({ ...left, sourceState: { migrationUID: 'uid-gone' } }), source), ofSource);
  const target = halfOf('target', 'WaitingForSync');
  const called = { migrationUid: 'uid-gone', sourceState: { migrationUID: 'uid-other' } };
  assert.deepEqual(announced(runningVmi(called), target), { targetState: { migrationUID: uid } });
});

test('two halves that were made in the same second do not both write into their VMI', () => {
  const halfCalled = (name: string) => {
    const seen = halfOf('source', 'Synchronizing');
    const metadata = { ...seen.migration.metadata, name, uid: `uid-${name}` };
    return { ...seen, uid: `uid-${name}`, migration: { ...seen.migration, metadata } };
  };
  const halves = [halfCalled('b'), halfCalled('a')];
  const objects = halves.map(({ migration }) => migration);
  let vmi = runningVmi();
  const rules = [...halves, ...halves].map((half) => {
    const seen = { ...half, vmi, rival: rivalOf(half.migration, vmi, objects) };
    const { rule } = decideMigration(seen, renderers);
    if (rule === 'half-to-announce') vmi = { ...vmi, status: { ...vmi.status, migrationState: announced(vmi, seen) } };
    return `${seen.migration.metadata.name}: ${rule}`;
  });
  assert.deepEqual(rules, [
    'b: half-behind-another',
    'a: half-to-announce',
    'b: half-behind-another',
    'a: other-half-awaited',
  ]);
});

test('a half writes nothing into the state of another migration under way', () => {
  const under = { migrationUid: 'uid-other', targetNode: 'node2', startTimestamp: '2026-01-01T00:09:40Z' };
  const rival = { name: 'other', hasState: true };
  for (const phase of ['Synchronizing', 'Pending', 'Scheduling'] as const) {
    const { rule, steps } = decideMigration(halfOf('source', phase, { vmi: runningVmi(under), rival }), renderers);
    assert.deepEqual([rule, steps], ['half-behind-another', []]);
  }
});

test('a source that has failed takes the list of copied volumes back: launchers refuse a migration within the cluster for it', () => {
  const state = { sourceState: { migrationUID: uid }, targetState: { syncAddress: '10.0.0.9:9185' }, failed: true };
  const migratedVolumes = [{ volumeName: 'disk' }];
  const ruleWith = (migrationState: MigrationState, status = {}) =>
    decideMigration(halfOf('source', 'Failed', { vmi: runningVmi(migrationState, status) }), renderers).rule;
  assert.equal(ruleWith(state, { migratedVolumes }), 'copied-volumes-left');
  assert.equal(ruleWith(state), 'over');
  // Another half has listed them since.
  assert.equal(ruleWith({ ...state, sourceState: { migrationUID: 'uid-next' } }, { migratedVolumes }), 'over');
});

test('the source says where its guest is and which volumes are copied, and then has said it', () => {
  const claim: PersistentVolumeClaim = {
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'disk', namespace: 'default' } },
    spec: { accessModes: ['ReadWriteOnce'], volumeMode: 'Block', resources: { requests: { storage: '1Gi' } } },
    status: { phase: 'Bound', capacity: { storage: '2Gi' } },
  };
  const vmi = runningVmi(undefined, { selinuxContext: 'none' });
  vmi.spec.volumes = [
    { name: 'disk', persistentVolumeClaim: { claimName: 'disk' } },
    { name: 'seed', cloudInitNoCloud: { userData: '#' } },
  ];
  const seen = halfOf('source', 'Scheduling', { vmi, claims: new Map([['disk', claim]]) });
  const status = described(vmi, seen);
  const info = {
    claimName: 'disk',
    accessModes: ['ReadWriteOnce'],
    volumeMode: 'Block',
    requests: { storage: '1Gi' },
    capacity: { storage: '2Gi' },
  };
  assert.deepEqual(copiedVolumes(seen), [{ volumeName: 'disk', sourcePVCInfo: info, destinationPVCInfo: info }]);
  assert.deepEqual(status?.migratedVolumes, copiedVolumes(seen));
  const { sourceState, migrationUid, sourceNode, sourcePod } = status?.migrationState ?? {};
  assert.deepEqual([migrationUid, sourceNode, sourcePod], [uid, 'node1', 'virt-launcher-vm1-abcde']);
  assert.deepEqual([sourceState?.node, sourceState?.pod, sourceState?.selinuxContext], ['node1', sourcePod, 'none']);
  assert.ok(Object.keys(sourceState?.nodeSelectors ?? {}).length > 0, 'an empty map is lost on its way');
  assert.equal(isDescribed(seen), false);
  assert.equal(isDescribed({ ...seen, vmi: { ...vmi, status: status ?? {} } }), true);
  const withList = (migratedVolumes: object[]) =>
    isDescribed({ ...seen, vmi: { ...vmi, status: { ...status, migratedVolumes } } });
  // The synchronization controller puts the claim in it that the other side has: it is not written over.
  const there = { ...info, capacity: { storage: '3Gi' } };
  assert.equal(withList([{ volumeName: 'disk', sourcePVCInfo: info, destinationPVCInfo: there }]), true);
  assert.equal(withList([{ volumeName: 'disk', sourcePVCInfo: there, destinationPVCInfo: info }]), false);
  assert.equal(withList([]), false);
});

test('the hand-over keeps what the source said, and names the target for both', () => {
  const target = halfOf('target', 'Scheduled');
  const state = { sourceState: { node: 'node9', pod: 'there' }, targetState: { migrationUID: uid }, failed: true };
  const vmi = runningVmi(state);
  const written = withTarget(
    vmi,
    buildTarget(),
    { migrationUid: uid, targetNode: 'node2', sourceNode: 'node1' },
    target,
  );
  assert.deepEqual([written.sourceNode, written.sourcePod, written.failed], ['node9', 'there', undefined]);
  assert.deepEqual(written.targetState, {
    ...{ migrationUID: uid, node: 'node2', pod: 'target', virtualMachineInstanceUID: 'uid-vmi' },
    ...{ domainNamespace: 'default', domainName: 'vm1' },
  });
});

test('the other side believes a failure of the source only as the end of an abort', () => {
  assert.deepEqual(failedForBoth({}, halfOf('source', 'Scheduling')), {
    abortRequested: true,
    abortStatus: 'Succeeded',
  });
  assert.deepEqual(failedForBoth({}, halfOf('target', 'Scheduling')), {});
});

test('what is waited for is said with what the synchronization controller says, once', () => {
  const conditions = [{ type: 'DecentralizedLiveMigrationFailure', status: 'True', message: 'refused' } as const];
  const state = { sourceState: { migrationUID: uid }, targetState: { syncAddress: '10.0.0.9:9185' } };
  const seen = halfOf('source', 'Synchronizing', { vmi: runningVmi(state, { conditions }) });
  const { change } = decideMigration(seen, renderers);
  assert.ok(change?.kind === 'condition');
  assert.match(
    change.condition.message ?? '',
    /^no answer from 10\.0\.0\.9:9185: .*"move" has to exist there\. It says: refused$/,
  );
  const told = projectMigration(seen, change);
  assert.equal(decideMigration({ ...seen, migration: told }, renderers).change?.kind, 'keep');
  assert.deepEqual(
    projectMigration({ ...seen, migration: told }, { kind: 'phase', phase: 'Pending' }).status?.conditions,
    [],
  );
});

test('a migration names the addresses of the synchronization controllers here, as the KubeVirt object has them', () => {
  const of = (phase: 'Pending' | 'Failed', synchronizationAddresses: unknown) => {
    const kubevirt = {
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt' } },
      status: { phase: 'Deployed', synchronizationAddresses },
    };
    const seen = halfOf('target', phase, { config: readControllerConfig(kubevirt, base) });
    return projectMigration(seen, { kind: 'keep' }).status?.synchronizationAddresses;
  };
  assert.deepEqual(of('Pending', ['192.0.2.7:9185']), ['192.0.2.7:9185']);
  assert.equal(of('Failed', ['192.0.2.7:9185']), undefined);
  // CRDs of a cluster may be permissive.
  assert.deepEqual(of('Pending', ['192.0.2.7:9185', 7, null]), ['192.0.2.7:9185']);
  for (const malformed of ['192.0.2.7:9185', { length: 1 }, null, 7]) assert.equal(of('Pending', malformed), undefined);
});

test('the gate is off by default, and a node without a synchronization controller says so whatever gates are on', () => {
  const gates = { developerConfiguration: { featureGates: ['DecentralizedLiveMigration'] } };
  const read = (configuration: object, lacksSynchronization = false) =>
    readControllerConfig(
      {
        ...{ apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt' } },
        spec: { configuration },
        status: { phase: 'Deployed' },
      },
      { ...base, lacksSynchronization },
    ).noDecentralisedMigration;
  assert.match(read({}) ?? '', /feature gate DecentralizedLiveMigration/);
  assert.equal(read(gates), undefined);
  assert.match(read(gates, true) ?? '', /standalone node/);
});

test('a source takes no room before its target has its pod, and a target leaves no node', () => {
  const half = (end: 'source' | 'target', phase: 'Pending' | 'Scheduling' | 'Scheduled', name: string) => {
    const { migration } = halfOf(end, phase);
    return { ...migration, metadata: { ...migration.metadata, name, uid: `uid-${name}` } };
  };
  const depsOf = (all: ReturnType<typeof half>[]) => ({
    migrations: { list: () => all },
    vmis: { get: () => runningVmi() },
    ownPods: { list: () => [] },
    lastRuleOf: () => undefined,
  });
  const sources = depsOf([half('source', 'Scheduling', 'a'), half('source', 'Scheduled', 'b')]);
  assert.deepEqual(
    underWay(sources).map(({ metadata }) => metadata.name),
    ['b'],
  );
  const targets = depsOf(['a', 'b', 'c'].map((name) => half('target', 'Pending', name)));
  assert.equal(nextInLine(targets, { perCluster: 5, perNode: 2 }, now).length, 3);
  assert.equal(nextInLine(depsOf([half('source', 'Pending', 'a')]), { perCluster: 5, perNode: 2 }, now).length, 0);
});
